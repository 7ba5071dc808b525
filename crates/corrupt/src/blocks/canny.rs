//! Canny edges of a byte image in integer arithmetic.

use super::border::Border;

/// tan(22.5 degrees) in 1/32768.
const TAN_22: i32 = 13573;

/// Marks the edges of `grey`: gradient peaks above `low` that are 8-connected to one above `high`.
///
/// 3 x 3 Sobel with repeated edge pixels, magnitude `|gx| + |gy|`, magnitude 0 outside the image.
pub fn canny(grey: &[u8], width: usize, height: usize, low: i32, high: i32) -> Vec<bool> {
    let (gradient, magnitude) = sobel(grey, width, height);
    let stride = width + 2;
    // Magnitudes carry a frame of zeros, so `at` needs no bounds of its own.
    let mut state = vec![Peak::None; stride * (height + 2)];
    let mut strong = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let here = (y + 1) * stride + x + 1;
            let value = magnitude[here];
            if value <= low {
                continue;
            }
            let (gx, gy) = gradient[y * width + x];
            let (ax, ay) = (gx.abs(), gy.abs() << 15);
            let at_22 = ax * TAN_22;
            let at_67 = at_22 + (ax << 16);
            let peak = if ay < at_22 {
                value > magnitude[here - 1] && value >= magnitude[here + 1]
            } else if ay > at_67 {
                value > magnitude[here - stride] && value >= magnitude[here + stride]
            } else {
                let lean = if (gx ^ gy) >= 0 { stride + 1 } else { stride - 1 };
                value > magnitude[here - lean] && value > magnitude[here + lean]
            };
            if peak && value > high {
                state[here] = Peak::Edge;
                strong.push(here);
            } else if peak {
                state[here] = Peak::Candidate;
            }
        }
    }
    while let Some(here) = strong.pop() {
        for row in [here - stride, here, here + stride] {
            for next in row - 1..=row + 1 {
                if state[next] == Peak::Candidate {
                    state[next] = Peak::Edge;
                    strong.push(next);
                }
            }
        }
    }
    let mut edges = Vec::with_capacity(grey.len());
    for row in state.chunks_exact(stride).skip(1).take(height) {
        edges.extend(row[1..=width].iter().map(|&peak| peak == Peak::Edge));
    }
    edges
}

#[derive(Clone, Copy, PartialEq)]
enum Peak {
    None,
    Candidate,
    Edge,
}

/// The gradient of every pixel, and its magnitude inside a one-pixel frame of zeros.
fn sobel(grey: &[u8], width: usize, height: usize) -> (Vec<(i32, i32)>, Vec<i32>) {
    let mut gradient = Vec::with_capacity(grey.len());
    let mut magnitude = vec![0; (width + 2) * (height + 2)];
    for y in 0..height {
        let rows = [-1, 0, 1].map(|dy| &grey[Border::Repeat.map(y as isize + dy, height) * width..][..width]);
        let framed = &mut magnitude[(y + 1) * (width + 2) + 1..][..width];
        for (x, slot) in framed.iter_mut().enumerate() {
            let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
            let at = |row: usize, column: usize| i32::from(rows[row][column]);
            let gx = (at(0, right) - at(0, left)) + 2 * (at(1, right) - at(1, left)) + (at(2, right) - at(2, left));
            let gy = (at(2, left) - at(0, left)) + 2 * (at(2, x) - at(0, x)) + (at(2, right) - at(0, right));
            gradient.push((gx, gy));
            *slot = gx.abs() + gy.abs();
        }
    }
    (gradient, magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_image_has_no_edges() {
        assert!(!canny(&[9; 35], 7, 5, 50, 150).contains(&true));
    }

    #[test]
    fn a_step_gives_one_column_of_edges() {
        let grey: Vec<u8> = (0..6 * 8).map(|i| if i % 8 < 4 { 0 } else { 200 }).collect();
        let edges = canny(&grey, 8, 6, 50, 150);
        for row in edges.chunks_exact(8) {
            assert_eq!(row.iter().filter(|&&edge| edge).count(), 1);
            assert!(row[3]);
        }
    }
}
