use flipcast_adapt::AdaptError;
use flipcast_corrupt::ccc::{PlanError, TablesError};
use flipcast_corrupt::write::WriteError;
use flipcast_corrupt::{CorruptError, FrostError};
use flipcast_cuda::CudaError;
use flipcast_estimate::EstimateError;
use flipcast_estimate::embed::EmbedError;
use flipcast_exec::ExecError;
use flipcast_ground::Hint;
use flipcast_images::dataset::DataError;
use flipcast_images::decode::DecodeError;
use flipcast_images::labelspace::LabelError;
use flipcast_images::loader::LoadError;
use flipcast_models::{CardError, HubError, ImportError, ModelError, RestoreError};
use flipcast_record::RecordError;
use flipcast_record::predictions::PredictionError;
use flipcast_report::ReportError;
use flipcast_run::adapt::AffineError;
use flipcast_run::monitor::MonitorError;
use flipcast_run::open::{ClassMapError, LabelMatchError, OpenError};
use flipcast_run::{LabelFileError, OutputsError, PartError, RunError};
use std::error::Error;

/// Asks one kind of error for advice; `None` if it is of another kind.
type Adviser = fn(&(dyn Error + 'static)) -> Option<String>;

/// Every error of the library that advises, one row each.
const ADVISERS: &[Adviser] = &[
    ask::<AdaptError>,
    ask::<AffineError>,
    ask::<CardError>,
    ask::<ClassMapError>,
    ask::<CorruptError>,
    ask::<CudaError>,
    ask::<DataError>,
    ask::<DecodeError>,
    ask::<EmbedError>,
    ask::<ExecError>,
    ask::<EstimateError>,
    ask::<FrostError>,
    ask::<HubError>,
    ask::<ImportError>,
    ask::<LabelError>,
    ask::<LabelFileError>,
    ask::<LabelMatchError>,
    ask::<LoadError>,
    ask::<ModelError>,
    ask::<MonitorError>,
    ask::<OpenError>,
    ask::<OutputsError>,
    ask::<PartError>,
    ask::<PlanError>,
    ask::<PredictionError>,
    ask::<RecordError>,
    ask::<ReportError>,
    ask::<RestoreError>,
    ask::<RunError>,
    ask::<TablesError>,
    ask::<WriteError>,
];

fn ask<E: Error + Hint + 'static>(error: &(dyn Error + 'static)) -> Option<String> {
    error.downcast_ref::<E>()?.hint()
}

/// What `error` itself advises, its causes left aside. The advice names no flag and no argument: a program that has
/// such adds them.
pub fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    ADVISERS.iter().find_map(|adviser| adviser(error))
}

/// What `error` and its causes advise, the outermost first and nothing twice.
///
/// ```
/// let request = flipcast::DataRequest::new("photos@fogg:3");
/// let model = flipcast::Model::random("cifar_resnet20", 10, 1)?;
/// let error = request.open(&model).err().expect("no corruption is called `fogg`");
/// assert_eq!(error.to_string(), "cannot understand `photos@fogg:3`");
/// assert!(flipcast::hints(&error)[0].contains("spelling"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn hints(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        found.extend(hint(error).filter(|hint| !found.contains(hint)));
        next = error.source();
    }
    found
}
