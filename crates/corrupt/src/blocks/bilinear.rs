//! Bilinear sampling with black outside the image.

/// An array of RGB samples that can be read between pixels.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    values: &'a [f32],
    width: usize,
    height: usize,
}

impl<'a> Samples<'a> {
    /// `values` as rows of `width` RGB pixels.
    pub fn new(values: &'a [f32], width: usize) -> Self {
        Self { values, width, height: values.len() / (3 * width) }
    }

    /// The colour at row `y`, column `x`; a neighbour outside the image counts as black.
    #[inline]
    pub fn at(&self, y: f64, x: f64) -> [f64; 3] {
        let (row, column) = (y.floor(), x.floor());
        let (fy, fx) = (y - row, x - column);
        let (row, column) = (row as isize, column as isize);
        let corners = [(row, column), (row, column + 1), (row + 1, column), (row + 1, column + 1)]
            .map(|(row, column)| self.pixel(row, column));
        std::array::from_fn(|channel| {
            let [a, b, c, d] = corners.map(|pixel| pixel[channel]);
            let top = a * (1.0 - fx) + b * fx;
            let bottom = c * (1.0 - fx) + d * fx;
            top * (1.0 - fy) + bottom * fy
        })
    }

    #[inline]
    fn pixel(&self, row: isize, column: isize) -> [f64; 3] {
        let inside = (0..self.height as isize).contains(&row) && (0..self.width as isize).contains(&column);
        if !inside {
            return [0.0; 3];
        }
        let start = 3 * (row as usize * self.width + column as usize);
        std::array::from_fn(|channel| f64::from(self.values[start + channel]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halfway_out_of_the_image_is_half_as_bright() {
        let values = [8.0_f32; 12];
        let samples = Samples::new(&values, 2);
        assert_eq!(samples.at(0.5, 0.5), [8.0; 3]);
        assert_eq!(samples.at(-0.5, 0.0), [4.0; 3]);
        assert_eq!(samples.at(1.5, 1.5), [2.0; 3]);
        assert_eq!(samples.at(f64::from(u32::MAX), 0.0), [0.0; 3]);
    }
}
