//! Whose answers count while a model adapts, told image by image without labels.

use crate::RunError;
use flipcast_estimate::{ArbiterFit, Disputes, Outputs};
use flipcast_exec::Logits;
use flipcast_record::results::Arbitration;

/// Chooses between the answers of the source model and of the adapting one, wherever they differ.
///
/// Both predict every batch. The answer counts that [`ArbiterFit`] takes to be likelier right, from the batch at hand on: there is no state to be switched, and nothing to be noticed late.
#[derive(Clone, Debug)]
pub struct Arbiter {
    fit: ArbiterFit,
    temperature: f64,
    disputes: Disputes,
    seen: Arbitration,
}

impl Arbiter {
    /// With what was learned of the method that adapts, and the temperature of clean images; the models know `classes` classes.
    pub fn new(fit: ArbiterFit, temperature: f64, classes: usize) -> Self {
        Self { fit, temperature, disputes: Disputes::new(classes), seen: Arbitration::default() }
    }

    /// What it was made of: that and the batches decide what counts.
    pub(super) fn settings(&self) -> (&ArbiterFit, f64) {
        (&self.fit, self.temperature)
    }

    /// Disputes so far.
    pub(super) fn seen(&self) -> Arbitration {
        self.seen
    }

    /// The logits that count for the next batch: those of the adapting model, but for images on which the source model is likelier right.
    pub(super) fn choose(&mut self, source: Logits<'_>, adapted: &[f32]) -> Result<Vec<f32>, RunError> {
        let classes = source.classes();
        let outputs = |logits: Vec<f32>| -> Result<Outputs, RunError> {
            Ok(Outputs::new(logits, classes)?.scaled(self.temperature))
        };
        let own = outputs(source.values().to_vec())?;
        // Values that are no numbers know nothing.
        let finite: Vec<f32> = adapted.iter().map(|z| if z.is_finite() { *z } else { 0.0 }).collect();
        let other = outputs(finite.clone())?;
        let found = self.disputes.next(&own, &other, 0..own.images())?;
        let mut chosen = finite;
        let rows = chosen.chunks_exact_mut(classes).zip(source.values().chunks_exact(classes));
        for (dispute, (row, source)) in found.iter().zip(rows) {
            let Some(dispute) = dispute else { continue };
            self.seen.disputes += 1;
            if self.fit.lead(dispute) >= 0.0 {
                self.seen.to_source += 1;
                row.copy_from_slice(source);
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_estimate::DisputeTally;

    /// Trusts whoever is surer of an image.
    fn arbiter() -> Arbiter {
        let (sure, hesitant) = (Outputs::new(vec![6.0, 0.0, 0.0], 3), Outputs::new(vec![0.0, 1.0, 0.0], 3));
        let (sure, hesitant) = (sure.unwrap(), hesitant.unwrap());
        let mut tally = DisputeTally::default();
        for (source, adapted) in [(&sure, &hesitant), (&hesitant, &sure)] {
            let found = Disputes::new(3).next(source, adapted, 0..1).unwrap();
            let is_sure = std::ptr::eq(source, &raw const sure);
            (0..100).for_each(|_| tally.add(&found[0].unwrap(), is_sure, !is_sure));
        }
        Arbiter::new(ArbiterFit::fit(&[tally]).unwrap(), 1.0, 3)
    }

    #[test]
    fn answers_of_either_model_count_in_one_batch() {
        let mut arbiter = arbiter();
        let source = [5.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0];
        let adapted = [0.0, 1.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 3.0];
        let chosen = arbiter.choose(Logits::new(&source, 3), &adapted).unwrap();
        // The source model's first row, and the adapting model's others; on the last they agree.
        assert_eq!(chosen, [&source[..3], &adapted[3..]].concat());
        assert_eq!(arbiter.seen(), Arbitration { disputes: 2, to_source: 1 });
    }

    #[test]
    fn values_that_are_no_numbers_never_win() {
        let (source, broken) = ([0.0, 2.0, 0.0].repeat(4), [f32::NAN; 12]);
        let chosen = arbiter().choose(Logits::new(&source, 3), &broken).unwrap();
        assert_eq!(chosen, source);
    }
}
