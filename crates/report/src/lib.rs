//! Report stage: records become a page, tables and figures.
//!
//! Takes record files ([`Study::load`]) and nothing else; gives one self-contained HTML page ([`render_page`]), tables as
//! Markdown, LaTeX or CSV ([`render_tables`]) and single figures as SVG or PNG ([`build_figure`], [`chart`]).
//!
//! Guarantees: the same records give the same bytes, whatever files they came in and whenever it is done; the page asks
//! nothing of any network; whatever comes from a record is escaped. A record that is not understood is left out and
//! named, a newer format is refused.
#![forbid(unsafe_code)]

pub mod chart;
mod error;
mod figures;
mod html;
mod page;
mod paper;
mod sections;
mod stats;
mod study;
mod table;

pub use error::ReportError;
pub use figures::{FIGURES, FigureInfo, build_figure};
pub use page::{PageOptions, render_page, render_paper};
pub use paper::{Paper, render_paper_tables};
pub use sections::{TableFormat, render_tables};
pub use study::Study;
pub use table::{Rank, Table, TableCell};
