//! Probabilities of one row of logits, several at a time.

use crate::products::{has_fused_multiply_add, has_wide_registers};
use multiversion::multiversion;
use std::f64::consts::LOG2_E;

/// Sums that run side by side, so that they fit vector registers.
const LANES: usize = 16;

/// Below this an exponential is not a normal number and counts as 0.
const LEAST_EXPONENT: f64 = -708.0;

/// What estimators ask about one row of logits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSummary {
    /// The class with the largest logit, the first of several.
    pub(crate) class: usize,
    /// Its logit.
    pub(crate) largest: f64,
    /// `sum_k exp(z_k - largest)`, at least 1.
    pub(crate) sum: f64,
    /// `sum_k exp(z_k - largest) (z_k - largest)`.
    weighted_gaps: f64,
    /// `sum_k (z_k - largest)`.
    gaps: f64,
}

impl RowSummary {
    /// The largest probability.
    pub(crate) fn confidence(&self) -> f64 {
        self.sum.recip()
    }

    /// The entropy of the probabilities in nats.
    pub(crate) fn entropy(&self) -> f64 {
        // Rounding may leave a certain prediction a little below 0.
        (self.sum.ln() - self.weighted_gaps / self.sum).max(0.0)
    }

    /// The logarithm of the sum of the exponentials of the logits.
    pub(crate) fn log_sum_exp(&self) -> f64 {
        self.largest + self.sum.ln()
    }

    /// The mean over `classes` classes of minus the logarithm of the probability.
    pub(crate) fn uniform_cross_entropy(&self, classes: usize) -> f64 {
        self.sum.ln() - self.gaps / classes as f64
    }
}

/// The summary of a row.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn summarize(row: &[f32]) -> RowSummary {
    let (lanes, tail) = row.as_chunks::<LANES>();
    let (class, largest) = find_largest(row);
    let (mut sum, mut weighted_gaps, mut gaps) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for chunk in lanes {
        for lane in 0..LANES {
            let gap = f64::from(chunk[lane]) - largest;
            let weight = exp(gap);
            sum[lane] += weight;
            weighted_gaps[lane] += weight * gap;
            gaps[lane] += gap;
        }
    }
    for (lane, &z) in tail.iter().enumerate() {
        let gap = f64::from(z) - largest;
        let weight = exp(gap);
        sum[lane] += weight;
        weighted_gaps[lane] += weight * gap;
        gaps[lane] += gap;
    }
    let total = |lanes: [f64; LANES]| lanes.iter().sum::<f64>();
    RowSummary { class, largest, sum: total(sum), weighted_gaps: total(weighted_gaps), gaps: total(gaps) }
}

/// Fills `probs` with the probabilities of the first classes of a row.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn write_probs(row: &[f32], summary: &RowSummary, probs: &mut [f64]) {
    for (p, &z) in probs.iter_mut().zip(row) {
        *p = exp(f64::from(z) - summary.largest) / summary.sum;
    }
}

/// The same in single precision.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn write_single_probs(row: &[f32], summary: &RowSummary, probs: &mut [f32]) {
    for (p, &z) in probs.iter_mut().zip(row) {
        *p = (exp(f64::from(z) - summary.largest) / summary.sum) as f32;
    }
}

/// Adds the probabilities of a row to `sums` and gives the class with the largest logit; `weights` is overwritten.
pub(crate) fn add_probs(row: &[f32], weights: &mut [f64], sums: &mut [f64]) -> usize {
    if has_wide_registers() {
        add_probs_wide(row, weights, sums)
    } else if has_fused_multiply_add() {
        add_probs_fused(row, weights, sums)
    } else {
        add_row(row, weights, sums, |a, b, sum| a * b + sum)
    }
}

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn add_probs_wide(row: &[f32], weights: &mut [f64], sums: &mut [f64]) -> usize {
    add_row(row, weights, sums, f64::mul_add)
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_probs_fused(row: &[f32], weights: &mut [f64], sums: &mut [f64]) -> usize {
    add_row(row, weights, sums, f64::mul_add)
}

#[inline(always)]
fn add_row(
    row: &[f32],
    weights: &mut [f64],
    sums: &mut [f64],
    multiply_add: impl Fn(f64, f64, f64) -> f64 + Copy,
) -> usize {
    let (class, largest) = find_largest(row);
    for (weight, &z) in weights.iter_mut().zip(row) {
        *weight = exp_with(f64::from(z) - largest, multiply_add);
    }
    let (lanes, tail) = weights[..row.len()].as_chunks::<LANES>();
    let mut total = [0.0; LANES];
    for chunk in lanes {
        (0..LANES).for_each(|lane| total[lane] += chunk[lane]);
    }
    let scale = (total.iter().sum::<f64>() + tail.iter().sum::<f64>()).recip();
    for (sum, weight) in sums.iter_mut().zip(weights) {
        *sum = multiply_add(*weight, scale, *sum);
    }
    class
}

/// The class with the largest logit, the first of several, and that logit.
#[inline(always)]
fn find_largest(row: &[f32]) -> (usize, f64) {
    let (lanes, tail) = row.as_chunks::<LANES>();
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut largest = [f32::NEG_INFINITY; LANES];
    for chunk in lanes {
        for lane in 0..LANES {
            largest[lane] = larger(largest[lane], chunk[lane]);
        }
    }
    let largest = largest.iter().chain(tail).copied().fold(f32::NEG_INFINITY, larger);
    // First the chunk, without a branch for each logit.
    let has_it = |chunk: &[f32; LANES]| chunk.iter().fold(false, |found, z| found | (*z == largest));
    let start = lanes.iter().position(has_it).unwrap_or(lanes.len()) * LANES;
    let class = row[start..].iter().position(|z| *z == largest).map_or(0, |at| start + at);
    (class, f64::from(largest))
}

/// `exp(x)` of a number that is not positive, to within two units in the last place, the same on every machine.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    exp_with(x, |a, b, sum| a * b + sum)
}

/// `exp(x)` with products and sums that may be fused; no branch, so that loops over it become vector instructions.
///
/// With `x = k ln 2 + r` it is `2^k` times the Taylor polynomial of `exp(r)`, of which `|r| <= ln 2 / 2` needs thirteen terms.
#[inline(always)]
fn exp_with(x: f64, multiply_add: impl Fn(f64, f64, f64) -> f64) -> f64 {
    /// Adding this leaves the nearest whole number in the low bits.
    const SHIFTER: f64 = 6_755_399_441_055_744.0;
    /// `ln 2` in two parts; products of the first with small whole numbers are exact.
    const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    /// Reciprocals of 13! to 2!.
    const COEFFICIENTS: [f64; 12] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
    ];
    let shifted = multiply_add(x, LOG2_E, SHIFTER);
    let power = shifted - SHIFTER;
    let rest = multiply_add(power, -LN_2[1], multiply_add(power, -LN_2[0], x));
    let mut tail = 0.0;
    for coefficient in COEFFICIENTS {
        tail = multiply_add(tail, rest, coefficient);
    }
    let value = 1.0 + multiply_add(rest * rest, tail, rest);
    // The exponent of a double is stored with 1023 added, above 52 bits of fraction.
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x < LEAST_EXPONENT { 0.0 } else { value * scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::{SplitMix64, argmax, log_softmax};

    #[test]
    fn exponentials_are_exact_to_two_units_in_the_last_place() {
        let mut random = SplitMix64::new(8);
        for _ in 0..100_000 {
            let x = -707.0 * random.uniform().powi(3);
            for found in [exp(x), exp_with(x, f64::mul_add)] {
                let error = (found / x.exp() - 1.0).abs();
                assert!(error <= 2.0 * f64::EPSILON, "{x}: {error:e}");
            }
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-709.0), 0.0);
        assert_eq!(exp(-1e39), 0.0);
    }

    #[test]
    fn summaries_are_those_of_logarithms_of_probabilities() {
        let mut random = SplitMix64::new(9);
        let mut log_probs = Vec::new();
        for classes in 1..70 {
            let row: Vec<f32> = (0..classes).map(|_| 4.0 * random.normal() as f32).collect();
            let found = summarize(&row);
            log_softmax(&row, &mut log_probs);
            let entropy: f64 = -log_probs.iter().map(|p| p.exp() * p).sum::<f64>();
            let cross = -log_probs.iter().sum::<f64>() / classes as f64;
            assert_eq!(found.class, argmax(&row));
            assert!((found.entropy() - entropy).abs() < 1e-13);
            assert!((found.uniform_cross_entropy(classes) - cross).abs() < 1e-12);
            let mut probs = vec![0.0; classes];
            write_probs(&row, &found, &mut probs);
            let confidence = probs.iter().copied().fold(0.0, f64::max);
            assert!((found.confidence() - confidence).abs() < 1e-15);
            for (p, log_p) in probs.iter().zip(&log_probs) {
                assert!((p - log_p.exp()).abs() < 1e-15);
            }
        }
    }
}
