//! Corruptions of arrays of images.

use crate::array::write;
use crate::error::{raise, refuse};
use crate::images::pictures;
use crate::watch::watched;
use flipcast::corrupt::{CorruptError, CorruptionRequest, CorruptionSet, Storage, registry};
use flipcast::{Corruptor, Image};
use pyo3::prelude::*;

/// Corrupts images, an array of bytes `[images, height, width, 3]`, as the published sets do: `corrupt("fog", images, severity=3, seed=0)`.
///
/// The name may have its set in front, as `cifar-c/fog`; otherwise the size of the images decides. `storage` is the step after the corruption: "published"
/// (JPEG of quality 85 behind the ImageNet sets), "none" or "jpeg85". Image number i gets the same corruption whatever the others are; `first` is the number of the first.
///
/// >>> flipcast.corrupt("fog", images, severity=3, seed=0).shape == images.shape
/// True
#[pyfunction]
#[pyo3(signature = (name, images, severity=3, seed=0, *, first=0, storage="published", progress=None))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn corrupt<'py>(
    py: Python<'py>,
    name: &str,
    images: &Bound<'py, PyAny>,
    severity: u8,
    seed: u64,
    first: u64,
    storage: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let pictures = pictures(images)?;
    let request: CorruptionRequest =
        format!("{name}:{severity}").parse().map_err(|error: CorruptError| raise(py, &error))?;
    let storage = match storage {
        "published" => None,
        "none" => Some(Storage::None),
        "jpeg85" => Some(Storage::Jpeg85),
        _ => {
            let problem = format!("storage is `{storage}`, expected `published`, `none` or `jpeg85`");
            return Err(refuse(py, problem, "`published` is usual"));
        }
    };
    let request = CorruptionRequest { storage, ..request };
    let made = watched(py, progress.as_ref(), |watcher| -> Result<Vec<Image>, CorruptError> {
        let mut made = Vec::with_capacity(pictures.len());
        for (index, image) in pictures.iter().enumerate() {
            let (width, height) = (image.width(), image.height());
            let corruptor = Corruptor::new(seed).with_storage(request.storage_at(width, height)?);
            made.push(corruptor.corrupt(image, &request.resolve(width, height)?, first.wrapping_add(index as u64))?);
            watcher.predicted(index + 1, pictures.len());
        }
        Ok(made)
    })?;
    let (width, height) = made.first().map_or((0, 0), |image| (image.width(), image.height()));
    let bytes: Vec<u8> = made.into_iter().flat_map(Image::into_rgb).collect();
    write(py, &[pictures.len(), height, width, 3], &bytes)
}

/// Names of the corruptions of a set: "imagenet-c", "tiny-imagenet-c", "cifar-c", "imagenet-c-bar", "cifar-c-bar" or "calibration".
///
/// >>> flipcast.corruptions()[:2]
/// ['gaussian_noise', 'shot_noise']
#[pyfunction]
#[pyo3(signature = (set="imagenet-c"))]
pub fn corruptions(py: Python<'_>, set: &str) -> PyResult<Vec<&'static str>> {
    let known = CorruptionSet::ALL.into_iter().find(|known| known.name() == set);
    let known = known.ok_or_else(|| {
        let names: Vec<&str> = CorruptionSet::ALL.iter().map(|known| known.name()).collect();
        refuse(py, format!("no set is called `{set}`"), &format!("there are {}", names.join(", ")))
    })?;
    Ok(registry::names(known))
}
