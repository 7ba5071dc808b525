//! Programs behind committed studies and benchmarks, in `src/bin`. Here is what several of them share.
#![forbid(unsafe_code)]

mod kept_signals;
mod study_arguments;
mod study_line;

pub use kept_signals::{KeptSample, KeptSignals};
pub use study_arguments::StudyArguments;
pub use study_line::StudyLine;
