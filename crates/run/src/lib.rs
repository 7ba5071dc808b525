//! Record stage, the loop: a model, images and a protocol become cells, estimates and records.
//!
//! The only crate that knows every stage. A [`Cell`] is one dataset as all estimators see it; [`calibrate`] makes cells
//! of which the truth is known, and [`Calibration::estimate`] turns a cell into [`Estimates`]. Guarantees: labels enter
//! accuracies and calibration and nothing else, [`ImageGuesses::with_labels`] aside; a cell is kept as soon as it is known,
//! and none is made twice.
#![forbid(unsafe_code)]

pub mod adapt;
pub mod advise;
mod agreement;
pub mod analysis;
mod artefact;
mod basis;
mod calibrate;
mod calibration;
mod calibration_shifts;
mod cell;
mod cell_job;
mod clean_images;
mod cost;
mod device;
mod error;
mod estimate;
mod explain;
mod few_labels;
mod flip_protocol;
mod flips;
mod head;
mod image_memory;
mod images;
mod layer_statistics;
mod ledger;
mod load_calibration;
mod looks;
pub mod monitor;
mod network_pool;
pub mod open;
mod outputs;
mod parts;
mod pipeline;
mod pixels;
mod published;
mod restore;
mod scope;
mod scores;
mod second_look;
mod share_out;
mod source_pass;
mod training_crop;
mod watcher;

pub use agreement::{Agreement, Witness, measure_agreement};
pub use basis::{Basis, ScoreOptions};
pub use calibrate::{CalibrationJob, CleanCell, calibrate, clean_cell, corrupted};
pub use calibration::{CALIBRATION_FORMAT, Calibration, ModelIdentity};
pub use calibration_shifts::{CalibrationShift, HELD_OUT, check_kinds};
pub use cell::{CellRequest, Observation, Samples, Setting};
pub use cell_job::{CellJob, ObservedCell, PreparedCell, make_cells};
pub use clean_images::CleanImages;
pub use cost::{CalibrationCost, measure_cost};
pub use device::Device;
pub use error::RunError;
pub use estimate::{ESTIMATES_VERSION, EstimateSource, estimates_protocol};
pub use few_labels::{AskedImage, ImageGuesses, LabelFile, LabelFileError, LabelSource, estimate_classes, write_asked};
pub use flip_protocol::{FLIP_PROTOCOLS, FlipProtocol};
pub use flipcast_cuda::Precision;
pub use flipcast_estimate::{SCORES, ScoreInfo, score_info};
pub use flipcast_record::results::{
    Adaptation, ByClassResult, CalibrationCell, Cell, CellEstimates, CellSample, Estimates, EstimatesResult,
    FewLabelsResult, Fits, ScoreSummary, Seconds,
};
pub use flips::{FlipEvidence, Stop, collect_flips};
pub use image_memory::ImageMemory;
pub use images::{Images, MEMORY_LIMIT, Pass};
pub use ledger::{Ledger, cell_protocol, scored_protocol, with_storage};
pub use network_pool::PooledNetwork;
pub use outputs::{LabelledOutputs, LooksAtImages, OUTPUTS_CALIBRATION_FORMAT, OutputsCalibration, OutputsError};
pub use parts::{Census, DEFAULT_SAMPLE, Merged, PART_FORMAT, Part, PartError, PartPlan, Sums, merge_parts};
pub use pipeline::in_flight;
pub use pixels::pixel_space;
pub use published::{PAPER_FITS, PaperFit};
pub use restore::{RESTORE_IMAGES, RestoreOptions, restore_norms};
pub use scope::Scope;
pub use share_out::{Queue, share_out};
pub use source_pass::{SourcePass, run_source};
pub use training_crop::{TrainingCrop, TrainingCropError};
pub use watcher::{Unwatched, Watcher};
