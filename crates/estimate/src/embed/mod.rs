//! Embeddings of images become the numbers that describe their geometry.
//!
//! Takes [`Points`] (embeddings, `f32`) and labels or clusters; gives how well the clusters are separated ([`silhouette`]), the
//! clusters themselves ([`kmeans`]), how far they lie from where the classes used to be ([`shift_distance`]), and a map in two
//! dimensions ([`tsne()`]) with a measure of how far it can be trusted ([`trustworthiness`]).
//!
//! Distances are Euclidean and computed in double precision, except for silhouettes of large sets. Results depend on the
//! arguments alone, seeds included, never on the number of threads.

mod assignment;
mod centres;
mod class_means;
mod distance;
mod error;
mod kmeans;
mod points;
mod principal;
mod sample;
mod shift_distance;
mod silhouette;
mod trustworthiness;
mod tsne;

pub use assignment::{Assignment, solve_assignment};
pub use centres::Centres;
pub use class_means::class_means;
pub use error::EmbedError;
pub use kmeans::{Kmeans, KmeansConfig, kmeans};
pub use points::Points;
pub use shift_distance::{ShiftDistance, shift_distance};
pub use silhouette::{Silhouette, silhouette, silhouette_sampled};
pub use trustworthiness::trustworthiness;
pub use tsne::{Tsne, TsneConfig, tsne};
