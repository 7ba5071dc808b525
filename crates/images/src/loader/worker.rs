use std::sync::Arc;

use flipcast_tensor::ByteChange;

use super::queue::Queue;
use super::{BadImageCause, LoaderConfig};
use crate::dataset::Dataset;
use crate::guard::guarded;
use crate::preprocess::{Resize, Size};
use crate::{Image, Label};

/// One image, ready for a batch.
pub(super) struct Prepared {
    pub id: String,
    pub label: Label,
    pub size: Size,
    pub pixels: PreparedPixels,
}

/// What the batch will hold of an image.
pub(super) enum PreparedPixels {
    Bytes(Vec<u8>),
    Values(Vec<f32>),
}

/// Takes positions from the queue until it is closed.
pub(super) fn work(dataset: &Arc<dyn Dataset>, config: &LoaderConfig, queue: &Queue) {
    while let Some((position, index, buffer)) = queue.take() {
        let outcome = guarded(|| prepare(dataset, config, index, buffer))
            .unwrap_or_else(|message| Err(BadImageCause::Panicked { message }));
        queue.put(position, outcome);
    }
}

fn prepare(
    dataset: &Arc<dyn Dataset>,
    config: &LoaderConfig,
    index: usize,
    mut values: Vec<f32>,
) -> Result<Prepared, BadImageCause> {
    let sample = dataset.sample(index)?;
    let mut image = sample.payload.into_image(&config.decode)?;
    if config.border > 0 {
        image = without_border(&image, config.border)?;
    }
    if let Some(transform) = &config.transform {
        image = transform(dataset.stored_index(index), image).map_err(BadImageCause::Transform)?;
    }
    let size = config.preprocess.output_size(image.width(), image.height());
    image = config.preprocess.size_bytes(image)?;
    if let Some(change) = &config.change {
        image = changed(&**change, dataset.stored_index(index), image)?;
    }
    let pixels = match config.preprocess.resize {
        Resize::ExactFloat(_) => {
            values.resize(3 * size.width * size.height, 0.0);
            config.preprocess.apply(&image, &mut values)?;
            PreparedPixels::Values(values)
        }
        _ => PreparedPixels::Bytes(image.into_rgb()),
    };
    Ok(Prepared { id: sample.id, label: sample.label, size, pixels })
}

fn changed(change: &dyn ByteChange, index: usize, image: Image) -> Result<Image, BadImageCause> {
    let (width, height) = (image.width(), image.height());
    let mut rgb = image.into_rgb();
    change.change(index, [height, width, 3], &mut rgb).map_err(BadImageCause::Transform)?;
    Ok(Image::new(width, height, rgb).expect("a change keeps the size"))
}

fn without_border(image: &Image, border: usize) -> Result<Image, BadImageCause> {
    let (width, height) = (image.width(), image.height());
    let inner = |side: usize| side.checked_sub(2 * border).filter(|&rest| rest > 0);
    let (Some(w), Some(h)) = (inner(width), inner(height)) else {
        return Err(BadImageCause::Border { width, height, border });
    };
    let rows = image.rgb().chunks_exact(3 * width).skip(border).take(h);
    let rgb = rows.flat_map(|row| row[3 * border..3 * (border + w)].iter().copied());
    Ok(Image::new(w, h, rgb.collect()).expect("`h` rows of `w` pixels were kept"))
}
