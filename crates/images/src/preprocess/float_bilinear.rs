use super::{Normalise, Size};
use crate::Image;

/// The two neighbours of an output position and the second one's share.
struct Between {
    low: usize,
    high: usize,
    share: f32,
}

/// Half-pixel centres, edges clamped.
fn positions(input: usize, output: usize) -> Vec<Between> {
    let scale = input as f32 / output as f32;
    (0..output)
        .map(|i| {
            let at = (scale * (i as f32 + 0.5) - 0.5).max(0.0);
            let low = (at as usize).min(input - 1);
            Between { low, high: (low + 1).min(input - 1), share: at - low as f32 }
        })
        .collect()
}

/// Enlarges or shrinks `image` to `size` on float pixels and normalises the result into `out`.
pub(super) fn resize_normalised(image: &Image, size: Size, rule: &Normalise, out: &mut [f32]) {
    let columns = positions(image.width(), size.width);
    let rows = positions(image.height(), size.height);
    let pixel = |x: usize, y: usize, c: usize| f32::from(image.rgb()[3 * (y * image.width() + x) + c]);
    for (row, values) in rows.iter().zip(out.chunks_exact_mut(3 * size.width)) {
        for (column, value) in columns.iter().zip(values.chunks_exact_mut(3)) {
            for c in 0..3 {
                let line =
                    |y: usize| (1.0 - column.share) * pixel(column.low, y, c) + column.share * pixel(column.high, y, c);
                let level = (1.0 - row.share) * line(row.low) + row.share * line(row.high);
                value[c] = rule.value(level, c);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_mixes_neighbours_three_to_one() {
        let image = Image::new(2, 1, vec![0, 0, 0, 100, 100, 100]).unwrap();
        let rule = Normalise::Bytes { offset: 0.0, divisor: 1.0 };
        let mut out = [0.0; 12];
        let size = Size { width: 4, height: 1 };
        resize_normalised(&image, size, &rule, &mut out);
        let reds: Vec<f32> = out.chunks(3).map(|p| p[0]).collect();
        assert_eq!(reds, [0.0, 25.0, 75.0, 100.0]);
    }
}
