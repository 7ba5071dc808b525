//! Charts: what is drawn ([`Panel`]), the primitives it becomes ([`Scene`]), and the files they are written to.
//!
//! Scales, ticks and axes are plotters'; it draws on a backend of this crate that records primitives and the role of
//! their colour. So one drawing becomes an SVG that follows the page's theme, an SVG with fixed colours, or a PNG.

mod axis;
mod figure;
mod font;
mod inline;
mod mark;
mod marker;
mod paint;
mod panel;
mod png;
mod recorder;
mod scene;
mod svg;

pub use axis::{Axis, AxisFormat};
pub use figure::{Figure, Size};
pub(crate) use font::FONT;
pub use inline::{chart_rules, to_inline_svg};
pub use mark::{Mark, MarkShape};
pub use marker::Marker;
pub use paint::{Paint, SERIES, Theme, theme_variables};
pub use panel::{LegendEntry, Panel, Trim};
pub use png::to_png;
pub use scene::{Anchor, Item, Scene};
pub use svg::to_svg;
