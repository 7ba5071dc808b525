//! Image sets in a GPU's memory, shared by all networks of the process.
//!
//! A set that many batches are taken from is copied to a GPU once, and batches of it are put together there. The copy goes
//! when the set does, or when the memory is needed for something else.

use crate::buffers::ImageMemory;
use crate::derive::derive;
use crate::error::CudaError;
use crate::module::Kernels;
use flipcast_tensor::ImageSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The largest part of a GPU's free memory that a set may take is one of so many.
const SHARE: usize = 4;

/// A set that was asked for on a GPU.
struct Resident {
    set: Weak<ImageSet>,
    gpu: i32,
    /// `None` if it did not fit, or had to go.
    memory: Option<Arc<ImageMemory>>,
}

static RESIDENTS: Mutex<Vec<Resident>> = Mutex::new(Vec::new());

fn residents() -> MutexGuard<'static, Vec<Resident>> {
    RESIDENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The copy of `set` on a device, made if this is the first time; `None` if there is too little memory for it.
pub(crate) fn copy_of(kernels: &Kernels, set: &Arc<ImageSet>) -> Result<Option<Arc<ImageMemory>>, CudaError> {
    let mut residents = residents();
    residents.retain(|resident| resident.set.strong_count() > 0);
    // Freeing may have left another GPU's context current.
    kernels.device.enter()?;
    find_or_make(&mut residents, kernels, set)
}

fn find_or_make(
    residents: &mut Vec<Resident>,
    kernels: &Kernels,
    set: &Arc<ImageSet>,
) -> Result<Option<Arc<ImageMemory>>, CudaError> {
    let gpu = kernels.device.number();
    let is_it = |resident: &&Resident| resident.gpu == gpu && std::ptr::eq(resident.set.as_ptr(), Arc::as_ptr(set));
    if let Some(found) = residents.iter().find(is_it) {
        return Ok(found.memory.clone());
    }
    let (free, _) = kernels.device.memory()?;
    let memory = if set.size() > free / SHARE {
        None
    } else {
        match make(residents, kernels, set) {
            Ok(memory) => Some(Arc::new(memory)),
            Err(CudaError::OutOfMemory { .. }) => None,
            Err(error) => return Err(error),
        }
    };
    residents.push(Resident { set: Arc::downgrade(set), gpu, memory: memory.clone() });
    Ok(memory)
}

/// Makes the copy: where the set is a change of another that fits too, on the device, else from what the host has.
fn make(residents: &mut Vec<Resident>, kernels: &Kernels, set: &Arc<ImageSet>) -> Result<ImageMemory, CudaError> {
    if let (Some(derived), Some(scale)) = (set.derived(), set.scale())
        && let Some(base) = find_or_make(residents, kernels, derived.base())?
        && let Some(memory) = derive(kernels, derived, &base, scale)?
    {
        return Ok(memory);
    }
    ImageMemory::upload(&kernels.device, "a set of images", set.pixels())
}

/// Frees the copies of image sets on a GPU, so that there is room for something else. Batches of these sets are sent from the
/// host from then on. Tells whether there were any.
pub fn release_image_sets(device: usize) -> bool {
    let mut residents = residents();
    let there = residents.iter_mut().filter(|resident| usize::try_from(resident.gpu) == Ok(device));
    there.fold(false, |any, resident| any | resident.memory.take().is_some())
}
