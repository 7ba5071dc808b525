//! Two-pass 5 x 5 chamfer distance in 16.16 fixed point.

use multiversion::multiversion;

/// One pixel sideways, in 1/65536 pixel.
pub const ONE: i32 = 1 << 16;
/// One pixel diagonally: 1.4.
const DIAGONAL: i32 = 91750;
/// A knight's move: 2.1969.
const KNIGHT: i32 = 143_976;
/// Farther than any path, with room for one more step.
const FAR: i32 = i32::MAX / 2;
/// Frame around the map that stands for "no edge out here".
const FRAME: usize = 2;

/// The distance of every pixel to the nearest marked one, in 1/65536 pixel; a huge value where none is marked.
pub fn chamfer_distance(marked: &[bool], width: usize, height: usize) -> Vec<i32> {
    let stride = width + 2 * FRAME;
    let mut map = vec![FAR; stride * (height + 2 * FRAME)];
    let mut nearest = vec![FAR; width];
    for y in 0..height {
        let (above, here) = map.split_at_mut((y + FRAME) * stride);
        let (far, near) = (&above[y * stride..][..stride], &above[(y + 1) * stride..][..stride]);
        neighbours(far, near, &mut nearest);
        let row = &mut here[FRAME..FRAME + width];
        let mut left = FAR;
        for ((value, &candidate), &edge) in row.iter_mut().zip(&nearest).zip(&marked[y * width..]) {
            left = if edge { 0 } else { candidate.min(left + ONE) };
            *value = left;
        }
    }
    for y in (0..height).rev() {
        let (here, below) = map.split_at_mut((y + FRAME + 1) * stride);
        let (near, far) = (&below[..stride], &below[stride..2 * stride]);
        neighbours(far, near, &mut nearest);
        let row = &mut here[(y + FRAME) * stride + FRAME..][..width];
        let mut right = FAR;
        for (value, &candidate) in row.iter_mut().zip(&nearest).rev() {
            right = (*value).min(candidate).min(right + ONE);
            *value = right;
        }
    }
    let mut distances = Vec::with_capacity(marked.len());
    for row in map.chunks_exact(stride).skip(FRAME).take(height) {
        distances.extend_from_slice(&row[FRAME..FRAME + width]);
    }
    distances
}

/// The shortest way to each pixel through the two rows on one side of it.
#[multiversion(targets("x86_64+avx2+fma"))]
fn neighbours(far: &[i32], near: &[i32], nearest: &mut [i32]) {
    let width = nearest.len();
    let shifted = |row: &'_ [i32], by: usize, x: usize| row[x + by];
    for (x, slot) in nearest.iter_mut().enumerate().take(width) {
        let knights = shifted(far, 1, x).min(shifted(far, 3, x)).min(shifted(near, 0, x)).min(shifted(near, 4, x));
        let diagonals = shifted(near, 1, x).min(shifted(near, 3, x));
        *slot = (knights + KNIGHT).min(diagonals + DIAGONAL).min(near[x + 2] + ONE).min(FAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cost_what_they_should() {
        let mut marked = vec![false; 49];
        marked[24] = true;
        let map = chamfer_distance(&marked, 7, 7);
        let at = |dy: isize, dx: isize| map[((3 + dy) * 7 + 3 + dx) as usize];
        assert_eq!(at(0, 0), 0);
        assert_eq!(at(0, 2), 2 * ONE);
        assert_eq!(at(-1, 1), DIAGONAL);
        assert_eq!(at(2, 1), KNIGHT);
        assert_eq!(at(-3, -3), 3 * DIAGONAL);
    }

    #[test]
    fn nothing_marked_is_far_from_everywhere() {
        assert!(chamfer_distance(&[false; 12], 4, 3).iter().all(|&d| d > 1000 * ONE));
    }
}
