//! Whether adapting still gains, told without labels while it runs.

use crate::RunError;
use flipcast_estimate::{GainFit, Lineup, Outputs};
use flipcast_exec::Logits;
use flipcast_record::results::Switch;

/// Images of a window: as many as the fit was taught with.
const WINDOW: usize = 512;
/// Windows in a row that must say the same before another model predicts.
const PATIENCE: usize = 2;

/// Chooses between the adapting model and the source model, window by window.
///
/// *Idea.* Both predict every batch. Over each window of 512 images the gain of the adapting model is estimated from the two's outputs. After two windows in a row
/// without a gain the source model's predictions count, and adapting begins anew beside it; after two with one, those of the adapting model count again.
pub struct GainWatch {
    fit: GainFit,
    temperature: f64,
    source: Vec<f32>,
    adapted: Vec<f32>,
    classes: usize,
    batch_size: usize,
    /// Whether the source model's predictions count.
    on_source: bool,
    /// Windows in a row that speak against the model whose predictions count.
    against: usize,
}

impl GainWatch {
    /// With a fit for one candidate without others beside it, and the temperature of clean images.
    pub fn new(fit: GainFit, temperature: f64) -> Self {
        Self {
            fit,
            temperature,
            source: Vec::new(),
            adapted: Vec::new(),
            classes: 1,
            batch_size: 1,
            on_source: false,
            against: 0,
        }
    }

    /// Whether the source model's predictions count for the batch at hand.
    pub(super) fn is_on_source(&self) -> bool {
        self.on_source
    }

    /// Takes in what both said of a batch. Gives a switch where another model's predictions count from the next batch, number `batch` + 1, on.
    pub(super) fn observe(
        &mut self,
        source: Logits<'_>,
        adapted: &[f32],
        batch: usize,
    ) -> Result<Option<Switch>, RunError> {
        self.classes = source.classes();
        self.batch_size = self.batch_size.max(source.images());
        self.source.extend_from_slice(source.values());
        self.adapted.extend(adapted.iter().map(|z| if z.is_finite() { *z } else { 0.0 }));
        if self.source.len() < WINDOW * self.classes {
            return Ok(None);
        }
        let outputs = |logits: &mut Vec<f32>| -> Result<Outputs, RunError> {
            Ok(Outputs::new(std::mem::take(logits), self.classes)?.scaled(self.temperature))
        };
        let (source, adapted) = (outputs(&mut self.source)?, outputs(&mut self.adapted)?);
        let lineup = Lineup::new(&source, vec![&adapted], self.batch_size)?;
        let gain = self.fit.gain(&lineup.signals(0, 0..source.images()));
        let speaks_against = if self.on_source { gain > 0.0 } else { gain < 0.0 };
        self.against = if speaks_against { self.against + 1 } else { 0 };
        if self.against < PATIENCE {
            return Ok(None);
        }
        self.on_source = !self.on_source;
        self.against = 0;
        Ok(Some(Switch { batch: batch + 1, to_source: self.on_source, gain }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_estimate::{GainSample, GainSignals};
    use flipcast_ground::SplitMix64;

    /// A fit that trusts the adapting model's confidence.
    fn fit() -> GainFit {
        let mut random = SplitMix64::new(1);
        let sample = |kind| {
            let flips = 0.1 + 0.5 * random.uniform();
            let confidence = 0.5 + 0.4 * random.uniform();
            let signals = GainSignals {
                images: WINDOW,
                flips,
                source_confidence: 0.5,
                cross: 0.5 - 0.1 * flips,
                confidence,
                reverse: confidence - 0.4 * flips * random.uniform(),
                ..GainSignals::default()
            };
            GainSample { gain: signals.confidence - signals.reverse - 0.2 * flips, signals, kind }
        };
        GainFit::fit(&(0..200).map(|i| i % 10).map(sample).collect::<Vec<_>>()).unwrap()
    }

    /// A batch of 64 in which the second class has these odds.
    fn batch(logit: f32) -> Vec<f32> {
        (0..64).flat_map(|_| [0.0, logit]).collect()
    }

    #[test]
    fn the_source_model_predicts_after_two_bad_windows_and_not_after_two_good_ones() {
        let mut watch = GainWatch::new(fit(), 1.0);
        let source = batch(-1.0);
        let mut switches = Vec::new();
        for number in 1..=64 {
            // The adapting model is sure of other answers, then hardly prefers them, then is sure again.
            let adapted = batch(if (17..=48).contains(&number) { 0.01 } else { 4.0 });
            switches.extend(watch.observe(Logits::new(&source, 2), &adapted, number).unwrap());
        }
        let found: Vec<(usize, bool)> = switches.iter().map(|switch| (switch.batch, switch.to_source)).collect();
        assert_eq!(found, [(33, true), (65, false)]);
    }

    #[test]
    fn values_that_are_no_numbers_do_not_stop_the_watch() {
        let mut watch = GainWatch::new(fit(), 1.0);
        let (source, broken) = (batch(1.0), vec![f32::NAN; 128]);
        for number in 1..=16 {
            watch.observe(Logits::new(&source, 2), &broken, number).unwrap();
        }
    }
}
