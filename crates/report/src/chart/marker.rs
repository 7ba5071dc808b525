/// The shape of a point. Series differ in shape as well as in colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle pointing up.
    Triangle,
    /// A plus.
    Plus,
    /// A star with five points.
    Star,
}

/// The markers of series, in order.
const ORDER: [Marker; 5] = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Plus];

impl Marker {
    /// The marker of a series.
    pub fn of_series(number: usize) -> Self {
        ORDER[number % ORDER.len()]
    }

    /// Corners around the origin, for a marker as large as a disc of this radius; `None` for the disc.
    pub fn corners(self, radius: f64) -> Option<Vec<(f64, f64)>> {
        let r = radius;
        let corners = match self {
            Self::Circle => return None,
            Self::Square => {
                let s = 0.88 * r;
                vec![(-s, -s), (s, -s), (s, s), (-s, s)]
            }
            Self::Diamond => {
                let s = 1.25 * r;
                vec![(0.0, -s), (s, 0.0), (0.0, s), (-s, 0.0)]
            }
            Self::Triangle => {
                let s = 1.3 * r;
                vec![(0.0, -s), (0.92 * s, 0.62 * s), (-0.92 * s, 0.62 * s)]
            }
            Self::Plus => {
                let (s, t) = (1.2 * r, 0.42 * r);
                vec![
                    (-t, -s),
                    (t, -s),
                    (t, -t),
                    (s, -t),
                    (s, t),
                    (t, t),
                    (t, s),
                    (-t, s),
                    (-t, t),
                    (-s, t),
                    (-s, -t),
                    (-t, -t),
                ]
            }
            Self::Star => {
                let corner = |i: usize| {
                    let angle = std::f64::consts::PI * (i as f64 / 5.0 - 0.5);
                    let s = if i.is_multiple_of(2) { 1.4 * r } else { 0.6 * r };
                    (s * angle.cos(), s * angle.sin())
                };
                (0..10).map(corner).collect()
            }
        };
        Some(corners)
    }
}
