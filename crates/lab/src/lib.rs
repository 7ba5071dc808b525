//! Programs behind committed studies and benchmarks, in `src/bin`. Here is what several of them share.
#![forbid(unsafe_code)]

mod study_arguments;
mod study_line;

pub use study_arguments::StudyArguments;
pub use study_line::StudyLine;
