use std::fmt;
use ttf_parser::{Face, OutlineBuilder};

/// The file of the font charts are drawn with; see `assets/README.md`.
pub const FONT: &[u8] = include_bytes!("../../assets/Roboto-Regular.subset.ttf");

/// The font of PNG files, and the widths every layout reckons with.
pub(super) struct Font {
    face: Face<'static>,
}

/// A step along the outline of a glyph, in pixels.
pub(super) enum Segment {
    Move(f32, f32),
    Line(f32, f32),
    Quad(f32, f32, f32, f32),
    Cubic(f32, f32, f32, f32, f32, f32),
    Close,
}

impl Font {
    pub fn new() -> Self {
        Self { face: Face::parse(FONT, 0).expect("the font was tested when it was put here") }
    }

    /// Width of `text` in pixels at this size.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        let advances = text.chars().map(|c| f64::from(self.advance(c)));
        advances.sum::<f64>() * size / f64::from(self.face.units_per_em())
    }

    fn advance(&self, character: char) -> u16 {
        let glyph = self.face.glyph_index(character).unwrap_or_default();
        self.face.glyph_hor_advance(glyph).unwrap_or(0)
    }

    /// The outline of `text`, from the origin to the right, `y` downwards.
    pub fn outline(&self, text: &str, size: f64) -> Vec<Segment> {
        let mut outline =
            Outline { scale: size as f32 / f32::from(self.face.units_per_em()), x: 0.0, segments: Vec::new() };
        for character in text.chars() {
            let glyph = self.face.glyph_index(character).unwrap_or_default();
            // A space has no outline.
            let _ = self.face.outline_glyph(glyph, &mut outline);
            outline.x += f32::from(self.advance(character)) * outline.scale;
        }
        outline.segments
    }
}

impl fmt::Debug for Font {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Font")
    }
}

struct Outline {
    scale: f32,
    x: f32,
    segments: Vec<Segment>,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.segments.push(Segment::Move(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.segments.push(Segment::Line(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.segments.push(Segment::Quad(x1, y1, x, y));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.segments.push(Segment::Cubic(x1, y1, x2, y2, x, y));
    }

    fn close(&mut self) {
        self.segments.push(Segment::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_add_up_and_grow_with_the_size() {
        let font = Font::new();
        let (a, b) = (font.width("accuracy", 12.0), font.width(" 90%", 12.0));
        assert!((font.width("accuracy 90%", 12.0) - a - b).abs() < 1e-9);
        assert!((font.width("accuracy", 24.0) - 2.0 * a).abs() < 1e-9);
        assert!(a > 40.0 && a < 60.0, "{a}");
    }

    #[test]
    fn letters_have_outlines_and_spaces_none() {
        let font = Font::new();
        assert!(font.outline(" ", 12.0).is_empty());
        assert!(!font.outline("Δé%", 12.0).is_empty());
        // A character the font lacks is a box, not nothing.
        assert!(!font.outline("語", 12.0).is_empty());
    }
}
