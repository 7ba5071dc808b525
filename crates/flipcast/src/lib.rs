//! How accurate is an image classifier on images nobody labelled, and how does it adapt to them?
//!
//! This is the crate to depend on. What flows through it:
//!
//! | you have | you call | you get |
//! |---|---|---|
//! | a weight file | [`ModelRequest`]`::open` | a [`Model`]: graph, weights, preprocessing |
//! | images, in files or in memory | [`DataRequest`]`::open`, [`OpenedData::new`] | a [`Dataset`], and how it reaches the model |
//! | a model and a [`Device`] | [`Device::network`] | a network that predicts batches ([`Executor`]) |
//! | a network and batches | [`MethodConfig::build`], [`Adapter::step`] | predictions while the norm layers adapt |
//! | labelled clean images | [`calibrate`] | a [`Calibration`] of this model |
//! | images without labels | [`Setting::cell`], [`Calibration::estimate`] | an accuracy, an interval, warnings ([`Estimate`]) |
//! | images, and ways to adapt to them | [`run::advise::learn_advice`], [`run::advise::advise`] | what each would gain, and what to do |
//! | images that keep coming | [`Monitor::update`], [`Monitor::report`] | the same by windows, and alarms |
//! | logits and labels, and no network | [`OutputsCalibration::fit`], [`OutputsCalibration::estimate`] | the same from outputs alone |
//! | clean images | [`corrupt`] | the published corruptions of them |
//! | results | [`RecordStore`], [`report`] | a file that outlives the run, a page with tables and figures |
//!
//! Labels enter accuracies and calibrations, and estimates where a few are given for that ([`run::ImageGuesses`]); nothing
//! else. Equal seeds give equal results on every machine and with any number of threads. Errors say what was found and what was
//! expected; [`hint`] says what would help.
//!
//! The whole way, with a random network and pictures made on the spot (real ones come from [`ModelRequest`] and
//! [`DataRequest`]):
//!
//! ```
//! use flipcast::images::preprocess::{Normalise, Preprocess};
//! use flipcast::{
//!     Calibration, CalibrationJob, Device, FlipProtocol, Image, InMemory, Label, Ledger, Model, OpenedData, Setting,
//!     Unwatched, calibrate,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::random("cifar_resnet20", 2, 1)?.with_preprocess(Preprocess::normalise_only(Normalise::half()));
//! let picture = |i: usize| {
//!     let rgb = (0..32 * 32 * 3).map(|j| ((i * 37 + j * (1 + i % 2)) % 256) as u8).collect();
//!     Some((Image::new(32, 32, rgb)?, Label::Class((i % 2) as u32)))
//! };
//! let images: Vec<(Image, Label)> = (0..24).filter_map(picture).collect();
//! let labelled = OpenedData::new("clean", InMemory::new(images.clone()), &model)?;
//!
//! // Once per model: what its outputs say about its accuracy.
//! let protocol = FlipProtocol::for_network("statistics", model.graph())?;
//! let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
//! let job = CalibrationJob::new(setting, labelled.request());
//! let calibration: Calibration = calibrate(&job, &mut Ledger::default(), &mut Unwatched)?;
//!
//! // For every set of images that nobody labelled.
//! let unlabelled = images.into_iter().map(|(image, _)| (image, Label::Unknown));
//! let data = OpenedData::new("new", InMemory::new(unlabelled), &model)?;
//! let request = data.request();
//! let cell = job.setting.cell("estimate", &request, &calibration.basis, &mut Ledger::default(), &mut Unwatched)?;
//! let estimate = &calibration.estimate(&cell, 0.9).source["combined"];
//! assert!(estimate.low <= estimate.accuracy && estimate.accuracy <= estimate.high);
//! # Ok(())
//! # }
//! ```
//!
//! Adapting while predicting; with files, `ModelRequest::new("resnet18.safetensors".as_ref()).open()?` and
//! `DataRequest::new("production.tar").open(&model)?` take the place of the first lines:
//!
//! ```
//! # use flipcast::images::preprocess::{Normalise, Preprocess};
//! # use flipcast::{Image, InMemory, Label, Model, OpenedData};
//! use flipcast::{Adapter, Device, Loader, MethodConfig, Purpose};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = Model::random("cifar_resnet8_w4", 10, 1)?.with_preprocess(Preprocess::normalise_only(Normalise::half()));
//! # let picture = |i: usize| Image::new(32, 32, (0..3072).map(|j| ((i * 37 + j) % 256) as u8).collect()).expect("3072 bytes");
//! # let data = OpenedData::new("stream", InMemory::new((0..6).map(|i| (picture(i), Label::Unknown))), &model)?;
//! let request = data.request();
//! let mut net = Device::cpu(1).network(&model, Purpose::Adapt, 4)?;
//! let mut tent = MethodConfig::default_for("tent", model.num_classes())?.build(0)?;
//! # let config = flipcast::LoaderConfig { batch_size: 4, ..request.config.clone() };
//! # let request = flipcast::CellRequest { config, ..request };
//! for loaded in Loader::new(request.dataset.clone(), request.config.clone())? {
//!     println!("{:?}", tent.step(&mut *net, &loaded?.batch)?.logits.argmax());
//! }
//! assert_ne!(net.affine(), net.source_affine());
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` shows three longer programs: `estimate_accuracy`, `adapt_stream` and `own_corruptions`.
#![forbid(unsafe_code)]

mod hint;

pub use hint::{hint, hints};

#[doc(inline)]
pub use flipcast_adapt::{Adapter, METHODS, MethodConfig, Recipe, StepOutput};
#[doc(inline)]
pub use flipcast_corrupt::{Corruptor, DataSpec};
#[doc(inline)]
pub use flipcast_estimate::{Estimate, Flag, Outputs};
#[doc(inline)]
pub use flipcast_exec::{Executor, Logits, NormMode, Purpose};
#[doc(inline)]
pub use flipcast_ground::Hint;
#[doc(inline)]
pub use flipcast_images::dataset::{Dataset, InMemory, Sample};
#[doc(inline)]
pub use flipcast_images::loader::{Loader, LoaderConfig};
#[doc(inline)]
pub use flipcast_images::{Image, Label};
#[doc(inline)]
pub use flipcast_models::Model;
#[doc(inline)]
pub use flipcast_record::{Protocol, RecordStore, RunRecord};
#[doc(inline)]
pub use flipcast_run::monitor::{Monitor, MonitorBasis, MonitorConfig};
#[doc(inline)]
pub use flipcast_run::open::{DataRequest, LabelRule, ModelRequest, OpenedData};
#[doc(inline)]
pub use flipcast_run::{
    Calibration, CalibrationJob, Cell, CellEstimates, CellRequest, Device, FlipProtocol, LabelledOutputs, Ledger,
    OutputsCalibration, ScoreOptions, Setting, Unwatched, Watcher, calibrate,
};
#[doc(inline)]
pub use flipcast_tensor::Batch;

pub use flipcast_adapt as adapt;
pub use flipcast_corrupt as corrupt;
pub use flipcast_cuda as cuda;
pub use flipcast_estimate as estimate;
pub use flipcast_images as images;
pub use flipcast_models as models;
pub use flipcast_record as record;
pub use flipcast_report as report;
pub use flipcast_run as run;
pub use flipcast_study as study;
