//! One file per section of the page: words, figures and tables.

mod adaptations;
mod advice;
mod answer;
mod by_class;
mod calibration;
mod errors;
mod estimates;
mod few_labels;
mod flags;
mod flips;
mod map;
mod omission;
mod phases;
mod protocols;
mod provenance;
mod refits;
mod section;
mod tables;
mod toy;
mod variants;

pub(crate) use answer::answer;
pub(crate) use section::{Block, Section, all_sections, missing};
pub(crate) use tables::write_tables;
pub use tables::{TableFormat, render_tables};
