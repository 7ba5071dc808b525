//! Adapter stage: a network and a batch become predictions, and perhaps a changed affine vector.
//!
//! A method is a function of logits: it gives a loss and, in closed form, that loss's gradient with respect to the logits.
//! The executor carries it to the scales and shifts of the norm layers, and an [`Optimizer`] moves them. Nothing else of
//! the network ever changes.
#![forbid(unsafe_code)]

mod adapter;
mod asr;
mod augment;
#[cfg(test)]
mod behaviour;
mod bn;
mod bn_cumulative;
mod bn_early;
mod come;
mod cotta;
mod cpl;
mod cross_entropy;
mod deyo;
mod eata;
mod entropy_margin;
mod error;
mod eta;
mod guard;
mod method;
mod minimizer;
mod norms;
mod param_rule;
mod prior_correction;
mod random;
mod rdumb;
mod redundancy_margin;
mod roid;
mod rpl;
mod sar;
#[cfg(test)]
mod small_network;
mod soft_likelihood_ratio;
mod source;
mod tent;

pub use adapter::{Adapter, StepOutput};
pub use asr::{Asr, AsrConfig, AsrStep};
pub use augment::{AugmentConfig, Padding, PixelSpace};
pub use bn::{Bn, BnConfig};
pub use bn_cumulative::{BnCumulative, BnCumulativeConfig};
pub use bn_early::BnEarlyConfig;
pub use come::{Come, ComeConfig};
pub use cotta::{Cotta, CottaConfig, CottaLoss};
pub use cpl::{Cpl, CplConfig};
pub use deyo::{Deyo, DeyoConfig};
pub use eata::{Eata, EataConfig};
pub use entropy_margin::EntropyMargin;
pub use error::AdaptError;
pub use eta::{Eta, EtaConfig};
pub use flipcast_executor::loss::{entropies, mean_entropy_gradient, opinion_entropy_gradient};
pub use flipcast_executor::{AdamConfig, Optimizer, OptimizerConfig, OptimizerMemory, SgdConfig, StepMemory};
pub use guard::{
    ClassMeans, DriftMeter, Guard, GuardAction, GuardConfig, GuardReason, GuardReport, GuardState, Observation,
};
pub use method::{METHODS, Method, MethodConfig, MethodInfo, Recipe, SharedSettings};
pub use minimizer::{LossMethod, Minimize};
pub use norms::{Norms, Target};
pub use param_rule::ParamRule;
pub use prior_correction::PriorCorrection;
pub use rdumb::{Rdumb, RdumbConfig};
pub use redundancy_margin::RedundancyMargin;
pub use roid::{Roid, RoidConfig};
pub use rpl::{Rpl, RplConfig};
pub use sar::{Sar, SarConfig};
pub use source::{Source, SourceConfig};
pub use tent::{Tent, TentConfig};
