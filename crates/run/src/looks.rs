//! What a second look saw, and what it says together with the first.

use crate::RunError;
use crate::second_look::BATCH;
use flipcast_estimate::{ClassShares, Outputs, Signals, SubsetCot, map_ranges};
use flipcast_record::results::CellSample;

/// Images that were looked at twice.
pub(crate) struct Look {
    /// Their rows in the source pass. The second look saw the first of them, all or some.
    pub rows: Vec<usize>,
    /// Its outputs, at the temperature of clean images.
    pub second: Outputs,
    /// What an early look at the same images answers, if there was one.
    pub early: Option<Vec<usize>>,
}

/// Second looks at a cell, from which nothing was measured yet: networks look one after the other, while signals of many looks can be measured at once.
pub(crate) struct Looks {
    /// All images, or as many of them as a second look takes.
    pub whole: Look,
    /// Samples of them, where they are drawn.
    pub samples: Vec<(ClassShares, Look)>,
    /// The labels of all rows of the source pass, where they are asked for.
    pub labels: Option<Vec<usize>>,
    /// Whether the images of a batch share statistics.
    pub in_batches: bool,
}

/// What was measured of a cell.
pub(crate) struct Measured {
    pub signals: Signals,
    /// Accuracy of the second look, where labels are asked for.
    pub second_accuracy: Option<f64>,
    /// Of the batches looked at, how many had no flip, one, and so on; nothing where no batch shares statistics.
    pub flips_by_batch: Option<Vec<u32>>,
    pub samples: Vec<CellSample>,
}

impl Looks {
    /// Measures everything. `warm` are the source pass's outputs at the temperature of clean images.
    pub(crate) fn measure(&self, warm: &Outputs) -> Result<Measured, RunError> {
        let looks: Vec<&Look> = std::iter::once(&self.whole).chain(self.samples.iter().map(|(_, look)| look)).collect();
        let transport = SubsetCot::new(warm);
        let measure = |look: &Look| {
            let signals = Signals::measure(warm, &look.rows, &look.second, &transport)?;
            match &look.early {
                Some(early) => signals.with_early_look(warm, &look.rows, early),
                None => Ok(signals),
            }
        };
        let measured =
            map_ranges(0, looks.len(), 1, |range| looks[range].iter().map(|look| measure(look)).collect::<Vec<_>>());
        let mut signals = measured.into_iter().flatten();
        let mut next = || signals.next().expect("every look is measured");
        let whole = next()?;
        let second_accuracy = self.labels.as_ref().map(|labels| self.whole.second_accuracy(labels)).transpose()?;
        let mut samples = Vec::with_capacity(self.samples.len());
        if let Some(labels) = &self.labels {
            let predicted = warm.classes_predicted();
            for (shares, look) in &self.samples {
                let right = look.rows.iter().filter(|&&row| predicted[row] == labels[row]).count();
                let accuracy = right as f64 / look.rows.len() as f64;
                let (signals, second_accuracy) = (next()?, look.second_accuracy(labels)?);
                samples.push(CellSample { shares: *shares, signals, accuracy, second_accuracy });
            }
        }
        Ok(Measured { signals: whole, second_accuracy, flips_by_batch: self.flips_by_batch(warm), samples })
    }

    fn flips_by_batch(&self, warm: &Outputs) -> Option<Vec<u32>> {
        let Look { rows, second, .. } = &self.whole;
        if !self.in_batches || second.images() < BATCH {
            return None;
        }
        let (before, now) = (warm.classes_predicted(), second.classes_predicted());
        let mut batches = vec![0; BATCH + 1];
        for (rows, now) in rows.chunks_exact(BATCH).zip(now.chunks_exact(BATCH)) {
            batches[rows.iter().zip(now).filter(|(row, now)| before[**row] != **now).count()] += 1;
        }
        Some(batches)
    }
}

impl Look {
    /// Accuracy of the second look, all rows of the source pass having these `labels`.
    pub(crate) fn second_accuracy(&self, labels: &[usize]) -> Result<f64, RunError> {
        let labels: Vec<usize> = self.rows[..self.second.images()].iter().map(|&row| labels[row]).collect();
        Ok(self.second.accuracy(&labels)?)
    }
}
