use crate::parallel::map_ranges;
use crate::products::{STRIP, StripRow, multiply_strips};
use crate::softmax::write_probs;
use crate::symmetric::symmetric_eigenvalues;
use crate::{EstimateError, Outputs, Score};
use std::sync::Mutex;

/// Rows of a panel; two of its strips fit a first-level cache.
const DEPTH: usize = 128;

/// Panels that are filled before their products are summed.
const PANELS: usize = 8;

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
    let mut gram = match classes <= images {
        true => sum_products(images, classes, |panel, range| fill_from_images(outputs, panel, range)),
        false => sum_products(classes, images, |panel, range| fill_from_classes(outputs, panel, range)),
    };
    let values = symmetric_eigenvalues(&mut gram, side)?;
    let largest = values.iter().copied().fold(0.0, f64::max);
    let least = largest * f64::EPSILON * side as f64;
    let sum: f64 = values.iter().filter(|v| **v > least).map(|v| v.sqrt()).sum();
    let value = sum / (side as f64 * images as f64).sqrt();
    Ok(Score::of_images(value, images))
}

/// The sum of `row' row` over the rows of a matrix; only blocks on and below the diagonal are filled.
///
/// `fill` writes a range of at most [`DEPTH`] rows into a panel: per strip of columns, `DEPTH` rows, so that what is multiplied lies
/// together. Entries it leaves alone are zero.
fn sum_products(
    rows: usize,
    columns: usize,
    fill: impl Fn(&mut [StripRow], std::ops::Range<usize>) + Sync,
) -> Vec<f64> {
    let strips = columns.div_ceil(STRIP);
    let mut gram = vec![0.0; columns * columns];
    for start in (0..rows).step_by(PANELS * DEPTH) {
        let count = (rows - start).min(PANELS * DEPTH);
        let panels = map_ranges(0, count, DEPTH, |range| {
            let mut panel = vec![StripRow::ZERO; strips * DEPTH];
            let depth = range.len();
            fill(&mut panel, start + range.start..start + range.end);
            (panel, depth)
        });
        let targets: Vec<Mutex<&mut [f64]>> = gram.chunks_mut(STRIP * columns).map(Mutex::new).collect();
        map_ranges(0, strips, 1, |range| {
            // The last strips have most products and come first.
            let left = strips - 1 - range.start;
            let mut target = targets[left].lock().expect("no thread panics");
            for (panel, depth) in &panels {
                add_products(&mut target, columns, panel, left, *depth);
            }
        });
    }
    gram
}

/// Adds the products of one strip with those up to it, over the first `depth` rows of a panel.
fn add_products(target: &mut [f64], columns: usize, panel: &[StripRow], left: usize, depth: usize) {
    let strip = |at: usize| &panel[at * DEPTH..][..depth];
    for right in 0..=left {
        let block = multiply_strips(strip(left), strip(right));
        let width = STRIP.min(columns - right * STRIP);
        for (row, sums) in target.chunks_exact_mut(columns).zip(&block) {
            let sums = &sums.0[..width];
            row[right * STRIP..][..width].iter_mut().zip(sums).for_each(|(t, s)| *t += s);
        }
    }
}

/// A panel whose rows are images.
fn fill_from_images(outputs: &Outputs, panel: &mut [StripRow], images: std::ops::Range<usize>) {
    let mut probs = vec![0.0; outputs.classes()];
    for (at, image) in images.enumerate() {
        write_probs(outputs.row(image), &outputs.summaries()[image], &mut probs);
        for (strip, values) in probs.chunks(STRIP).enumerate() {
            panel[strip * DEPTH + at].0[..values.len()].copy_from_slice(values);
        }
    }
}

/// A panel whose rows are classes.
fn fill_from_classes(outputs: &Outputs, panel: &mut [StripRow], classes: std::ops::Range<usize>) {
    let mut probs = vec![0.0; classes.len()];
    for (image, row) in outputs.rows().enumerate() {
        write_probs(&row[classes.clone()], &outputs.summaries()[image], &mut probs);
        for (at, p) in probs.iter().enumerate() {
            panel[image / STRIP * DEPTH + at].0[image % STRIP] = *p;
        }
    }
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
