use super::font::{Font, Segment};
use super::{Anchor, Item, Paint, Scene, Theme};
use crate::ReportError;
use tiny_skia::{Color, FillRule, LineJoin, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

/// Most pixels of a picture.
const MAX_PIXELS: f64 = 100e6;

/// The scene as the bytes of a PNG file, with `scale` pixels where the scene has one.
pub fn to_png(scene: &Scene, theme: Theme, scale: f64) -> Result<Vec<u8>, ReportError> {
    let (width, height) = ((scene.width * scale).ceil(), (scene.height * scale).ceil());
    let fits = width >= 1.0 && height >= 1.0 && width * height <= MAX_PIXELS;
    let pixmap = fits.then(|| Pixmap::new(width as u32, height as u32)).flatten();
    let mut pixmap = pixmap.ok_or(ReportError::Size { width, height })?;
    let [red, green, blue] = Paint::Paper.rgb(theme);
    pixmap.fill(Color::from_rgba8(red, green, blue, 255));
    let mut canvas =
        Canvas { pixmap, theme, scale: Transform::from_scale(scale as f32, scale as f32), font: Font::new() };
    for item in &scene.items {
        canvas.draw(item);
    }
    encode(&canvas.pixmap)
}

struct Canvas {
    pixmap: Pixmap,
    theme: Theme,
    scale: Transform,
    font: Font,
}

impl Canvas {
    fn draw(&mut self, item: &Item) {
        match item {
            Item::Open { .. } | Item::Close => {}
            Item::Line { points, paint, width, dashed, opacity } => {
                let Some(path) = polygon(points, (0.0, 0.0), false) else {
                    return;
                };
                let stroke = Stroke {
                    width: *width as f32,
                    line_join: LineJoin::Round,
                    dash: dashed.then(|| StrokeDash::new(vec![5.0, 4.0], 0.0)).flatten(),
                    ..Stroke::default()
                };
                let paint = self.paint(*paint, *opacity);
                self.pixmap.stroke_path(&path, &paint, &stroke, self.scale, None);
            }
            Item::Area { points, paint, opacity } => {
                self.fill(polygon(points, (0.0, 0.0), true), *paint, *opacity, self.scale)
            }
            Item::Dot { at, marker, radius, paint, opacity, .. } => {
                let path = match marker.corners(*radius) {
                    Some(corners) => polygon(&corners, *at, true),
                    None => PathBuilder::from_circle(at.0 as f32, at.1 as f32, *radius as f32),
                };
                self.fill(path, *paint, *opacity, self.scale);
            }
            Item::Text { at, text, size, anchor, upwards, paint } => {
                let width = self.font.width(text, *size);
                let start = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => -0.5 * width,
                    Anchor::End => -width,
                };
                let path = glyphs(&self.font.outline(text, *size));
                let mut transform = self.scale.pre_translate(at.0 as f32, at.1 as f32);
                if *upwards {
                    transform = transform.pre_rotate(-90.0);
                }
                self.fill(path, *paint, 1.0, transform.pre_translate(start as f32, 0.0));
            }
        }
    }

    fn fill(&mut self, path: Option<Path>, paint: Paint, opacity: f64, transform: Transform) {
        if let Some(path) = path {
            let paint = self.paint(paint, opacity);
            self.pixmap.fill_path(&path, &paint, FillRule::Winding, transform, None);
        }
    }

    fn paint(&self, paint: Paint, opacity: f64) -> tiny_skia::Paint<'static> {
        let [red, green, blue] = paint.rgb(self.theme);
        let mut paint = tiny_skia::Paint::default();
        paint.set_color_rgba8(red, green, blue, (255.0 * opacity).round() as u8);
        paint.anti_alias = true;
        paint
    }
}

fn polygon(points: &[(f64, f64)], (dx, dy): (f64, f64), closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (number, (x, y)) in points.iter().enumerate() {
        let (x, y) = ((x + dx) as f32, (y + dy) as f32);
        if number == 0 {
            builder.move_to(x, y);
        } else {
            builder.line_to(x, y);
        }
    }
    if closed {
        builder.close();
    }
    builder.finish()
}

fn glyphs(segments: &[Segment]) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for segment in segments {
        match *segment {
            Segment::Move(x, y) => builder.move_to(x, y),
            Segment::Line(x, y) => builder.line_to(x, y),
            Segment::Quad(x1, y1, x, y) => builder.quad_to(x1, y1, x, y),
            Segment::Cubic(x1, y1, x2, y2, x, y) => builder.cubic_to(x1, y1, x2, y2, x, y),
            Segment::Close => builder.close(),
        }
    }
    builder.finish()
}

/// The ground is opaque, so that three channels are enough.
fn encode(pixmap: &Pixmap) -> Result<Vec<u8>, ReportError> {
    let rgb: Vec<u8> = pixmap.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&rgb));
    written.map_err(|source| ReportError::Png { source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Marker;

    #[test]
    fn a_dot_has_its_colour_and_the_ground_its_own() {
        let mut scene = Scene::new(20.0, 10.0, "");
        scene.items.push(Item::Dot {
            at: (10.0, 5.0),
            marker: Marker::Circle,
            radius: 3.0,
            paint: Paint::Series(0),
            opacity: 1.0,
            moves: false,
        });
        for theme in [Theme::Light, Theme::Dark] {
            let bytes = to_png(&scene, theme, 2.0).expect("small");
            let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG file");
            let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
            let info = reader.next_frame(&mut pixels).expect("whole");
            assert_eq!((info.width, info.height), (40, 20));
            let at = |x: usize, y: usize| &pixels[3 * (40 * y + x)..][..3];
            assert_eq!(at(20, 10), Paint::Series(0).rgb(theme));
            assert_eq!(at(2, 2), Paint::Paper.rgb(theme));
        }
    }

    #[test]
    fn a_size_no_memory_holds_is_refused() {
        let scene = Scene::new(1e7, 1e7, "");
        let refused = to_png(&scene, Theme::Light, 1.0);
        assert!(matches!(refused, Err(ReportError::Size { .. })));
    }
}
