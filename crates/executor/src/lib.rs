//! Logits stage, the contract: what every executor does, in the same words, whichever device it runs on.
//!
//! An [`Executor`] takes a batch and gives [`Logits`]; from a logit gradient it gives the gradient of every norm layer's
//! scale and shift; and it makes whole adaptation steps ([`Executor::step`]), of which the arithmetic on the host stands here:
//! losses of logits ([`loss`]) and optimizers of a flat vector ([`Optimizer`]). Guarantees: all executors refuse the same
//! inputs with the same errors ([`checks`]), and an executor that makes steps by itself gives what the host's step gives.
#![forbid(unsafe_code)]

pub mod checks;
mod error;
mod executor;
mod logits;
pub mod loss;
mod norm_mode;
mod optimizer;
mod param;
mod state;
mod step;
mod step_times;

pub use error::ExecError;
pub use executor::Executor;
pub use logits::Logits;
pub use norm_mode::{NormMode, NormStatistics};
pub use optimizer::{AdamConfig, Optimizer, OptimizerConfig, OptimizerMemory, SettingError, SgdConfig};
pub use param::{affine_params, node_param, param};
pub use state::ExecutorState;
pub use step::{StepLoss, StepMemory, StepRequest, StepResult, StepRun};
pub use step_times::StepTimes;
