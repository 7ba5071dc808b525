//! Images that another library keeps in a GPU's memory, read where they lie.

use crate::device::{Device, DeviceSlice};
use crate::error::CudaError;
use crate::launch::preprocess::{BatchSource, find_non_finite};
use crate::network::CudaNetwork;
use crate::precision::Element;
use flipcast_executor::{ExecError, checks};
use flipcast_tensor::{ByteScale, DeviceImages};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Where images of another library lie on a GPU.
#[derive(Clone, Debug)]
pub struct ForeignLayout {
    /// Which GPU.
    pub device: usize,
    /// Where the first value of the first image lies.
    pub address: u64,
    /// Number of images, height, width and channels.
    pub extents: [usize; 4],
    /// Elements from one image, row, column and channel to the next.
    pub strides: [usize; 4],
    /// What bytes stand for; `None` where the elements are 32-bit floats.
    pub scale: Option<Arc<ByteScale>>,
}

/// Images of another library on a GPU. A network there reads them where they lie; work that the library has on the default stream is waited for.
pub struct ForeignImages {
    layout: ForeignLayout,
    slice: DeviceSlice,
    /// Keeps the memory.
    _owner: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for ForeignImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout.fmt(f)
    }
}

impl ForeignImages {
    /// Images that `owner` keeps.
    ///
    /// # Errors
    /// If floats are not aligned, or a scale is one of other channels.
    ///
    /// # Safety
    /// Every element that the layout reaches lies in memory of that GPU which is initialised, and neither freed nor written before `owner` is dropped, but
    /// for work that is on the default stream by now.
    pub unsafe fn new(layout: ForeignLayout, owner: Box<dyn Any + Send + Sync>) -> Result<Self, CudaError> {
        const WHAT: &str = "foreign images";
        let element = match &layout.scale {
            Some(_) => Element::U8,
            None => Element::F32,
        };
        let refused = |what, found, expected: String| CudaError::Argument { kernel: WHAT, what, found, expected };
        if !layout.address.is_multiple_of(element.bytes() as u64) {
            let expected = format!("a multiple of {}", element.bytes());
            return Err(refused("the address", layout.address as usize, expected));
        }
        if let Some(scale) = &layout.scale
            && scale.channels() != layout.extents[3]
        {
            return Err(refused("channels of the scale", scale.channels(), layout.extents[3].to_string()));
        }
        let last = layout.extents.iter().zip(layout.strides).map(|(&extent, stride)| extent.saturating_sub(1) * stride);
        let len = last.sum::<usize>() + 1;
        let slice = DeviceSlice { address: layout.address, len, element };
        Ok(Self { layout, slice, _owner: owner })
    }

    /// Their values, channels last.
    fn read(&self) -> Result<Vec<f32>, CudaError> {
        let device = Device::open(self.layout.device)?;
        wait_for_default(&device)?;
        let mut memory = vec![0; self.slice.bytes()];
        device.copy_out(self.slice, &mut memory)?;
        let [images, height, width, channels] = self.layout.extents;
        let [image, row, column, channel] = self.layout.strides;
        let mut values = Vec::with_capacity(images * height * width * channels);
        for n in 0..images {
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                for c in 0..channels {
                    let at = n * image + y * row + x * column + c * channel;
                    values.push(match &self.layout.scale {
                        Some(scale) => scale.value(c, memory[at]),
                        None => f32::from_le_bytes(memory.as_chunks().0[at]),
                    });
                }
            }
        }
        Ok(values)
    }
}

impl DeviceImages for ForeignImages {
    fn extents(&self) -> [usize; 4] {
        self.layout.extents
    }

    fn append(&self, values: &mut Vec<f32>) -> Result<(), Box<dyn Error + Send + Sync>> {
        values.extend(self.read()?);
        Ok(())
    }
}

impl CudaNetwork {
    /// Has the next pass read `images` where they lie, if they are images on this network's GPU; otherwise gives false.
    pub(crate) fn take_foreign(&mut self, images: &dyn DeviceImages) -> Result<bool, CudaError> {
        let any: &dyn Any = images;
        let Some(images) = any.downcast_ref::<ForeignImages>() else { return Ok(false) };
        let ForeignLayout { device, extents, strides, ref scale, .. } = images.layout;
        if i32::try_from(device) != Ok(self.device.number()) {
            return Ok(false);
        }
        wait_for_default(&self.device)?;
        let scale = scale.as_ref().map(|scale| self.foreign_scale(scale)).transpose()?;
        let is_bytes = scale.is_some();
        self.point_to(&BatchSource { pixels: images.slice, scale, positions: None, strides })?;
        if !is_bytes {
            self.check_foreign(extents)?;
        }
        Ok(true)
    }

    /// Where `scale` lies on the device.
    fn foreign_scale(&mut self, scale: &Arc<ByteScale>) -> Result<DeviceSlice, CudaError> {
        if !checks::all_finite(scale.values()) {
            return Err(ExecError::NonFiniteInput { image: 0 }.into());
        }
        let kept = self.memory.foreign_scale.take().filter(|(of, _)| of == scale);
        let kept = match kept {
            Some(kept) => kept,
            None => (Arc::clone(scale), self.device.upload("the batch", Element::F32, scale.values())?),
        };
        Ok(self.memory.foreign_scale.insert(kept).1.slice())
    }

    /// Refuses images that hold a NaN or an infinity.
    fn check_foreign(&self, [images, height, width, channels]: [usize; 4]) -> Result<(), CudaError> {
        let staged = self.memory.staged.slice();
        let bad = staged.part(staged.len - self.batch()..staged.len).first(images);
        self.device.fill_zero(bad)?;
        find_non_finite(&self.kernels, images, [height, width, channels], staged, bad)?;
        let mut words = vec![0; bad.bytes()];
        self.device.copy_out(bad, &mut words)?;
        match words.as_chunks::<4>().0.iter().position(|word| *word != [0; 4]) {
            Some(image) => Err(ExecError::NonFiniteInput { image }.into()),
            None => Ok(()),
        }
    }
}

/// Waits until everything on the default stream is done.
fn wait_for_default(device: &Device) -> Result<(), CudaError> {
    device.enter()?;
    // SAFETY: no handle means the default stream of the current context.
    device.check("cuStreamSynchronize", unsafe { (device.driver.stream_synchronize)(std::ptr::null_mut()) })
}
