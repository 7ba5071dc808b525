use super::{GainSignals, Lineup};
use crate::signals::concentration;
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// [`GainSignals`] of a candidate that runs alone, gathered batch by batch, so that no outputs need to be kept.
///
/// ```
/// use flipcast_estimate::{GainTally, Outputs};
///
/// let source = Outputs::new(vec![2.0, 0.0, 0.0, 1.0], 2)?;
/// let adapted = Outputs::new(vec![0.0, 2.0, 0.0, 1.0], 2)?;
/// let mut tally = GainTally::default();
/// tally.add_batch(&source, &adapted)?;
/// assert_eq!(tally.signals(2).flips, 0.5);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainTally {
    images: u64,
    batches: u64,
    flips: f64,
    source_confidence: f64,
    cross: f64,
    confidence: f64,
    reverse: f64,
    batch_concentration: f64,
    source_batch_concentration: f64,
    /// How often each class is answered.
    classes: BTreeMap<u32, u32>,
    /// How often the source model answers it.
    source_classes: BTreeMap<u32, u32>,
}

impl GainTally {
    /// Adds a batch, at the temperature of clean images.
    ///
    /// # Errors
    /// When images or classes of the two are not the same.
    pub fn add_batch(&mut self, source: &Outputs, candidate: &Outputs) -> Result<(), EstimateError> {
        let signals = Lineup::new(source, vec![candidate], source.images())?.signals(0, 0..source.images());
        let images = signals.images as f64;
        self.images += signals.images as u64;
        self.batches += 1;
        self.flips += images * signals.flips;
        self.source_confidence += images * signals.source_confidence;
        self.cross += images * signals.cross;
        self.confidence += images * signals.confidence;
        self.reverse += images * signals.reverse;
        self.batch_concentration += signals.batch_concentration;
        self.source_batch_concentration += signals.source_batch_concentration;
        for (counts, outputs) in [(&mut self.classes, candidate), (&mut self.source_classes, source)] {
            outputs.classes_predicted().into_iter().for_each(|class| *counts.entry(class as u32).or_default() += 1);
        }
        Ok(())
    }

    /// Adds another's batches.
    pub fn merge(&mut self, other: &Self) {
        self.images += other.images;
        self.batches += other.batches;
        self.flips += other.flips;
        self.source_confidence += other.source_confidence;
        self.cross += other.cross;
        self.confidence += other.confidence;
        self.reverse += other.reverse;
        self.batch_concentration += other.batch_concentration;
        self.source_batch_concentration += other.source_batch_concentration;
        for (own, more) in [(&mut self.classes, &other.classes), (&mut self.source_classes, &other.source_classes)] {
            more.iter().for_each(|(class, count)| *own.entry(*class).or_default() += count);
        }
    }

    /// Images so far.
    pub fn images(&self) -> u64 {
        self.images
    }

    /// Signals of all batches; the models know `classes` classes.
    pub fn signals(&self, classes: usize) -> GainSignals {
        let (images, batches) = (self.images.max(1) as f64, self.batches.max(1) as f64);
        let concentrated = |counts: &BTreeMap<u32, u32>| {
            let mut all = vec![0.0; classes];
            for (class, count) in counts {
                if let Some(place) = all.get_mut(*class as usize) {
                    *place = f64::from(*count);
                }
            }
            concentration(&all)
        };
        GainSignals {
            images: usize::try_from(self.images).unwrap_or(usize::MAX),
            flips: self.flips / images,
            source_confidence: self.source_confidence / images,
            cross: self.cross / images,
            confidence: self.confidence / images,
            reverse: self.reverse / images,
            concentration: concentrated(&self.classes),
            source_concentration: concentrated(&self.source_classes),
            batch_concentration: self.batch_concentration / batches,
            source_batch_concentration: self.source_batch_concentration / batches,
            ..GainSignals::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn batches_add_up_to_the_signals_of_all_images() {
        let (classes, batch, images) = (5, 8, 40);
        let mut random = SplitMix64::new(3);
        let mut logits = |_| (0..images * classes).map(|_| random.normal() as f32).collect::<Vec<f32>>();
        let [source, adapted] = [0, 1].map(&mut logits);
        let outputs = |rows: &[f32]| Outputs::new(rows.to_vec(), classes).unwrap();
        let mut parts = [GainTally::default(), GainTally::default()];
        for (number, (source, adapted)) in
            source.chunks(batch * classes).zip(adapted.chunks(batch * classes)).enumerate()
        {
            parts[number % 2].add_batch(&outputs(source), &outputs(adapted)).unwrap();
        }
        let [mut tally, other] = parts;
        tally.merge(&other);
        assert_eq!(tally.images(), images as u64);
        let (source, adapted) = (outputs(&source), outputs(&adapted));
        let whole = Lineup::new(&source, vec![&adapted], batch).unwrap().signals(0, 0..images);
        let features = |signals: &GainSignals| signals.features();
        for (found, expected) in features(&tally.signals(classes)).iter().zip(features(&whole)) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(tally.signals(classes).images, whole.images);
        let text = serde_json::to_string(&tally).unwrap();
        assert_eq!(serde_json::from_str::<GainTally>(&text).unwrap().images(), tally.images());
    }
}
