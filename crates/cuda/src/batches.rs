//! Batches on their way to the device: checked, and sent from the host or put together from a set that lies there.

use crate::device::{DeviceMemory, Pinned};
use crate::error::CudaError;
use crate::launch::gather;
use crate::network::CudaNetwork;
use crate::norms::Norm;
use crate::precision::Element;
use crate::resident;
use flipcast_exec::{ExecError, NormMode};
use flipcast_graph::{Dims, NormKind};
use flipcast_tensor::{Batch, ImageSet};
use std::sync::Arc;

/// A batch that was checked and lies on the device, so that it can be run many times.
#[derive(Debug)]
pub struct StagedBatch {
    memory: DeviceMemory,
    images: usize,
}

impl StagedBatch {
    /// Number of images.
    pub fn images(&self) -> usize {
        self.images
    }
}

impl CudaNetwork {
    /// Checks a batch and copies it to the device, to stay there.
    pub fn stage(&self, batch: &Batch) -> Result<StagedBatch, CudaError> {
        self.check_extents(batch)?;
        for image in 0..batch.images() {
            check_image(batch, image)?;
        }
        self.device.enter()?;
        Ok(StagedBatch {
            memory: self
                .device
                .upload("a batch", Element::F32, batch.values())?,
            images: batch.images(),
        })
    }

    pub(crate) fn take_staged(&mut self, batch: &StagedBatch) -> Result<(), CudaError> {
        self.device.enter()?;
        self.check_count(batch.images)?;
        self.images = batch.images;
        let from = batch.memory.slice();
        self.device
            .copy(from, self.memory.staged.slice().first(from.len))?;
        self.send_affine()
    }

    pub(crate) fn take_batch(&mut self, batch: &Batch) -> Result<(), CudaError> {
        self.check_extents(batch)?;
        self.device.enter()?;
        match batch.selection() {
            None => self.send_images(batch, check_image)?,
            Some((set, positions)) => {
                check_positions(set, positions)?;
                match resident::copy_of(&self.device, set)? {
                    Some(copy) => self.gather(&copy, positions, set.image_len())?,
                    None => self.send_images(batch, |_, _| Ok(()))?,
                }
            }
        }
        self.images = batch.images();
        self.send_affine()
    }

    /// Queues the copy of a batch to the device. Every image is checked while it is near.
    fn send_images(
        &mut self,
        batch: &Batch,
        check: impl Fn(&Batch, usize) -> Result<(), ExecError>,
    ) -> Result<(), CudaError> {
        let len = batch.height() * batch.width() * batch.channels();
        let room = self.memory.host_batch.values_mut();
        for (image, to) in room.chunks_exact_mut(len).take(batch.images()).enumerate() {
            check(batch, image)?;
            to.copy_from_slice(batch.image(image));
        }
        let to = self.memory.staged.slice().first(batch.images() * len);
        self.memory.host_batch.send(to)
    }

    /// Puts a batch together on the device, from images of `len` values that lie there.
    fn gather(
        &mut self,
        set: &DeviceMemory,
        positions: &[u32],
        len: usize,
    ) -> Result<(), CudaError> {
        let batch = self.batch();
        let device = Arc::clone(&self.device);
        let state = self.step_state();
        let room = match state.positions.take() {
            Some(room) => room,
            None => (
                Pinned::new(&device, batch)?,
                device.allocate("positions", Element::I32, batch)?,
            ),
        };
        let (host, places) = state.positions.insert(room);
        for (to, &position) in host.values_mut().iter_mut().zip(positions) {
            // The bits of an integer: page-locked memory is of floats, which here only travel.
            *to = f32::from_bits(position);
        }
        let places = places.slice().first(positions.len());
        host.send(places)?;
        let to = self.memory.staged.slice();
        gather::gather_images(&self.kernels, set.slice(), places, to, len)
    }

    fn check_count(&self, images: usize) -> Result<(), ExecError> {
        if self.mode != NormMode::Running {
            let single = |norm: &&Norm| {
                norm.slot.layer.kind == NormKind::Batch && images * norm.slot.dims.pixels() < 2
            };
            if let Some(norm) = self.norms.iter().find(single) {
                let norm = self.graph.node(norm.slot.node).name.clone();
                return Err(ExecError::TooFewValues { norm });
            }
        }
        Ok(())
    }

    fn check_extents(&self, batch: &Batch) -> Result<(), ExecError> {
        let options = self.plan.options();
        let expected = Dims::new(options.height, options.width, self.graph.input_channels());
        let found = Dims::new(batch.height(), batch.width(), batch.channels());
        if found != expected {
            return Err(ExecError::BatchShape {
                found: found.len(),
                found_extents: found.to_string(),
                expected: expected.to_string(),
            });
        }
        if batch.images() == 0 || batch.images() > options.batch {
            return Err(ExecError::BatchSize {
                found: batch.images(),
                planned: options.batch,
            });
        }
        self.check_count(batch.images())
    }
}

fn check_image(batch: &Batch, image: usize) -> Result<(), ExecError> {
    if flipcast_kernels::all_finite(batch.image(image)) {
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
