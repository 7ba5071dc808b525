//! How accurate is an image classifier on images nobody labelled, and how does it adapt to them?
//!
//! One crate to depend on; each module is one stage of the flow from image to report.
#![forbid(unsafe_code)]

pub use flipcast_adapt as adapt;
pub use flipcast_corrupt as corrupt;
pub use flipcast_estimate as estimate;
pub use flipcast_images as images;
pub use flipcast_models as models;
pub use flipcast_record as record;
pub use flipcast_report as report;
pub use flipcast_run as run;
pub use flipcast_study as study;
pub use flipcast_tensor as tensor;
