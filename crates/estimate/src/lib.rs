//! Estimate stage: what a network says about images nobody labelled becomes a guess of its accuracy on them.
//!
//! Takes [`Outputs`] (logits), embeddings or predicted classes, and what was learned on labelled images ([`Reference`]).
//! Gives a [`Score`] per estimator; [`embed`] describes the geometry of embeddings. Guarantees: no network is run here, every sum is made in
//! double precision and in a fixed order, every random number comes from a seed, and no estimator gives NaN or panics.
#![forbid(unsafe_code)]

mod ac;
mod accuracy_fit;
mod adapted_fit;
mod aetta;
mod atc;
mod bootstrap;
mod by_class;
mod combined;
mod correlation;
mod cot;
mod cott;
mod curve;
mod dispersion;
mod doc;
pub mod embed;
mod embeddings;
mod error;
mod error_model;
mod error_scale;
mod estimate;
mod familiarity;
mod flag;
mod gain;
mod gde;
mod grouped;
mod im;
mod labelled;
mod least_squares;
mod mano;
mod marginal;
mod mde;
mod nuclear_norm;
mod order;
mod outputs;
mod parallel;
mod products;
mod reference;
mod registry;
mod regression;
mod resample;
mod residual;
mod sample_errors;
mod score;
mod score_fit;
mod signals;
mod softmax;
mod stream;
mod symmetric;
mod temperature;
#[cfg(test)]
mod testing;
mod transport;
mod weighted_flips;

pub use ac::ac;
pub use accuracy_fit::{AccuracyFit, FEWEST_IMAGES, Opinions, SignalSample};
pub use adapted_fit::{AdaptedFit, StepsSample, StepsSeen};
pub use aetta::{Aetta, AettaConfig, Head, aetta};
pub use atc::{AtcScore, atc};
pub use bootstrap::{bootstrap_standard_error, standard_error};
pub use by_class::{ByClass, ByClassConfig, ClassEstimate, ExpectedConfusion, estimate_by_class, match_temperature};
pub use combined::Combination;
pub use correlation::{pearson, spearman};
pub use cot::{SubsetCot, cot};
pub use cott::{CottThreshold, cott};
pub use curve::{
    Curve, CurveKind, CurveShape, Direction, MonotoneSpline, PUBLISHED_CURVES, Polynomial, Prediction, PublishedCurve,
    fit_curve, fit_polynomial,
};
pub use dispersion::dispersion;
pub use doc::doc;
pub use embeddings::Embeddings;
pub use error::EstimateError;
pub use error_model::ErrorModel;
pub use estimate::{Estimate, conformal_half_width, normal_quantile, student_quantile};
pub use flag::Flag;
pub use gain::{ArbiterFit, Dispute, DisputeTally, Disputes, GainFit, GainSample, GainSignals, GainTally, Lineup};
pub use gde::gde;
pub use grouped::grouped_quantile;
pub use im::im;
pub use labelled::{
    Answer, FEWEST_LABELS, PoweredEstimate, Question, choose_questions, join_with_labels, powered_estimate, stratify,
};
pub use mano::{ManoConfig, mano};
pub use marginal::{Confusion, Marginal, MarginalMismatch, MarginalReference, measure_mismatch};
pub use mde::mde;
pub use nuclear_norm::nuclear_norm;
pub use order::comes_in_bursts;
pub use outputs::Outputs;
pub use parallel::map_ranges;
pub use reference::{ConfidenceBin, Reference, ece};
pub use registry::{Anchor, Evidence, Learned, Probe, SCORES, ScoreInfo, Scores, score_info};
pub use resample::ClassShares;
pub use residual::{leave_group_out, leave_one_out};
pub use sample_errors::{SampleErrors, Stratum};
pub use score::Score;
pub use score_fit::{FitPoint, Reading, ScoreFit, direct_errors, direct_estimate};
pub use signals::Signals;
pub use stream::{ClassTest, ConfidenceSequence, FLIP_BATCH, RankTest, ShiftReference, Wealth};
pub use temperature::{Temperature, fit_temperature};
pub use weighted_flips::{flips, weighted_flips};
