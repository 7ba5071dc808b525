//! Bilinear warp with coordinates rounded to 1/32 pixel.

use multiversion::multiversion;

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
        let (ia, ib, id, ie) = (e / determinant, -b / determinant, -d / determinant, a / determinant);
        Some(Self([[ia, ib, -(ia * c + ib * f)], [id, ie, -(id * c + ie * f)]]))
    }
}

/// Moves every pixel of `source` (RGB and a fourth sample that nobody reads) by `forward`; what comes from outside is
/// mirrored without repeating the edge. A map without an inverse leaves the picture unchanged.
pub fn warp_affine(source: &[[f32; 4]], width: usize, height: usize, forward: &Affine) -> Vec<[f32; 4]> {
    match forward.inverse() {
        Some(backward) => warp_back(source, width, height, &backward),
        None => source.to_vec(),
    }
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn warp_back(source: &[[f32; 4]], width: usize, height: usize, backward: &Affine) -> Vec<[f32; 4]> {
    let Affine([[a, b, c], [d, e, f]]) = *backward;
    let per_column: Vec<(i64, i64)> = (0..width).map(|j| (fixed(a * j as f64), fixed(d * j as f64))).collect();
    let mut out = vec![[0.0; 4]; source.len()];
    for (i, line) in out.chunks_exact_mut(width).enumerate() {
        let row_x = fixed(b * i as f64 + c) + 16;
        let row_y = fixed(e * i as f64 + f) + 16;
        for (pixel, (column_x, column_y)) in line.iter_mut().zip(&per_column) {
            let (sx, sy) = ((row_x + column_x) >> 5, (row_y + column_y) >> 5);
            let (fx, fy) = ((sx & 31) as f32 / 32.0, (sy & 31) as f32 / 32.0);
            let (x, y) = ((sx >> 5) as isize, (sy >> 5) as isize);
            let left = Border::Mirror101.map(x, width);
            let right = Border::Mirror101.map(x + 1, width);
            let upper = width * Border::Mirror101.map(y, height);
            let lower = width * Border::Mirror101.map(y + 1, height);
            let (p, q) = (source[upper + left], source[upper + right]);
            let (r, s) = (source[lower + left], source[lower + right]);
            for k in 0..4 {
                pixel[k] = p[k] * ((1.0 - fy) * (1.0 - fx))
                    + q[k] * ((1.0 - fy) * fx)
                    + r[k] * (fy * (1.0 - fx))
                    + s[k] * (fy * fx);
            }
        }
    }
    out
}

/// In 1/1024 pixel.
#[inline(always)]
fn fixed(value: f64) -> i64 {
    (value * 1024.0).round_ties_even() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_and_singular_maps_change_nothing() {
        let source: Vec<[f32; 4]> = (0..5 * 4).map(|v| [v as f32 / 20.0; 4]).collect();
        assert_eq!(warp_affine(&source, 5, 4, &Affine::IDENTITY), source);
        assert_eq!(warp_affine(&source, 5, 4, &Affine([[0.0; 3]; 2])), source);
    }

    #[test]
    fn a_shift_moves_the_picture_and_mirrors_the_border() {
        let source: Vec<[f32; 4]> = (0..4).map(|v| [v as f32; 4]).collect();
        let shifted = warp_affine(&source, 4, 1, &Affine([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]));
        let first_channel: Vec<f32> = shifted.iter().map(|pixel| pixel[0]).collect();
        assert_eq!(first_channel, [1.0, 0.0, 1.0, 2.0]);
    }
}
