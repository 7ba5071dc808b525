use crate::Outputs;
use crate::parallel::map_ranges;
use crate::softmax::write_single_probs;
use multiversion::multiversion;
use std::sync::Mutex;

/// Rounds end when the marginal moves by less than this in total variation.
const STILL: f64 = 1e-5;

/// Rounds end here in any case; later ones fit single images rather than classes.
const MOST_ROUNDS: usize = 200;

/// Sums that run side by side, so that they fit vector registers.
const LANES: usize = 32;

/// Images that are added up in one pass over the classes.
const ROWS: usize = 4;

/// Images whose probabilities one thread writes at a time.
const STEP: usize = 128;

/// The marginal under which the predicted probabilities are likeliest.
///
/// *Idea.* If only the class shares changed, each probability changes by the ratio of its class's new share to the old one.
/// Reweigh the probabilities, take their mean as new shares, and repeat.
/// *Formula.* `q_k <- mean_i p_ik w_k / sum_j p_ij w_j` with `w_k = q_k / reference_k`, from `q = reference`.
/// *Reference.* Saerens, Latinne and Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori Probabilities",
/// Neural Computation 2002.
/// *Departures from the reference.* At most 200 rounds. A class the reference excludes stays excluded. Probabilities are kept in
/// single precision, sums in double.
///
/// The reference must be one share per class.
pub(super) fn estimate_em(outputs: &Outputs, reference: &[f64]) -> Vec<f64> {
    Probs::new(outputs).estimate(0, 1, reference)
}

/// Probabilities in single precision.
pub(super) struct Probs {
    values: Vec<f32>,
    classes: usize,
}

impl Probs {
    pub(super) fn new(outputs: &Outputs) -> Self {
        let (classes, summaries) = (outputs.classes(), outputs.summaries());
        let mut values = vec![0.0; outputs.images() * classes];
        let targets: Vec<Mutex<&mut [f32]>> = values.chunks_mut(STEP * classes).map(Mutex::new).collect();
        map_ranges(0, outputs.images(), STEP, |range| {
            let mut target = targets[range.start / STEP].lock().expect("no thread panics");
            for (image, probs) in range.zip(target.chunks_exact_mut(classes)) {
                write_single_probs(outputs.row(image), &summaries[image], probs);
            }
        });
        Self { values, classes }
    }

    /// The marginal of every `step`-th image from `first` on, at least one.
    pub(super) fn estimate(&self, first: usize, step: usize, reference: &[f64]) -> Vec<f64> {
        let rows: Vec<&[f32]> = self.values.chunks_exact(self.classes).skip(first).step_by(step).collect();
        let mut shares = reference.to_vec();
        for _ in 0..MOST_ROUNDS {
            let next = next_shares(&rows, &shares, reference);
            let moved = total_variation(&next, &shares);
            shares = next;
            if moved < STILL {
                break;
            }
        }
        shares
    }
}

fn next_shares(rows: &[&[f32]], shares: &[f64], reference: &[f64]) -> Vec<f64> {
    let ratios: Vec<f64> =
        shares.iter().zip(reference).map(|(share, old)| if *old > 0.0 { share / old } else { 0.0 }).collect();
    let mut sums = vec![0.0; shares.len()];
    let unexplained = sum_reweighed(rows, &ratios, &mut sums) as f64;
    // An image all of whose probability lies in excluded classes says nothing about the others.
    let mut next: Vec<f64> =
        sums.iter().zip(&ratios).zip(shares).map(|((sum, ratio), share)| sum * ratio + unexplained * share).collect();
    let total: f64 = next.iter().sum();
    next.iter_mut().for_each(|share| *share /= total);
    next
}

/// Adds to `sums` each row over its product with `ratios`; gives how many rows have none.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn sum_reweighed(rows: &[&[f32]], ratios: &[f64], sums: &mut [f64]) -> usize {
    let mut unexplained = 0;
    for rows in rows.chunks(ROWS) {
        // Rows without a product, and those missing from the last group, add zeros.
        let mut scales = [0.0; ROWS];
        let mut group = [rows[0]; ROWS];
        for (at, row) in rows.iter().enumerate() {
            let total = dot(row, ratios);
            unexplained += usize::from(total <= 0.0);
            scales[at] = if total > 0.0 { total.recip() } else { 0.0 };
            group[at] = row;
        }
        let [a, b, c, d] = group;
        let quads = a.iter().zip(b).zip(c.iter().zip(d));
        for (sum, ((&a, &b), (&c, &d))) in sums.iter_mut().zip(quads) {
            let mut all = *sum + f64::from(a) * scales[0];
            all += f64::from(b) * scales[1];
            all += f64::from(c) * scales[2];
            all += f64::from(d) * scales[3];
            *sum = all;
        }
    }
    unexplained
}

#[inline(always)]
fn dot(row: &[f32], ratios: &[f64]) -> f64 {
    let (rows, row_tail) = row.as_chunks::<LANES>();
    let (weights, weight_tail) = ratios.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (p, ratio) in rows.iter().zip(weights) {
        for k in 0..LANES {
            sums[k] += f64::from(p[k]) * ratio[k];
        }
    }
    let tail: f64 = row_tail.iter().zip(weight_tail).map(|(&p, ratio)| f64::from(p) * ratio).sum();
    sums.iter().sum::<f64>() + tail
}

/// Half the sum of absolute differences: the share of images that would have to change class.
pub(super) fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::calibrated;

    #[test]
    fn a_skewed_marginal_is_recovered() {
        let weights = [0.4, 0.3, 0.1, 0.1, 0.05, 0.05];
        let (outputs, _) = calibrated(5, 4000, &weights, 2.0);
        let found = estimate_em(&outputs, &[1.0 / 6.0; 6]);
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // The labels drawn themselves are 0.01 off in total variation with this many images.
        let distance = total_variation(&found, &weights);
        assert!(distance < 0.03, "{distance}");
    }

    #[test]
    fn excluded_classes_stay_excluded() {
        let outputs = Outputs::new(vec![9e3, 0.0, 0.0, 0.0, 1.0, 0.0], 3).unwrap();
        let found = estimate_em(&outputs, &[0.0, 0.5, 0.5]);
        assert_eq!(found[0], 0.0);
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn images_that_say_nothing_change_nothing() {
        let outputs = Outputs::new(vec![0.0; 40], 4).unwrap();
        let reference = [0.25; 4];
        assert!(total_variation(&estimate_em(&outputs, &reference), &reference) < 1e-9);
    }
}
