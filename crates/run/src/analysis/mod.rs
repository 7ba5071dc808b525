//! Analyses: what adaptation does to embeddings and predictions, step by step.
//!
//! One file per analysis, each with a job and a result that records hold. [`Analysis::recorded`] looks into the [`Ledger`] first and
//! keeps what it makes. Labels enter accuracies, the choice of images and class means, and never the adaptation;
//! the one exception is top-k omission, which is about labels.
//!
//! | analysis | asks |
//! |---|---|
//! | [`PhasesJob`] | when adaptation helps, when it begins to hurt, and how clusters move meanwhile |
//! | [`OmissionJob`] | how much of the gain comes from images that were right or certain to begin with |
//! | [`FlipsJob`] | whether flips tell how well separated, and how accurate, the network was |
//! | [`MapJob`] | what the embeddings look like along the way |
//! | [`ToyConfig`] | the same on points of a plane |
//!
//! [`Ledger`]: crate::Ledger

mod checkpoints;
mod clean;
mod correlation;
mod flips;
mod groups;
mod map;
mod observer;
mod omission;
mod phases;
mod recorded;
mod steps;
mod subject;
mod toy;

pub use checkpoints::checkpoints;
pub use clean::{Clean, CleanSettings, SourceMeans};
pub use correlation::{Correlation, PhaseCorrelations, correlate, phase_correlations};
pub use flipcast_estimate::embed::TsneConfig;
pub use flipcast_record::results::{
    Checkpoint, CurvePoint, EmbeddingMap, FlipPoint, Frame, Omission, PhaseChange, Phases, Toy, ToyFrame, ToyPanel,
};
pub use flips::FlipsJob;
pub use groups::Restriction;
pub use map::MapJob;
pub use omission::{OmissionJob, OmissionRule};
pub(crate) use phases::mean_silhouette;
pub use phases::{ClusterSettings, PhasesJob};
pub use recorded::Analysis;
pub use subject::Subject;
pub use toy::{ToyConfig, toy};
