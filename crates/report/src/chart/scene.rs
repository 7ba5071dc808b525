use super::{Marker, Paint};

/// Which part of a text its position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// A primitive. Positions are pixels from the upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// What follows up to [`Item::Close`] is one mark, and this is what it says.
    Open {
        /// For the reader who points at it.
        title: String,
    },
    /// The mark ends.
    Close,
    /// A line through points.
    Line {
        /// Where it goes.
        points: Vec<(f64, f64)>,
        /// Its colour.
        paint: Paint,
        /// Its width.
        width: f64,
        /// Whether it is dashed.
        dashed: bool,
        /// 0 to 1.
        opacity: f64,
    },
    /// A filled polygon.
    Area {
        /// Its corners.
        points: Vec<(f64, f64)>,
        /// Its colour.
        paint: Paint,
        /// 0 to 1.
        opacity: f64,
    },
    /// A point of a series.
    Dot {
        /// Its centre.
        at: (f64, f64),
        /// Its shape.
        marker: Marker,
        /// Its radius.
        radius: f64,
        /// Its colour.
        paint: Paint,
        /// 0 to 1.
        opacity: f64,
        /// Whether it moves from frame to frame.
        moves: bool,
    },
    /// A line of text.
    Text {
        /// Its anchor, on the base line.
        at: (f64, f64),
        /// What it says.
        text: String,
        /// Its size.
        size: f64,
        /// Which part of it lies at `at`.
        anchor: Anchor,
        /// Whether it runs upwards.
        upwards: bool,
        /// Its colour.
        paint: Paint,
    },
}

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Pixels.
    pub width: f64,
    /// Pixels.
    pub height: f64,
    /// What it says to those who do not see it.
    pub label: String,
    /// What is drawn, first to last.
    pub items: Vec<Item>,
}

impl Scene {
    /// An empty one.
    pub fn new(width: f64, height: f64, label: &str) -> Self {
        Self { width, height, label: label.to_owned(), items: Vec::new() }
    }

    /// Puts another drawing into this one.
    pub fn place(&mut self, other: Self, x: f64, y: f64) {
        for mut item in other.items {
            item.shift(x, y);
            self.items.push(item);
        }
    }

    /// Where the dots are that move, in order.
    pub fn moving(&self) -> Vec<(f64, f64)> {
        let moving = self.items.iter().filter_map(|item| match item {
            Item::Dot { at, moves: true, .. } => Some(*at),
            _ => None,
        });
        moving.collect()
    }

    /// Marks and dots outside of marks: what a chart has to show.
    pub fn marks(&self) -> usize {
        let is_mark = |item: &&Item| matches!(item, Item::Open { .. } | Item::Dot { .. });
        self.items.iter().filter(is_mark).count()
    }
}

impl Item {
    fn shift(&mut self, dx: f64, dy: f64) {
        let moved = |at: &mut (f64, f64)| *at = (at.0 + dx, at.1 + dy);
        match self {
            Self::Open { .. } | Self::Close => {}
            Self::Line { points, .. } | Self::Area { points, .. } => {
                points.iter_mut().for_each(moved);
            }
            Self::Dot { at, .. } | Self::Text { at, .. } => moved(at),
        }
    }
}
