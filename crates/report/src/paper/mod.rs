//! A paper, item by item: its numbers, from a text file, beside those of records.

mod items;
mod measure;
mod sections;

pub use items::Paper;
pub use sections::render_paper_tables;
