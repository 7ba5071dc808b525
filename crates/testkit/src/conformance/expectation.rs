use crate::{Case, CentralDifferences, Coordinates, DifferenceGradient, GradientError, Loss, ReferenceNorm};
use flipcast_tensor::Batch;

/// What the reference says about one case in one mode.
pub(super) struct Expectation {
    pub logits: Vec<f64>,
    pub gradients: Vec<ExpectedGradient>,
}

/// A loss, the logit gradient to start from, and the affine gradient it must lead to.
pub(super) struct ExpectedGradient {
    pub loss: &'static str,
    pub logit_gradient: Vec<f32>,
    pub affine: DifferenceGradient,
}

impl Expectation {
    /// Runs the reference and all differences: the costly part of a suite.
    pub(super) fn of(case: &Case, batch: &Batch, mode: ReferenceNorm) -> Result<Self, GradientError> {
        let reference = case.reference();
        let differences = CentralDifferences::sample(
            &reference,
            batch,
            mode,
            &reference.affine(),
            Coordinates::All,
            CentralDifferences::STEP,
        )?;
        let logits = differences.logits().to_vec();
        let classes = case.graph.num_classes();
        let losses = [Loss::MeanEntropy { classes }, Loss::random_linear(logits.len(), 17)];
        let gradients = losses
            .iter()
            .map(|loss| {
                let gradient = loss.gradient(&logits);
                Ok(ExpectedGradient {
                    loss: loss.name(),
                    logit_gradient: gradient.iter().map(|&v| v as f32).collect(),
                    affine: differences.gradient(&|logits| loss.value(logits))?,
                })
            })
            .collect::<Result<_, GradientError>>()?;
        Ok(Self { logits, gradients })
    }
}
