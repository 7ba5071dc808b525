//! A map of points in two dimensions in which neighbours stay neighbours.

mod affinities;
mod config;
mod descent;
mod forces;

pub use config::TsneConfig;
pub use descent::{Tsne, tsne};
