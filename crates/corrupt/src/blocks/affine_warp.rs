//! Bilinear warp with coordinates rounded to 1/32 pixel.

use super::border::Border;

/// An affine map `(x, y) -> (m[0][0] x + m[0][1] y + m[0][2], m[1][0] x + m[1][1] y + m[1][2])`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine(pub [[f64; 3]; 2]);

impl Affine {
    /// The map that leaves every point where it is.
    pub const IDENTITY: Self = Self([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);

    /// The inverse map, or `None` where the plane collapses to a line.
    pub fn inverse(&self) -> Option<Self> {
        let [[a, b, c], [d, e, f]] = self.0;
        let determinant = a * e - b * d;
        if determinant == 0.0 || !determinant.is_finite() {
            return None;
        }
        let (ia, ib, id, ie) = (
            e / determinant,
            -b / determinant,
            -d / determinant,
            a / determinant,
        );
        Some(Self([
            [ia, ib, -(ia * c + ib * f)],
            [id, ie, -(id * c + ie * f)],
        ]))
    }
}

/// Moves every pixel of `source` (RGB floats) by `forward`; what comes from outside is mirrored without repeating the
/// edge. A map without an inverse leaves the picture unchanged.
pub fn warp_affine(source: &[f32], width: usize, height: usize, forward: &Affine) -> Vec<f32> {
    let Some(Affine([[a, b, c], [d, e, f]])) = forward.inverse() else {
        return source.to_vec();
    };
    let fixed = |v: f64| (v * 1024.0).round_ties_even() as i64;
    let per_column: Vec<(i64, i64)> = (0..width)
        .map(|j| (fixed(a * j as f64), fixed(d * j as f64)))
        .collect();
    let mut out = Vec::with_capacity(source.len());
    for i in 0..height {
        let row_x = fixed(b * i as f64 + c) + 16;
        let row_y = fixed(e * i as f64 + f) + 16;
        for (column_x, column_y) in &per_column {
            let (sx, sy) = ((row_x + column_x) >> 5, (row_y + column_y) >> 5);
            let (fx, fy) = ((sx & 31) as f32 / 32.0, (sy & 31) as f32 / 32.0);
            let (x, y) = ((sx >> 5) as isize, (sy >> 5) as isize);
            let columns = [x, x + 1].map(|x| 3 * Border::Mirror101.map(x, width));
            let rows = [y, y + 1].map(|y| 3 * width * Border::Mirror101.map(y, height));
            let weights = [
                (1.0 - fy) * (1.0 - fx),
                (1.0 - fy) * fx,
                fy * (1.0 - fx),
                fy * fx,
            ];
            for channel in 0..3 {
                let at = |row: usize, column: usize| source[rows[row] + columns[column] + channel];
                out.push(
                    at(0, 0) * weights[0]
                        + at(0, 1) * weights[1]
                        + at(1, 0) * weights[2]
                        + at(1, 1) * weights[3],
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_and_singular_maps_change_nothing() {
        let source: Vec<f32> = (0..5 * 4 * 3).map(|v| v as f32 / 60.0).collect();
        assert_eq!(warp_affine(&source, 5, 4, &Affine::IDENTITY), source);
        assert_eq!(warp_affine(&source, 5, 4, &Affine([[0.0; 3]; 2])), source);
    }

    #[test]
    fn a_shift_moves_the_picture_and_mirrors_the_border() {
        let source: Vec<f32> = (0..4).flat_map(|v| [v as f32; 3]).collect();
        let shifted = warp_affine(&source, 4, 1, &Affine([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]));
        let first_channel: Vec<f32> = shifted.chunks_exact(3).map(|pixel| pixel[0]).collect();
        assert_eq!(first_channel, [1.0, 0.0, 1.0, 2.0]);
    }
}
