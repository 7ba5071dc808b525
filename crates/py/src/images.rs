//! Images as Python gives them: a path, or an array of bytes.

use crate::array::{holds_bytes, read};
use crate::calibration::classes;
use crate::error::{raise, refuse};
use flipcast::{Batch, DataRequest, Image, InMemory, Label, Model, OpenedData};
use pyo3::prelude::*;

/// Opens a path, such as `val/` or `production.tar@fog:3`, or an array `[images, height, width, 3]` or `[images, height, width]` of bytes.
pub fn open(
    images: &Bound<'_, PyAny>,
    labels: Option<&Bound<'_, PyAny>>,
    model: &Model,
    limit: Option<usize>,
    seed: u64,
) -> PyResult<OpenedData> {
    let py = images.py();
    if let Some(spec) = path(images)? {
        if labels.is_some() {
            let hint = "leave `labels` out: files come with labels of their own, such as class folders";
            return Err(refuse(py, format!("labels are given beside the path `{spec}`"), hint));
        }
        let request = DataRequest { limit, seed, ..DataRequest::new(&spec) };
        return request.open(model).map_err(|error| raise(py, &error));
    }
    let pictures = pictures(images)?;
    let labels = match labels {
        Some(labels) => classes(labels)?.into_iter().map(class).collect(),
        None => vec![Label::Unknown; pictures.len()],
    };
    if labels.len() != pictures.len() {
        let problem = format!("there are {} labels for {} images", labels.len(), pictures.len());
        return Err(refuse(py, problem, "give a label for every image"));
    }
    let mut opened = OpenedData::new("array", InMemory::new(pictures.into_iter().zip(labels)), model)
        .map_err(|error| raise(py, &error))?;
    opened.seed = seed;
    Ok(opened)
}

/// The path that `object` names, if it is one.
fn path(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(text) = object.extract::<String>() {
        return Ok(Some(text));
    }
    if object.hasattr("__fspath__")? {
        return object.call_method0("__fspath__")?.extract().map(Some);
    }
    Ok(None)
}

fn class(label: usize) -> Label {
    // No network has this many classes, so that the label is refused as one of none.
    Label::Class(u32::try_from(label).unwrap_or(u32::MAX))
}

/// Images of an array of bytes; one channel is taken as grey.
pub fn pictures(images: &Bound<'_, PyAny>) -> PyResult<Vec<Image>> {
    let py = images.py();
    let (shape, values) = read::<u8>(images, "images")?;
    let (height, width, channels) = match *shape.as_slice() {
        [_, height, width, 3] => (height, width, 3),
        [_, height, width] | [_, height, width, 1] => (height, width, 1),
        _ => {
            let problem = format!("images have the shape {shape:?}, expected [images, height, width, 3]");
            return Err(refuse(py, problem, "channels come last; move them with `images.transpose(0, 2, 3, 1)`"));
        }
    };
    let rgb = |image: &[u8]| match channels {
        3 => image.to_vec(),
        _ => image.iter().flat_map(|&grey| [grey; 3]).collect(),
    };
    let size = (height * width * channels).max(1);
    let image = |bytes: &[u8]| {
        Image::new(width, height, rgb(bytes))
            .ok_or_else(|| refuse(py, "images have no pixels", "give images of at least one pixel"))
    };
    values.chunks_exact(size).map(image).collect()
}

/// A batch: bytes are preprocessed as the weights ask for, floats `[images, 3, height, width]` are taken as preprocessed.
pub fn batch(images: &Bound<'_, PyAny>, model: &Model) -> PyResult<Batch> {
    let py = images.py();
    if holds_bytes(images)? {
        let pictures = pictures(images)?;
        let preprocess = model.require_preprocess().map_err(|error| raise(py, &error))?;
        return py.detach(|| preprocess.batch(pictures)).map_err(|error| raise(py, &error));
    }
    let (shape, values) = read::<f32>(images, "the batch")?;
    let &[images, channels, height, width] = shape.as_slice() else {
        let problem = format!("the batch has the shape {shape:?}, expected [images, 3, height, width]");
        let hint = "floats are preprocessed images, channels first as in PyTorch; bytes are [images, height, width, 3]";
        return Err(refuse(py, problem, hint));
    };
    let made = py.detach(|| Batch::from_channels_first([images, channels, height, width], &values));
    made.map_err(|error| raise(py, &error))
}
