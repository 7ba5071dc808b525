use crate::{Random, Reference, ReferenceError, ReferenceNorm};
use flipcast_tensor::Batch;

/// One-sided slopes may differ by this share of the larger of the slope and the gradient's root mean square before a
/// coordinate counts as lying at a kink. Curvature alone makes them differ by about the step.
const KINK_SHARE: f64 = 1e-4;

/// A larger share of coordinates at kinks means that the point, not the coordinate, is badly chosen.
const MAX_SKIPPED_SHARE: f64 = 0.05;

/// Why there is no gradient to compare with.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum GradientError {
    /// The forward pass failed.
    #[error("the reference could not run")]
    Reference(#[from] ReferenceError),
    /// Too many coordinates lie at kinks.
    #[error("{skipped} of {checked} coordinates lie at a kink, expected at most {allowed}")]
    TooManyKinks {
        /// Coordinates at kinks.
        skipped: usize,
        /// Coordinates looked at.
        checked: usize,
        /// Coordinates that may be.
        allowed: usize,
    },
}

/// Which elements of the affine vector are varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// All of them.
    All,
    /// A seeded choice of `count` of them, in rising order; all when there are fewer.
    Sample {
        /// How many.
        count: usize,
        /// Seed of the choice.
        seed: u64,
    },
}

impl Coordinates {
    fn choose(self, len: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        if let Self::Sample { count, seed } = self {
            let mut random = Random::new(seed);
            let count = count.min(len);
            for i in 0..count {
                let other = i + random.below(len - i);
                all.swap(i, other);
            }
            all.truncate(count);
            all.sort_unstable();
        }
        all
    }
}

/// A gradient found by differences, for the coordinates where it exists.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferenceGradient {
    /// Positions in the affine vector, in rising order.
    pub coordinates: Vec<usize>,
    /// The derivative at each of them.
    pub values: Vec<f64>,
    /// Positions left out because a kink is too near.
    pub skipped: Vec<usize>,
}

/// The logits on both sides of a point, coordinate by coordinate. Gradients of any number of losses follow from them.
#[derive(Clone, Debug)]
pub struct CentralDifferences {
    step: f64,
    coordinates: Vec<usize>,
    centre: Vec<f64>,
    /// Logits below and above the point, one pair per coordinate.
    sides: Vec<[Vec<f64>; 2]>,
}

impl CentralDifferences {
    /// The step that balances rounding (`2^-53 / step`) against curvature (`step^2`) for values near 1.
    pub const STEP: f64 = 1e-6;

    /// Runs `reference` at `affine` and, for each of `coordinates`, a `step` below and above it.
    pub fn sample(
        reference: &Reference,
        batch: &Batch,
        mode: ReferenceNorm,
        affine: &[f64],
        coordinates: Coordinates,
        step: f64,
    ) -> Result<Self, ReferenceError> {
        let run = reference.forward(batch, mode, affine)?;
        let coordinates = coordinates.choose(affine.len());
        let logits_at = |coordinate: usize, step: f64| {
            let mut moved = affine.to_vec();
            moved[coordinate] += step;
            let run = reference.forward_again(&run, &moved)?;
            Ok::<_, ReferenceError>(run.logits().to_vec())
        };
        let sides = coordinates
            .iter()
            .map(|&c| Ok([logits_at(c, -step)?, logits_at(c, step)?]))
            .collect::<Result<_, ReferenceError>>()?;
        Ok(Self { step, coordinates, centre: run.logits().to_vec(), sides })
    }

    /// The logits at the point itself.
    pub fn logits(&self) -> &[f64] {
        &self.centre
    }

    /// The gradient of `loss`, a function of the logits.
    ///
    /// A coordinate whose slopes to the left and to the right disagree lies at a kink and is skipped. That sees a kink
    /// anywhere within a step, the point itself included, where differences over two step sizes agree and are wrong.
    pub fn gradient(&self, loss: &dyn Fn(&[f64]) -> f64) -> Result<DifferenceGradient, GradientError> {
        let here = loss(&self.centre);
        let slopes: Vec<[f64; 2]> = self
            .sides
            .iter()
            .map(|[below, above]| {
                let left = (here - loss(below)) / self.step;
                let right = (loss(above) - here) / self.step;
                [left, right]
            })
            .collect();
        let checked = slopes.len();
        let sum: f64 = slopes.iter().map(|[l, r]| (0.5 * (l + r)).powi(2)).sum();
        let root_mean_square = (sum / checked.max(1) as f64).sqrt();
        let mut found = DifferenceGradient {
            coordinates: Vec::with_capacity(checked),
            values: Vec::with_capacity(checked),
            skipped: Vec::new(),
        };
        for (&coordinate, [left, right]) in self.coordinates.iter().zip(slopes) {
            let slope = 0.5 * (left + right);
            if (right - left).abs() <= KINK_SHARE * slope.abs().max(root_mean_square) {
                found.coordinates.push(coordinate);
                found.values.push(slope);
            } else {
                found.skipped.push(coordinate);
            }
        }
        let (skipped, allowed) = (found.skipped.len(), (MAX_SKIPPED_SHARE * checked as f64) as usize);
        if skipped > allowed {
            return Err(GradientError::TooManyKinks { skipped, checked, allowed });
        }
        Ok(found)
    }
}

/// The gradient of `loss` over the whole affine vector, by central differences with the given step.
pub fn central_differences(
    reference: &Reference,
    batch: &Batch,
    mode: ReferenceNorm,
    affine: &[f64],
    loss: &dyn Fn(&[f64]) -> f64,
    step: f64,
) -> Result<DifferenceGradient, GradientError> {
    CentralDifferences::sample(reference, batch, mode, affine, Coordinates::All, step)?.gradient(loss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relative_l2;
    use flipcast_graph::{Activation, Graph, GraphBuilder};
    use flipcast_tensor::Tensor;
    use std::collections::HashMap;

    /// One channel, norm (running statistics 0 and 1, eps 0), an activation, and a head that doubles.
    fn line(activation: Activation) -> (Graph, HashMap<String, Tensor>) {
        let (mut g, x) = GraphBuilder::new(1);
        let x = g.batch_norm("bn", x, 0.0);
        let x = g.activation("act", x, activation);
        let x = g.linear("fc", x, 1, 1);
        let params =
            [("bn.weight", 1.5), ("bn.bias", 0.0), ("bn.running_mean", 0.0), ("bn.running_var", 1.0), ("fc.bias", 0.0)];
        let mut params: HashMap<String, Tensor> =
            params.into_iter().map(|(name, value)| (name.to_owned(), Tensor::new([1], vec![value]).unwrap())).collect();
        params.insert("fc.weight".into(), Tensor::new([1, 1], vec![2.0]).unwrap());
        (g.finish(x).unwrap(), params)
    }

    fn gradient_at(activation: Activation, pixel: f32) -> Result<DifferenceGradient, GradientError> {
        let (graph, params) = line(activation);
        let reference = Reference::new(&graph, &params)?;
        let batch = Batch::new([1, 1, 1, 1], vec![pixel]).unwrap();
        let affine = reference.affine();
        central_differences(
            &reference,
            &batch,
            ReferenceNorm::Running,
            &affine,
            &|logits| logits.iter().sum(),
            CentralDifferences::STEP,
        )
    }

    #[test]
    fn a_straight_line_has_its_slope() {
        let found = gradient_at(Activation::Relu, 3.0).unwrap();
        assert_eq!(found.coordinates, [0, 1]);
        // Rounding of logits near 9 over a step of 1e-6; measured 1.5e-10.
        assert!(relative_l2(&found.values, &[6.0, 2.0]) < 6e-10, "{:?}", found.values);
    }

    #[test]
    fn a_point_at_a_kink_is_noticed() {
        let error = gradient_at(Activation::Relu, 0.0).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 coordinates lie at a kink, expected at most 0");
    }

    #[test]
    fn a_smooth_function_has_no_kink() {
        let found = gradient_at(Activation::Gelu, 0.0).unwrap();
        assert!(found.skipped.is_empty());
        // Both sides are symmetric around 0, so rounding cancels; measured 0.
        assert!((found.values[1] - 1.0).abs() < 1e-12, "{:?}", found.values);
    }

    #[test]
    fn a_sample_is_seeded_and_sorted() {
        let sample = Coordinates::Sample { count: 5, seed: 1 };
        let chosen = sample.choose(100);
        assert_eq!(chosen.len(), 5);
        assert!(chosen.is_sorted_by(|a, b| a < b), "{chosen:?}");
        assert_eq!(chosen, sample.choose(100));
        assert_eq!(Coordinates::Sample { count: 9, seed: 1 }.choose(3), [0, 1, 2]);
    }
}
