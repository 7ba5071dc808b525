//! Whether adapting still gains, told without labels while it runs.

use crate::RunError;
use flipcast_estimate::{GainFit, GainTally, Outputs, SignTest};
use flipcast_exec::Logits;
use flipcast_record::results::Switch;
use std::collections::VecDeque;

/// Probability with which a stream, however long, sees any switch that its estimated gains do not warrant.
pub const FALSE_SWITCHES: f64 = 0.05;
/// Batches over which the gain is told that stands beside a switch.
const TOLD: usize = 8;

/// Chooses between the adapting model and the source model, batch by batch.
///
/// *Idea.* Both predict every batch, and every image says how much the adapting model gains by it ([`GainFit::evidence`]). While the adapting model's predictions count, a test that may be looked at
/// all the time asks whether the gain lies below 0; while the source model's count, whether it lies above. Where the test is sure, the other model's predictions count from the batch at hand
/// on, and the next test begins.
/// *Formula.* The test is [`SignTest`]; the `j`-th of a stream ends at an e-value of `j (j + 1) / 0.05`. If the mean evidence of every image, given those before it and how its batch is composed, is on the side of the model that predicts,
/// any switch in a stream has a probability of at most `sum_j 0.05 / (j (j + 1)) = 5%`. That says nothing of evidence that is wrong itself: under a shift unlike those of the calibration the estimated gain may have another sign than the true one.
/// *Reference.* Flipcast's own; see [`SignTest`] for the test's.
pub struct GainWatch {
    fit: GainFit,
    temperature: f64,
    /// Whether the source model's predictions count.
    on_source: bool,
    test: SignTest,
    /// Tests so far, this one included.
    tests: u32,
    recent: VecDeque<GainTally>,
}

/// Whose predictions count first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartsWith {
    /// The adapting model's.
    Adapting,
    /// The source model's.
    Source,
}

impl GainWatch {
    /// With a fit for one candidate without others beside it, and the temperature of clean images.
    pub fn new(fit: GainFit, temperature: f64, starts_with: StartsWith) -> Self {
        let on_source = starts_with == StartsWith::Source;
        Self { fit, temperature, on_source, test: SignTest::default(), tests: 1, recent: VecDeque::new() }
    }

    /// Whether the source model's predictions count for the last batch that was observed.
    pub(super) fn is_on_source(&self) -> bool {
        self.on_source
    }

    /// Takes in what both said of a batch. Gives a switch where another model's predictions count from this batch on, which has the number `batch`.
    pub(super) fn observe(
        &mut self,
        source: Logits<'_>,
        adapted: &[f32],
        batch: usize,
    ) -> Result<Option<Switch>, RunError> {
        let classes = source.classes();
        let outputs = |logits: Vec<f32>| -> Result<Outputs, RunError> {
            Ok(Outputs::new(logits, classes)?.scaled(self.temperature))
        };
        let source = outputs(source.values().to_vec())?;
        // Values that are no numbers know nothing.
        let adapted = outputs(adapted.iter().map(|z| if z.is_finite() { *z } else { 0.0 }).collect())?;
        let Some(mut evidence) = self.fit.evidence(&source, &adapted)? else { return Ok(None) };
        let mut tally = GainTally::default();
        tally.add_batch(&source, &adapted)?;
        self.recent.push_back(tally);
        if self.recent.len() > TOLD {
            self.recent.pop_front();
        }
        if !self.on_source {
            evidence.iter_mut().for_each(|value| *value = -*value);
        }
        self.test.update(&evidence);
        let tests = f64::from(self.tests);
        if self.test.log_e_value() < (tests * (tests + 1.0) / FALSE_SWITCHES).ln() {
            return Ok(None);
        }
        self.on_source = !self.on_source;
        (self.test, self.tests) = (SignTest::default(), self.tests + 1);
        let mut told = GainTally::default();
        self.recent.drain(..).for_each(|tally| told.merge(&tally));
        let gain = self.fit.gain(&told.signals(classes));
        Ok(Some(Switch { batch, to_source: self.on_source, gain }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_estimate::{GainSample, GainSignals};
    use flipcast_ground::SplitMix64;

    /// A fit that trusts whoever is surer.
    fn fit() -> GainFit {
        let mut random = SplitMix64::new(1);
        let sample = |kind| {
            let signals = GainSignals {
                images: 512,
                flips: 0.1 + 0.5 * random.uniform(),
                source_confidence: 0.5 + 0.4 * random.uniform(),
                confidence: 0.5 + 0.4 * random.uniform(),
                batch_concentration: random.uniform(),
                ..GainSignals::default()
            };
            GainSample { gain: signals.confidence - signals.source_confidence, signals, kind }
        };
        GainFit::fit_alone(&(0..200).map(|i| i % 10).map(sample).collect::<Vec<_>>()).unwrap()
    }

    /// A batch of 64 in which the second class has these odds.
    fn batch(logit: f32) -> Vec<f32> {
        (0..64).flat_map(|_| [0.0, logit]).collect()
    }

    fn switches(watch: &mut GainWatch, batches: usize, adapted: impl Fn(usize) -> f32) -> Vec<(usize, bool)> {
        let source = batch(-1.0);
        let observed = (1..=batches)
            .filter_map(|number| watch.observe(Logits::new(&source, 2), &batch(adapted(number)), number).unwrap());
        observed.map(|switch| (switch.batch, switch.to_source)).collect()
    }

    #[test]
    fn whoever_gains_predicts_within_a_few_batches() {
        let mut watch = GainWatch::new(fit(), 1.0, StartsWith::Adapting);
        // The adapting model is sure of other answers, then hardly prefers them, then is sure again.
        let found = switches(&mut watch, 64, |number| if (17..=48).contains(&number) { 0.01 } else { 4.0 });
        let [(to_source, true), (back, false)] = found[..] else { panic!("{found:?}") };
        assert!((17..=20).contains(&to_source) && (49..=52).contains(&back), "{found:?}");
    }

    #[test]
    fn a_watch_may_start_with_the_source_model() {
        let mut watch = GainWatch::new(fit(), 1.0, StartsWith::Source);
        assert!(watch.is_on_source());
        assert!(switches(&mut watch, 40, |_| -1.0).is_empty(), "nobody gains by equal answers");
        let found = switches(&mut watch, 8, |_| 4.0);
        assert!(matches!(found[..], [(_, false)]) && !watch.is_on_source(), "{found:?}");
    }

    #[test]
    fn a_stream_without_a_gain_hardly_ever_sees_a_switch() {
        let mut random = SplitMix64::new(4);
        let streams = 60;
        let mut switched = 0;
        for _ in 0..streams {
            let mut watch = GainWatch::new(fit(), 1.0, StartsWith::Adapting);
            // Answers differ, and either model is as often the surer one.
            let found = (1..=100).any(|number| {
                let logits: Vec<(f32, f32)> =
                    (0..64).map(|_| (2.0 * random.uniform() as f32, 2.0 * random.uniform() as f32)).collect();
                let source: Vec<f32> = logits.iter().flat_map(|(own, _)| [*own, 0.0]).collect();
                let adapted: Vec<f32> = logits.iter().flat_map(|(_, own)| [0.0, *own]).collect();
                watch.observe(Logits::new(&source, 2), &adapted, number).unwrap().is_some()
            });
            switched += usize::from(found);
        }
        // Three are allowed on average; three standard deviations more by chance. The ridge's shrinkage leaves weights of flips that are not quite 0.
        assert!(switched <= 8, "{switched} of {streams}");
    }

    #[test]
    fn values_that_are_no_numbers_do_not_stop_the_watch() {
        let mut watch = GainWatch::new(fit(), 1.0, StartsWith::Adapting);
        let (source, broken) = (batch(1.0), vec![f32::NAN; 128]);
        let found = (1..=16).filter_map(|number| watch.observe(Logits::new(&source, 2), &broken, number).unwrap());
        assert!(found.count() <= 1, "the source model takes over");
    }
}
