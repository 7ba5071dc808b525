//! Images as Python gives them: a path, an array of bytes, or batches of them, as a `DataLoader` gives.

use crate::array::{as_array, holds_bytes, read};
use crate::calibration::classes;
use crate::dlpack;
use crate::error::{raise, refuse};
use flipcast::{Batch, DataRequest, Device, Image, InMemory, Label, Model, OpenedData};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Opens a path, such as `val/` or `production.tar@fog:3`, an array `[images, height, width, 3]`, `[images, 3, height, width]` or `[images, height, width]` of bytes, or something that
/// gives such arrays, alone or with their labels.
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
    let (pictures, own_labels) = match is_batches(images)? {
        true => batches(images, limit)?,
        false => (pictures(images)?, None),
    };
    let labels = match (labels, own_labels) {
        (Some(_), Some(_)) => {
            let hint = "leave `labels` out, or give batches of images alone";
            return Err(refuse(py, "labels are given beside batches that have labels of their own", hint));
        }
        (Some(labels), None) => classes(labels)?.into_iter().map(class).collect(),
        (None, Some(labels)) => labels,
        (None, None) => vec![Label::Unknown; pictures.len()],
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

/// Whether `object` gives batches one after the other: it can be iterated over, and is no array, tensor or list.
fn is_batches(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_array = object.hasattr("__array__")?
        || object.hasattr("__array_interface__")?
        || object.hasattr("__dlpack__")?
        || object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>();
    Ok(!is_array && object.hasattr("__iter__")?)
}

/// All images of batches, `limit` at most, and their labels if they have some.
fn batches(object: &Bound<'_, PyAny>, limit: Option<usize>) -> PyResult<(Vec<Image>, Option<Vec<Label>>)> {
    let py = object.py();
    let limit = limit.unwrap_or(usize::MAX);
    let (mut images, mut labels, mut labelled) = (Vec::new(), Vec::new(), None);
    for batch in object.try_iter()? {
        if images.len() >= limit {
            break;
        }
        let batch = batch?;
        // A loader gives pairs as tuples or as lists.
        let pair = (batch.is_instance_of::<PyTuple>() || batch.is_instance_of::<PyList>()) && batch.len()? == 2;
        let (pixels, truth) = match pair {
            true => (batch.get_item(0)?, Some(batch.get_item(1)?)),
            false => (batch, None),
        };
        if *labelled.get_or_insert(truth.is_some()) != truth.is_some() {
            return Err(refuse(py, "some batches have labels and some have none", "give all of them labels, or none"));
        }
        let more = pictures(&pixels)?;
        if let Some(truth) = truth {
            let truth = classes(&truth)?;
            if truth.len() != more.len() {
                let problem = format!("a batch has {} labels for {} images", truth.len(), more.len());
                return Err(refuse(py, problem, "give a label for every image"));
            }
            labels.extend(truth.into_iter().map(class));
        }
        images.extend(more);
    }
    images.truncate(limit);
    labels.truncate(limit);
    Ok((images, labelled.filter(|&labelled| labelled).map(|_| labels)))
}

/// The path that `object` names, if it is one.
pub fn path(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
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
        // Channels first, as PyTorch has them.
        [_, 3, _, _] => {
            let numpy = py.import("numpy")?;
            return pictures(&numpy.call_method1("moveaxis", (as_array(images)?, 1, 3))?);
        }
        [_, height, width] | [_, height, width, 1] => (height, width, 1),
        _ => {
            let problem = format!("images have the shape {shape:?}, expected [images, height, width, 3]");
            return Err(refuse(py, problem, "give one array of images of the same size"));
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

/// A batch: bytes are preprocessed as the weights ask for, floats `[images, 3, height, width]` are taken as preprocessed. One that lies on `device` stays there where its layout allows.
pub fn batch(images: &Bound<'_, PyAny>, model: &Model, device: Device) -> PyResult<Batch> {
    let py = images.py();
    if let Some(batch) = dlpack::batch(images, model, device)? {
        return Ok(batch);
    }
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
