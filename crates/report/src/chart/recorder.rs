use super::font::Font;
use super::{Anchor, Item, Marker, Paint, Scene};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};
use std::convert::Infallible;

/// Plotters counts in whole units. With ten to the pixel nothing visible is rounded away.
pub(super) const UNITS: i32 = 10;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// What plotters draws on: it notes primitives instead of making pixels.
pub(super) struct Recorder<'a> {
    pub scene: &'a mut Scene,
    font: Font,
}

impl<'a> Recorder<'a> {
    pub fn new(scene: &'a mut Scene) -> Self {
        Self { scene, font: Font::new() }
    }

    pub fn push(&mut self, item: Item) {
        self.scene.items.push(item);
    }
}

/// Units to pixels.
pub(super) fn pixels((x, y): BackendCoord) -> (f64, f64) {
    (f64::from(x) / f64::from(UNITS), f64::from(y) / f64::from(UNITS))
}

fn stroke_width(style: &impl BackendStyle) -> f64 {
    f64::from(style.stroke_width()) / f64::from(UNITS)
}

impl DrawingBackend for Recorder<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        let units = |x: f64| (x * f64::from(UNITS)).round() as u32;
        (units(self.scene.width), units(self.scene.height))
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    /// Vector drawings have no pixels; nothing that is drawn here asks for one.
    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> Drawn {
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        if fill {
            return self.fill_polygon(corners, style);
        }
        self.draw_path(corners.into_iter().chain([(left, top)]), style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        if style.color().alpha > 0.0 {
            self.push(Item::Line {
                points: path.into_iter().map(pixels).collect(),
                paint: Paint::from_backend(style.color()),
                width: stroke_width(style),
                dashed: false,
                opacity: 1.0,
            });
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, _: bool) -> Drawn {
        self.push(Item::Dot {
            at: pixels(center),
            marker: Marker::Circle,
            radius: f64::from(radius) / f64::from(UNITS),
            paint: Paint::from_backend(style.color()),
            opacity: style.color().alpha,
            moves: false,
        });
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, vert: I, style: &S) -> Drawn {
        if style.color().alpha > 0.0 {
            self.push(Item::Area {
                points: vert.into_iter().map(pixels).collect(),
                paint: Paint::from_backend(style.color()),
                opacity: style.color().alpha,
            });
        }
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, pos: BackendCoord) -> Drawn {
        let size = style.size() / f64::from(UNITS);
        let anchor = style.anchor();
        // How far below the anchor the base line lies.
        let drop = match anchor.v_pos {
            VPos::Top => 0.76 * size,
            VPos::Center => 0.35 * size,
            VPos::Bottom => -0.2 * size,
        };
        let (x, y) = pixels(pos);
        let upwards = matches!(style.transform(), FontTransform::Rotate270);
        let at = if upwards { (x + drop, y) } else { (x, y + drop) };
        self.push(Item::Text {
            at,
            text: text.to_owned(),
            size,
            anchor: match anchor.h_pos {
                HPos::Left => Anchor::Start,
                HPos::Center => Anchor::Middle,
                HPos::Right => Anchor::End,
            },
            upwards,
            paint: Paint::from_backend(style.color()),
        });
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = self.font.width(text, style.size());
        Ok((width.ceil() as u32, style.size().ceil() as u32))
    }
}
