use super::{PhaseChange, Phases};
use flipcast_estimate::{pearson, spearman};
use serde::Serialize;

/// Half-width of the standard normal's central 95 %.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// How two numbers go together over splits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Correlation {
    /// Pairs.
    pub splits: usize,
    /// Of the numbers themselves.
    pub pearson: f64,
    /// Of their ranks; equal numbers share the average of their ranks.
    pub spearman: f64,
    /// Size beyond which Pearson's coefficient differs from zero at the 5 % level, by Fisher's transformation.
    pub threshold: f64,
}

/// What the paper reports over many splits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseCorrelations {
    /// Change in silhouette against change in accuracy, in phase 1.
    pub silhouette_accuracy: Option<Correlation>,
    /// Change in shift distance against change in accuracy, in phase 2.
    pub shift_accuracy: Option<Correlation>,
    /// Share of splits whose silhouette rises, by phase.
    pub silhouette_rises: [Option<f64>; 2],
}

/// Correlations of `pairs`; `None` for fewer than four, or where one side never changes.
pub fn correlate(pairs: &[(f64, f64)]) -> Option<Correlation> {
    if pairs.len() < 4 {
        return None;
    }
    Some(Correlation {
        splits: pairs.len(),
        pearson: pearson(pairs)?,
        spearman: spearman(pairs)?,
        threshold: (NORMAL_95 / (pairs.len() as f64 - 3.0).sqrt()).tanh(),
    })
}

/// The correlations of the paper over splits; those without the numbers needed are left out.
pub fn phase_correlations<'a>(splits: impl IntoIterator<Item = &'a Phases>) -> PhaseCorrelations {
    let mut phases: [Vec<PhaseChange>; 2] = Default::default();
    for split in splits {
        for (phase, change) in phases.iter_mut().zip(split.changes()) {
            phase.extend(change);
        }
    }
    let pairs = |changes: &[PhaseChange], measure: fn(&PhaseChange) -> Option<f64>| {
        let pairs = changes.iter();
        let pairs: Vec<(f64, f64)> = pairs.filter_map(|c| Some((measure(c)?, c.accuracy))).collect();
        correlate(&pairs)
    };
    let rises = |changes: &[PhaseChange]| {
        let known: Vec<f64> = changes.iter().filter_map(|c| c.silhouette).collect();
        let rising = known.iter().filter(|change| **change > 0.0).count();
        (!known.is_empty()).then(|| rising as f64 / known.len() as f64)
    };
    PhaseCorrelations {
        silhouette_accuracy: pairs(&phases[0], |change| change.silhouette),
        shift_accuracy: pairs(&phases[1], |change| change.shift_distance),
        silhouette_rises: [rises(&phases[0]), rises(&phases[1])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_correlations_are_found() {
        let found = correlate(&[(1.0, 1.0), (2.0, 8.0), (3.0, 27.0), (4.0, 64.0)]).unwrap();
        // Covariance 104 / 4, variances 5 / 4 and 2390 / 4.
        assert!((found.pearson - 104.0 / (5.0f64 * 2390.0).sqrt()).abs() < 1e-12);
        assert!((found.spearman - 1.0).abs() < 1e-12);
        let falling = correlate(&[(0.0, 3.0), (1.0, 2.0), (2.0, 1.0), (3.0, 0.0)]).unwrap();
        assert!((falling.pearson + 1.0).abs() < 1e-12);
        assert!((falling.threshold - NORMAL_95.tanh()).abs() < 1e-12);
    }

    #[test]
    fn few_or_constant_numbers_have_no_correlation() {
        assert_eq!(correlate(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
        assert_eq!(correlate(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
    }
}
