use super::axis::LARGEST;
use super::recorder::{Recorder, pixels};
use super::{Anchor, Item, Marker, Paint};
use plotters::element::{Drawable, PointCollection};
use plotters_backend::{BackendCoord, DrawingErrorKind};
use std::convert::Infallible;

/// How the points of a mark are joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarkShape {
    /// The first point; a line from the second to the third, if there are any.
    Dot {
        /// The shape.
        marker: Marker,
        /// Pixels.
        radius: f64,
        /// 0 to 1.
        opacity: f64,
        /// Whether it moves from frame to frame.
        moves: bool,
    },
    /// A line.
    Line {
        /// Pixels.
        width: f64,
        /// Whether it is dashed.
        dashed: bool,
    },
    /// A filled polygon.
    Area {
        /// 0 to 1.
        opacity: f64,
    },
    /// The title itself, starting at the first point.
    Label,
}

/// Something drawn at places of the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The places.
    pub points: Vec<(f64, f64)>,
    /// How they are drawn.
    pub shape: MarkShape,
    /// With which colour.
    pub paint: Paint,
    /// What the mark says to the reader who points at it; empty for helping lines.
    pub title: String,
}

impl Mark {
    /// A point of a series.
    pub fn dot(at: (f64, f64), series: usize, title: String) -> Self {
        Self {
            points: vec![at],
            shape: MarkShape::Dot { marker: Marker::of_series(series), radius: 4.0, opacity: 0.9, moves: false },
            paint: Paint::Series(series),
            title,
        }
    }

    /// The same with an interval from `low` to `high` upwards.
    #[must_use]
    pub fn with_interval(mut self, low: f64, high: f64) -> Self {
        let x = self.points[0].0;
        self.points.extend([(x, low), (x, high)]);
        self
    }

    /// A line of a series.
    pub fn line(points: Vec<(f64, f64)>, series: usize, title: String) -> Self {
        Self { points, shape: MarkShape::Line { width: 2.0, dashed: false }, paint: Paint::Series(series), title }
    }

    /// A dashed line that says how to read the chart.
    pub fn guide(points: Vec<(f64, f64)>, title: &str) -> Self {
        Self {
            points,
            shape: MarkShape::Line { width: 1.2, dashed: true },
            paint: Paint::Muted,
            title: title.to_owned(),
        }
    }

    /// Words in the chart.
    pub fn label(at: (f64, f64), text: &str) -> Self {
        Self { points: vec![at], shape: MarkShape::Label, paint: Paint::Ink, title: text.to_owned() }
    }

    /// Whether it has places, all of them within what can be drawn.
    pub fn is_drawable(&self) -> bool {
        let drawable = |(x, y): &(f64, f64)| x.abs() <= LARGEST && y.abs() <= LARGEST;
        !self.points.is_empty() && self.points.iter().all(drawable)
    }
}

impl<'a> PointCollection<'a, (f64, f64)> for &'a Mark {
    type Point = &'a (f64, f64);
    type IntoIter = std::slice::Iter<'a, (f64, f64)>;

    fn point_iter(self) -> Self::IntoIter {
        self.points.iter()
    }
}

impl Drawable<Recorder<'_>> for Mark {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        pos: I,
        backend: &mut Recorder<'_>,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let points: Vec<(f64, f64)> = pos.map(pixels).collect();
        let titled = !self.title.is_empty() && self.shape != MarkShape::Label;
        if titled {
            backend.push(Item::Open { title: self.title.clone() });
        }
        let paint = self.paint;
        match self.shape {
            MarkShape::Dot { marker, radius, opacity, moves } => {
                let (at, interval) = (points[0], &points[1..]);
                if !interval.is_empty() {
                    backend.push(Item::Line {
                        points: interval.to_vec(),
                        paint,
                        width: 1.2,
                        dashed: false,
                        // Many wide intervals must not hide the points.
                        opacity: 0.55,
                    });
                }
                backend.push(Item::Dot { at, marker, radius, paint, opacity, moves });
            }
            MarkShape::Line { width, dashed } => {
                backend.push(Item::Line { points, paint, width, dashed, opacity: 1.0 })
            }
            MarkShape::Area { opacity } => backend.push(Item::Area { points, paint, opacity }),
            MarkShape::Label => backend.push(Item::Text {
                at: points[0],
                text: self.title.clone(),
                size: 12.0,
                anchor: Anchor::Start,
                upwards: false,
                paint,
            }),
        }
        if titled {
            backend.push(Item::Close);
        }
        Ok(())
    }
}
