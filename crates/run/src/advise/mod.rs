//! Should this model be adapted to these images, how, and for how long?
//!
//! [`learn_advice`] tries every [`Candidate`] on labelled calibration cells and learns what its outputs say of its gain; [`advise`] tries them on images
//! nobody labelled: all on the first quarter, the best few on the rest; [`follow`] turns what was found into a run.

mod anchor;
mod candidate;
mod follow;
mod learn;
mod race;
mod recorded;
mod trial;

pub use anchor::{ANCHOR_IMAGES, Anchors, models_of};
pub use candidate::{Candidate, candidates};
pub use flipcast_record::results::{Advice, AdviceResult, AdvisedMethod, Phase, TriedCandidate};
pub use follow::{Followed, follow};
pub use learn::{ADVICE_IMAGES, AdviceFit, CellTrials, TrialSample, learn_advice};
pub use race::{AdviceJob, AdviceOrder, FINALISTS, LEAST_GAIN, advise};
pub use recorded::{AdviceOptions, advise_on};
pub use trial::{TRIAL_BATCH, Trial, TrialSetting, start_trials};
