//! Batches on their way to the device: checked, and sent from the host or taken from a set that lies there.

use crate::buffers::{ImageMemory, Sent};
use crate::device::{Device, DeviceMemory, Pinned};
use crate::error::CudaError;
use crate::launch::preprocess::{BatchSource, channels_last};
use crate::network::CudaNetwork;
use crate::precision::Element;
use crate::resident;
use flipcast_executor::{ExecError, checks};
use flipcast_tensor::{Batch, ByteScale, ImageSet, Pixels};
use std::sync::Arc;

/// A batch that was checked and lies on the device, so that it can be run many times.
#[derive(Debug)]
pub struct StagedBatch {
    memory: ImageMemory,
    images: usize,
}

impl StagedBatch {
    /// Number of images.
    pub fn images(&self) -> usize {
        self.images
    }
}

impl ImageMemory {
    /// A copy of images on the device.
    pub fn upload(device: &Arc<Device>, what: &'static str, pixels: Pixels) -> Result<Self, CudaError> {
        Ok(match pixels {
            Pixels::Values(values) => Self { pixels: device.upload(what, Element::F32, values)?, scale: None },
            Pixels::Bytes(bytes, scale) => Self {
                pixels: device.upload_bytes(what, bytes)?,
                scale: Some(device.upload(what, Element::F32, scale.values())?),
            },
        })
    }

    /// Images of these extents that lie channels last, all of them or those at `positions`.
    fn source<'a>(&self, extents: [usize; 3], positions: Option<&'a [u32]>) -> BatchSource<'a> {
        let scale = self.scale.as_ref().map(DeviceMemory::slice);
        BatchSource { pixels: self.pixels.slice(), scale, positions, strides: channels_last(extents) }
    }
}

impl CudaNetwork {
    /// Checks a batch and copies it to the device, to stay there.
    pub fn stage(&self, batch: &Batch) -> Result<StagedBatch, CudaError> {
        checks::check_extents(&self.graph, &self.plan, self.state.norm_mode(), batch)?;
        checks::check_readable(batch)?;
        for image in 0..batch.images() {
            check_image(batch, image)?;
        }
        self.device.enter()?;
        let pixels = match batch.bytes() {
            Some((bytes, scale)) => Pixels::Bytes(bytes, scale),
            None => Pixels::Values(batch.values()),
        };
        Ok(StagedBatch { memory: ImageMemory::upload(&self.device, "a batch", pixels)?, images: batch.images() })
    }

    pub(crate) fn take_staged(&mut self, batch: &StagedBatch) -> Result<(), CudaError> {
        self.device.enter()?;
        checks::check_statistics(&self.graph, &self.plan, self.state.norm_mode(), batch.images)?;
        self.images = batch.images;
        self.point_to(&batch.memory.source(self.image_extents(), None))?;
        self.send_affine()
    }

    pub(crate) fn take_batch(&mut self, batch: &Batch) -> Result<(), CudaError> {
        checks::check_extents(&self.graph, &self.plan, self.state.norm_mode(), batch)?;
        self.device.enter()?;
        if let Some(images) = batch.device_images()
            && self.take_foreign(images)?
        {
            self.images = batch.images();
            return self.send_affine();
        }
        let mut copy = None;
        if let Some((set, positions)) = batch.selection() {
            check_positions(set, positions)?;
            copy = resident::copy_of(&self.kernels, set)?.map(|copy| (copy, positions));
        }
        match copy {
            Some((copy, positions)) => {
                self.point_to(&copy.source(self.image_extents(), Some(positions)))?;
                self.memory.held = Some(copy);
            }
            None => self.send_images(batch)?,
        }
        self.images = batch.images();
        self.send_affine()
    }

    /// Queues the copy of a batch to the device, as bytes where it has them. Every image is checked while it is near.
    fn send_images(&mut self, batch: &Batch) -> Result<(), CudaError> {
        checks::check_readable(batch)?;
        // Images on another GPU were read there.
        self.device.enter()?;
        let len = batch.height() * batch.width() * batch.channels();
        let bytes = batch.images() * len * if batch.scale().is_some() { 1 } else { 4 };
        let mut sent = match self.memory.sent.take() {
            Some(sent) if sent.images.pixels.slice().len >= bytes => sent,
            _ => self.allocate_sent(self.batch() * (bytes / batch.images()))?,
        };
        let filled = fill(batch, &mut sent.host);
        let queued = filled.map_err(CudaError::from).and_then(|()| {
            sent.follow(&self.device, batch.scale())?;
            sent.host.send(sent.images.pixels.slice().first(bytes))?;
            self.point_to(&sent.images.source(self.image_extents(), None))
        });
        self.memory.sent = Some(sent);
        queued
    }

    /// Memory for batches of so many bytes.
    fn allocate_sent(&self, bytes: usize) -> Result<Sent, CudaError> {
        Ok(Sent {
            host: Pinned::new(&self.device, bytes.div_ceil(4))?,
            images: ImageMemory { pixels: self.device.allocate("the batch", Element::U8, bytes)?, scale: None },
            of: None,
        })
    }

    /// Height, width and channels of an image.
    pub(crate) fn image_extents(&self) -> [usize; 3] {
        let options = self.plan.options();
        [options.height, options.width, self.graph.input_channels()]
    }

    /// Queues the word of where the batch lies.
    pub(crate) fn point_to(&mut self, source: &BatchSource) -> Result<(), CudaError> {
        let place = self.memory.staged.slice();
        let host = &mut self.memory.host_staged;
        let words = source.write(place, host.values_mut());
        host.send(place.first(words))
    }
}

impl Sent {
    /// Sees to it that the scale on the device is `scale`.
    fn follow(&mut self, device: &Arc<Device>, scale: Option<&Arc<ByteScale>>) -> Result<(), CudaError> {
        let same = match (&self.of, scale) {
            (Some(of), Some(scale)) => Arc::ptr_eq(of, scale),
            (None, None) => true,
            _ => false,
        };
        if !same {
            let upload = |scale: &Arc<ByteScale>| device.upload("the batch", Element::F32, scale.values());
            self.images.scale = scale.map(upload).transpose()?;
            self.of = scale.cloned();
        }
        Ok(())
    }
}

/// Copies the images of a batch to page-locked memory, unless one of them holds a NaN or an infinity.
fn fill(batch: &Batch, host: &mut Pinned) -> Result<(), ExecError> {
    let len = batch.height() * batch.width() * batch.channels();
    match batch.scale() {
        None => fill_with(batch, &mut host.values_mut()[..batch.images() * len], |at| batch.image(at)),
        Some(_) => fill_with(batch, &mut host.bytes_mut()[..batch.images() * len], |at| {
            let bytes = batch.image_bytes(at);
            bytes.expect("a batch with a scale has bytes")
        }),
    }
}

/// Threads that copy a large batch: one alone is slower than the way to the device.
const COPIERS: usize = 4;
/// Bytes of a batch that is worth starting them.
const LARGE: usize = 8 << 20;

fn fill_with<'a, T: Copy + Send + Sync + 'a>(
    batch: &Batch,
    to: &mut [T],
    image: impl Fn(usize) -> &'a [T] + Sync,
) -> Result<(), ExecError> {
    let (images, len) = (batch.images(), to.len() / batch.images());
    let copy = |first: usize, to: &mut [T]| {
        for (at, to) in (first..).zip(to.chunks_exact_mut(len)) {
            check_image(batch, at)?;
            to.copy_from_slice(image(at));
        }
        Ok(())
    };
    if size_of_val(to) < LARGE {
        return copy(0, to);
    }
    let share = images.div_ceil(COPIERS);
    std::thread::scope(|scope| {
        let parts = to.chunks_mut(share * len).enumerate();
        let copiers: Vec<_> = parts.map(|(part, to)| scope.spawn(move || copy(part * share, to))).collect();
        let mut done = copiers.into_iter();
        done.try_for_each(|copier| copier.join().expect("copying does not panic"))
    })
}

fn check_image(batch: &Batch, image: usize) -> Result<(), ExecError> {
    let all_finite = checks::all_finite;
    let whole = batch.scale().is_some_and(|scale| all_finite(scale.values()));
    if whole || all_finite(batch.image(image)) {
        return Ok(());
    }
    Err(ExecError::NonFiniteInput { image })
}

/// Refuses images of a set that hold a NaN or an infinity.
fn check_positions(set: &ImageSet, positions: &[u32]) -> Result<(), ExecError> {
    let bad = set.non_finite();
    let is_bad = |position: &u32| bad.binary_search(position).is_ok();
    match positions.iter().position(is_bad) {
        Some(image) => Err(ExecError::NonFiniteInput { image }),
        None => Ok(()),
    }
}
