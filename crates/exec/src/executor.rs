use crate::{DeviceSteps, ExecError};
use flipcast_graph::AffineTable;
use flipcast_tensor::{Batch, Tensor};

/// Which statistics batch norms normalise with. Group and layer norms have only their own.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NormMode {
    /// The running statistics stored with the weights.
    Running,
    /// Mean and biased variance of the batch.
    Batch,
    /// A mixture: `source_weight` of the running statistics, the rest from the batch, with its unbiased variance.
    Mixed {
        /// Share of the running statistics, in [0, 1].
        source_weight: f32,
    },
}

impl NormMode {
    /// Refuses a share outside [0, 1].
    pub fn check(self) -> Result<(), ExecError> {
        match self {
            Self::Mixed { source_weight } if !(0.0..=1.0).contains(&source_weight) => {
                Err(ExecError::SourceWeight { found: source_weight })
            }
            _ => Ok(()),
        }
    }
}

/// One row of class scores per image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logits<'a> {
    values: &'a [f32],
    classes: usize,
}

impl<'a> Logits<'a> {
    /// Rows of `classes` values.
    pub fn new(values: &'a [f32], classes: usize) -> Self {
        Self { values, classes }
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.values.len() / self.classes.max(1)
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// All rows, one after the other.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.classes.max(1))
    }

    /// The class of every image: the first of the largest scores.
    pub fn argmax(&self) -> Vec<usize> {
        self.rows()
            .map(|row| {
                let best = row.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
                best.map_or(0, |(class, _)| class)
            })
            .collect()
    }
}

/// A network on some device: forward, backward to the affine vector, and nothing else.
pub trait Executor {
    /// Runs the batch, which may be smaller than planned, and keeps what `backward` needs.
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError>;
    /// The gradient of every norm's scale and shift, in the order of the affine table, from that of the logits of the
    /// last forward pass. May be called once per forward pass.
    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError>;
    /// The value of a tapped node in the last forward pass: `[image, channel]`, or `[image, y, x, channel]`.
    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError>;
    /// The vector that adapts.
    fn affine(&self) -> &[f32];
    /// The vector that adapts, to change in place.
    fn affine_mut(&mut self) -> &mut [f32];
    /// The vector as the weights had it.
    fn source_affine(&self) -> &[f32];
    /// Its name table.
    fn affine_table(&self) -> &AffineTable;
    /// Which statistics batch norms use.
    fn norm_mode(&self) -> NormMode;
    /// Sets which statistics batch norms use.
    fn set_norm_mode(&mut self, mode: NormMode) -> Result<(), ExecError>;
    /// Makes the statistics that the last forward pass normalised with the running ones, so that statistics can be gathered
    /// over a stream.
    fn absorb_statistics(&mut self) -> Result<(), ExecError> {
        Err(ExecError::NotReady { needed: "an executor that can change its running statistics" })
    }
    /// Restores the running statistics of the weights.
    fn reset_statistics(&mut self) -> Result<(), ExecError> {
        Ok(())
    }
    /// Number of classes.
    fn num_classes(&self) -> usize;
    /// Restores the vector to `source_affine`.
    fn reset_affine(&mut self);
    /// Whole steps, if the executor makes them by itself; else they are made of `forward` and `backward`.
    fn steps(&mut self) -> Option<&mut dyn DeviceSteps> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_scores_wins() {
        let logits = Logits::new(&[0.0, 2.0, 2.0, 5.0, 1.0, 0.0], 3);
        assert_eq!(logits.argmax(), [1, 0]);
    }
}
