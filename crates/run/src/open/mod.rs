//! What opens models, images and their labels: a request in words becomes something that runs.
//!
//! A [`ModelRequest`] names weights, a [`DataRequest`] names images; both check everything they can before any work is
//! done. The labels of a dataset become the classes of a model by a [`LabelRule`], or by a [`ClassMap`] where they are others.

mod class_map;
mod data;
mod error;
mod labels;
mod model;

pub use class_map::{ClassMap, ClassMapError};
pub use data::{DataRequest, OpenedData};
pub use error::{LabelMatchError, OpenError};
pub(crate) use labels::plain as plain_name;
pub use labels::{DecisionRule, LabelRule};
pub use model::ModelRequest;
