//! Estimation: a calibration and a cell become estimates, with their intervals.

use crate::calibration::{Calibration, Fits};
use crate::cell::{Cell, ScoreSummary};
use flipcast_estimate::{Estimate, Flag, Reading, direct_estimate};
use std::collections::BTreeMap;

/// Estimates by name: `ac` as published, `ac_calibrated` corrected on the calibration cells, `combined`.
pub type Estimates = BTreeMap<String, Estimate>;

/// Both numbers for one dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct CellEstimates {
    /// For the source model's accuracy.
    pub source: Estimates,
    /// For the adapted model's accuracy.
    pub adapted: Estimates,
}

impl Calibration {
    /// Estimates for a cell, with intervals meant to hold the truth with probability `level`.
    pub fn estimate(&self, cell: &Cell, level: f64) -> CellEstimates {
        CellEstimates {
            source: estimate_all(&self.source, &cell.source, cell, cell.images, level),
            adapted: estimate_all(&self.adapted, &cell.adapted, cell, cell.probe_images, level),
        }
    }
}

fn estimate_all(
    fits: &Fits,
    scores: &BTreeMap<String, ScoreSummary>,
    cell: &Cell,
    images: usize,
    level: f64,
) -> Estimates {
    let mut estimates = Estimates::new();
    let mut readings = BTreeMap::new();
    let mut all_flags: BTreeMap<&str, Vec<Flag>> = BTreeMap::new();
    for (name, score) in scores {
        let flags = score.flags.iter().chain(&cell.flags).copied();
        let mut unique: Vec<Flag> = flags.collect();
        unique.sort();
        unique.dedup();
        all_flags.insert(name, unique);
    }
    for (name, score) in scores {
        let reading = Reading {
            score: score.value,
            standard_error: score.standard_error.unwrap_or(0.0),
            images,
            flags: &all_flags[name.as_str()],
        };
        readings.insert(name.clone(), reading);
        let calibrated = fits
            .by_score
            .get(name)
            .map(|fit| fit.estimate(&reading, level));
        match fits.direct.get(name) {
            Some(errors) => {
                estimates.insert(name.clone(), direct_estimate(&reading, errors, level));
                if let Some(calibrated) = calibrated {
                    estimates.insert(format!("{name}_calibrated"), calibrated);
                }
            }
            None => {
                if let Some(calibrated) = calibrated {
                    estimates.insert(name.clone(), calibrated);
                }
            }
        }
    }
    if let Some(combined) = fits.combined.estimate(&fits.by_score, &readings, level) {
        estimates.insert("combined".to_owned(), combined);
    }
    estimates
}
