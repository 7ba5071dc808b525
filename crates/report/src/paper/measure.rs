use crate::Study;
use crate::figures::{Change, phase_1, phase_2, phase_2_silhouette};
use crate::stats::mean;
use crate::study::{Entry, Subject, Which, quality_of};
use flipcast_estimate::{CurveKind, pearson, spearman};
use flipcast_record::results::Phases;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How a number is found in records.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "measure", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Measure {
    /// Mean absolute error of an estimator for the source model in points, over shifted images where there are any.
    Error {
        network: String,
        variant: Option<String>,
        /// The paper's fit in place of an own calibration.
        fit: Option<String>,
        estimator: String,
        /// Rows of the plan; all without a list.
        #[serde(default)]
        rows: Vec<String>,
    },
    /// The same with a curve that was fitted again to the calibration cells.
    Refit { network: String, variant: Option<String>, estimator: String, curve: CurveKind },
    /// The same with another network's curve; the mean over all others if `from` is not given.
    Transfer { to: String, from: Option<String>, variant: Option<String>, estimator: String },
    /// Of the errors over all choices of what a curve is fitted to, this percentile; the mean without one.
    Subsets { network: String, variant: Option<String>, estimator: String, percentile: Option<usize> },
    /// In how many percent of the runs the silhouette rises.
    SilhouetteRises { network: String, phase: Phase },
    /// Correlation of the changes of silhouette (phase 1) or shift distance (phase 2) and accuracy.
    PhaseCorrelation {
        network: String,
        phase: Phase,
        #[serde(default)]
        ranks: bool,
    },
    /// Correlation of flips with the silhouette before adapting, or with accuracy.
    FlipCorrelation {
        network: String,
        /// Part of the method's setting, such as `990 steps`.
        setting: Option<String>,
        with: FlipsWith,
        #[serde(default)]
        ranks: bool,
    },
    /// Points of accuracy gained by adapting without the images whose label is among the `k` likeliest classes; the mean over seeds.
    OmissionGain {
        network: String,
        k: usize,
        /// Part of the method's setting, such as `sgd 0.00025`.
        setting: Option<String>,
        /// At this step; at the last without one.
        step: Option<usize>,
    },
}

/// A phase of adapting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Until accuracy is at its best.
    First,
    /// From there on.
    Second,
}

/// What flips are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FlipsWith {
    Silhouette,
    Accuracy,
}

/// A number found in records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// As it is shown: points, percent or a correlation.
    pub value: f64,
    /// What it is taken over, such as `75 cells`.
    pub over: String,
}

impl Measure {
    /// What its number is given in.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Error { .. } | Self::Refit { .. } | Self::Transfer { .. } | Self::Subsets { .. } => {
                "mean absolute error, in points"
            }
            Self::SilhouetteRises { .. } => "percent of the runs",
            Self::PhaseCorrelation { .. } | Self::FlipCorrelation { .. } => "correlation",
            Self::OmissionGain { .. } => "points of accuracy gained",
        }
    }

    /// The number, if the records hold it.
    pub fn find(&self, study: &Study) -> Option<Found> {
        match self {
            Self::Error { network, variant, fit, estimator, rows } => {
                let asked = |subject: &Subject| {
                    is_about(subject, network, variant)
                        && subject.paper_fit == *fit
                        && (rows.is_empty() || subject.row.as_ref().is_some_and(|row| rows.contains(row)))
                };
                let mut entries: Vec<_> = study.estimates.iter().filter(|entry| asked(&entry.subject)).collect();
                if entries.iter().any(|entry| entry.subject.is_shifted) {
                    entries.retain(|entry| entry.subject.is_shifted);
                }
                let quality = quality_of(entries, Which::Source, estimator)?;
                found(100.0 * quality.mae, quality.datasets, "cell")
            }
            Self::Refit { network, variant, estimator, curve } => {
                let refit = study.refits.iter().find(|entry| {
                    let refit = &entry.result;
                    is_about(&entry.subject, network, variant)
                        && refit.draw.is_none()
                        && refit.estimator == *estimator
                        && refit.curve == *curve
                })?;
                found(100.0 * refit.result.mae, refit.result.cells, "cell")
            }
            Self::Transfer { to, from, variant, estimator } => {
                // Two plans may have asked the same of the same cells.
                let errors: BTreeMap<&str, f64> = study
                    .transfers
                    .iter()
                    .filter(|entry| {
                        let transfer = &entry.result;
                        is_about(&entry.subject, to, variant)
                            && from.as_ref().is_none_or(|from| transfer.from == *from)
                            && transfer.estimator == *estimator
                    })
                    .map(|entry| (entry.result.from.as_str(), entry.result.mae))
                    .collect();
                let errors: Vec<f64> = errors.into_values().collect();
                found(100.0 * mean(&errors)?, errors.len(), "other network")
            }
            Self::Subsets { network, variant, estimator, percentile } => {
                let entry = study
                    .subsets
                    .iter()
                    .find(|entry| is_about(&entry.subject, network, variant) && entry.result.estimator == *estimator)?;
                let errors = &entry.result;
                let value = match percentile {
                    Some(share) => *errors.percentiles.get(share * errors.percentiles.len().saturating_sub(1) / 100)?,
                    None => errors.mean,
                };
                found(100.0 * value, errors.subsets, "choice")
            }
            Self::SilhouetteRises { network, phase } => {
                let changes = changes(
                    study,
                    network,
                    match phase {
                        Phase::First => phase_1,
                        Phase::Second => phase_2_silhouette,
                    },
                );
                let rises = changes.iter().filter(|(silhouette, _)| *silhouette > 0.0).count();
                (!changes.is_empty()).then_some(())?;
                found(100.0 * rises as f64 / changes.len() as f64, changes.len(), "run")
            }
            Self::PhaseCorrelation { network, phase, ranks } => {
                let changes = changes(
                    study,
                    network,
                    match phase {
                        Phase::First => phase_1,
                        Phase::Second => phase_2,
                    },
                );
                found(correlation(&changes, *ranks)?, changes.len(), "run")
            }
            Self::FlipCorrelation { network, setting, with, ranks } => {
                let asked = |subject: &Subject| is_about(subject, network, &None) && has_setting(subject, setting);
                let pairs: Vec<(f64, f64)> = study
                    .flips
                    .iter()
                    .filter(|entry| asked(&entry.subject))
                    .filter_map(|entry| {
                        let point = &entry.result;
                        let other = match with {
                            FlipsWith::Silhouette => point.silhouette,
                            FlipsWith::Accuracy => point.accuracy,
                        };
                        Some((point.flips, other?))
                    })
                    .collect();
                found(correlation(&pairs, *ranks)?, pairs.len(), "split")
            }
            Self::OmissionGain { network, k, setting, step } => {
                let gains: Vec<f64> = study
                    .omissions
                    .iter()
                    .filter(|entry| {
                        let subject = &entry.subject;
                        is_about(subject, network, &None)
                            && has_setting(subject, setting)
                            && subject.rule == "top_k"
                            && subject.rule_value == Some(*k as f64)
                    })
                    .filter_map(|entry| {
                        let curve = &entry.result.curve;
                        let last = match step {
                            Some(step) => curve.iter().find(|point| point.step == *step),
                            None => curve.last(),
                        };
                        Some(last?.accuracy? - curve.first()?.accuracy?)
                    })
                    .collect();
                found(100.0 * mean(&gains)?, gains.len(), "seed")
            }
        }
    }
}

fn found(value: f64, count: usize, of: &str) -> Option<Found> {
    let plural = if count == 1 { "" } else { "s" };
    value.is_finite().then(|| Found { value, over: format!("{} {of}{plural}", flipcast_ground::grouped(count)) })
}

fn is_about(subject: &Subject, network: &str, variant: &Option<String>) -> bool {
    subject.network == network && (variant.is_none() || subject.variant == *variant)
}

fn has_setting(subject: &Subject, setting: &Option<String>) -> bool {
    setting.as_ref().is_none_or(|part| subject.setting.contains(part.as_str()))
}

fn changes(study: &Study, network: &str, of: fn(&Phases) -> Option<Change>) -> Vec<(f64, f64)> {
    let runs = study.phases.iter().filter(|entry: &&Entry<Phases>| entry.subject.network == network);
    let changes = runs.filter_map(|entry| of(&entry.result));
    changes.map(|change| (change.measure, change.accuracy)).collect()
}

fn correlation(pairs: &[(f64, f64)], ranks: bool) -> Option<f64> {
    if ranks { spearman(pairs) } else { pearson(pairs) }
}
