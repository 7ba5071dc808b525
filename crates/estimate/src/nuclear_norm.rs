use crate::symmetric::symmetric_eigenvalues;
use crate::{EstimateError, Outputs, Score};

/// Rows of the panels in which products are summed; a panel of 1,000 columns stays in a second-level cache.
const DEPTH: usize = 256;

/// Columns of a strip.
const STRIP: usize = 4;

/// The largest smaller side; the matrix of products then takes 512 MiB.
const MAX_SIDE: usize = 8192;

/// Nuclear norm: confidence and dispersity of predictions in one number.
///
/// *Idea.* Predictions that are both sure and spread over all classes make the prediction matrix large in every direction.
/// *Formula.* `|P|_* / sqrt(min(n, K) n)`, the sum of the singular values of the `n x K` matrix of probabilities; it lies in `[0, 1]`.
/// *Reference.* Deng et al., "Confidence and Dispersity Speak: Characterizing Prediction Matrix for Unsupervised Accuracy
/// Estimation", ICML 2023.
/// *Departures from the reference.* Singular values are square roots of the eigenvalues of `P'P` or `PP'`, whichever is smaller;
/// those that rounding cannot tell from 0 count as 0. Each is exact to about 1e-8 of the largest.
pub fn nuclear_norm(outputs: &Outputs) -> Result<Score, EstimateError> {
    let (images, classes) = (outputs.images(), outputs.classes());
    let side = images.min(classes);
    if side > MAX_SIDE {
        return Err(EstimateError::TooMany { what: "images and classes", found: side, expected: MAX_SIDE });
    }
    let mut gram = Gram::new(side);
    if classes <= images {
        sum_over_images(outputs, &mut gram);
    } else {
        sum_over_classes(outputs, &mut gram);
    }
    let size = gram.width;
    let values = symmetric_eigenvalues(&mut gram.products, size)?;
    let largest = values.iter().copied().fold(0.0, f64::max);
    let least = largest * f64::EPSILON * size as f64;
    let sum: f64 = values.iter().filter(|v| **v > least).map(|v| v.sqrt()).sum();
    let value = sum / (side as f64 * images as f64).sqrt();
    Ok(Score::of_images(value, images))
}

/// `P'P`: panels of images.
fn sum_over_images(outputs: &Outputs, gram: &mut Gram) {
    let mut probs = Vec::with_capacity(outputs.classes());
    for image in 0..outputs.images() {
        outputs.probs_into(image, &mut probs);
        gram.push(probs.iter().copied());
    }
    gram.flush();
}

/// `PP'`: panels of classes.
fn sum_over_classes(outputs: &Outputs, gram: &mut Gram) {
    let (images, classes) = (outputs.images(), outputs.classes());
    let mut all = Vec::with_capacity(images * classes);
    let mut probs = Vec::with_capacity(classes);
    for image in 0..images {
        outputs.probs_into(image, &mut probs);
        all.extend_from_slice(&probs);
    }
    for class in 0..classes {
        gram.push(all[class..].iter().step_by(classes).copied());
    }
    gram.flush();
}

/// The sum of `row' row` over the rows pushed, in strips so that the inner loop reads what lies together.
struct Gram {
    /// Columns, rounded up to whole strips; those added hold zeros.
    width: usize,
    /// `width x width`; only blocks on and below the diagonal are filled.
    products: Vec<f64>,
    /// The current panel: per strip, `DEPTH` rows of `STRIP` columns.
    panel: Vec<[f64; STRIP]>,
    /// Rows in the panel.
    rows: usize,
}

impl Gram {
    fn new(columns: usize) -> Self {
        let width = columns.next_multiple_of(STRIP);
        Self { width, products: vec![0.0; width * width], panel: vec![[0.0; STRIP]; width / STRIP * DEPTH], rows: 0 }
    }

    /// Adds a row to the panel, and the panel to the products if it is full.
    fn push(&mut self, row: impl Iterator<Item = f64>) {
        for (column, value) in row.enumerate() {
            self.panel[column / STRIP * DEPTH + self.rows][column % STRIP] = value;
        }
        self.rows += 1;
        if self.rows == DEPTH {
            self.flush();
        }
    }

    /// Adds the panel to the products.
    fn flush(&mut self) {
        let strips: Vec<&[[f64; STRIP]]> = self.panel.chunks_exact(DEPTH).map(|strip| &strip[..self.rows]).collect();
        for (i, left) in strips.iter().enumerate() {
            for (j, right) in strips[..=i].iter().enumerate() {
                let block = multiply_strips(left, right);
                for (row, sums) in block.iter().enumerate() {
                    let at = (i * STRIP + row) * self.width + j * STRIP;
                    let target = self.products[at..at + STRIP].iter_mut();
                    target.zip(sums).for_each(|(t, s)| *t += s);
                }
            }
        }
        self.rows = 0;
    }
}

/// The products of the columns of two strips.
fn multiply_strips(left: &[[f64; STRIP]], right: &[[f64; STRIP]]) -> [[f64; STRIP]; STRIP] {
    let mut sums = [[0.0; STRIP]; STRIP];
    for (a, b) in left.iter().zip(right) {
        for row in 0..STRIP {
            for column in 0..STRIP {
                sums[row][column] += a[row] * b[column];
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    /// Singular values by one-sided Jacobi rotations, which work on the matrix itself.
    fn singular_values(outputs: &Outputs) -> Vec<f64> {
        let mut columns: Vec<Vec<f64>> = vec![Vec::new(); outputs.classes()];
        let mut probs = Vec::new();
        for image in 0..outputs.images() {
            outputs.probs_into(image, &mut probs);
            columns.iter_mut().zip(&probs).for_each(|(c, p)| c.push(*p));
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        for _ in 0..30 {
            for i in 1..columns.len() {
                for j in 0..i {
                    let (aa, bb) = (dot(&columns[i], &columns[i]), dot(&columns[j], &columns[j]));
                    let ab = dot(&columns[i], &columns[j]);
                    if ab == 0.0 {
                        continue;
                    }
                    let zeta = (bb - aa) / (2.0 * ab);
                    let tan = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                    let cos = tan.hypot(1.0).recip();
                    let sin = cos * tan;
                    for row in 0..columns[i].len() {
                        let (a, b) = (columns[i][row], columns[j][row]);
                        columns[i][row] = cos * a - sin * b;
                        columns[j][row] = sin * a + cos * b;
                    }
                }
            }
        }
        columns.iter().map(|c| dot(c, c).sqrt()).collect()
    }

    #[test]
    fn it_equals_the_sum_of_singular_values() {
        let mut random = SplitMix64::new(41);
        // Wide, tall, square, and more rows than a panel holds.
        for (images, classes) in [(5, 17), (40, 6), (9, 9), (DEPTH + 45, 11)] {
            let (outputs, _) = labelled_outputs(&mut random, images, classes, 2.0);
            let side = images.min(classes) as f64;
            let expected = singular_values(&outputs).iter().sum::<f64>() / (side * images as f64).sqrt();
            let found = nuclear_norm(&outputs).unwrap().value;
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn sure_and_even_predictions_reach_1() {
        let logits = (0..6).flat_map(|i| (0..3).map(move |k| if i % 3 == k { 900.0 } else { 0.0 })).collect();
        let outputs = Outputs::new(logits, 3).unwrap();
        assert!((nuclear_norm(&outputs).unwrap().value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_direction_is_as_small_as_it_gets() {
        // All rows uniform: one singular value, sqrt(n / K).
        let outputs = Outputs::new(vec![0.0; 60], 6).unwrap();
        let expected = (10.0f64 / 6.0).sqrt() / 60f64.sqrt();
        assert!((nuclear_norm(&outputs).unwrap().value - expected).abs() < 1e-12);
        let single = Outputs::new(vec![4.0], 1).unwrap();
        assert!((nuclear_norm(&single).unwrap().value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn only_the_smaller_side_is_limited() {
        let outputs = Outputs::new(vec![0.0; 2 * (MAX_SIDE + 1)], 2).unwrap();
        assert!(nuclear_norm(&outputs).is_ok());
    }
}
