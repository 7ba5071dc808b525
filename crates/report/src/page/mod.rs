//! The page: one file of HTML with its style, its script and its charts.

mod document;
mod figure;
mod hash;

pub use document::{PageOptions, render_page, render_paper};
