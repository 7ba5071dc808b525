//! Work that is recorded once and replayed.

use crate::device::Device;
use crate::error::CudaError;
use crate::sys::driver::{CAPTURE_RELAXED, Handle};
use std::sync::Arc;

/// A recorded sequence of kernels and copies.
#[derive(Debug)]
pub(crate) struct Recording {
    device: Arc<Device>,
    exec: Handle,
}

// SAFETY: a recording is launched by one network at a time, whose calls need `&mut`.
unsafe impl Send for Recording {}
// SAFETY: as above.
unsafe impl Sync for Recording {}

impl Recording {
    /// Records what `queue` puts on the stream; nothing of it runs.
    pub fn new(device: &Arc<Device>, queue: impl FnOnce() -> Result<(), CudaError>) -> Result<Self, CudaError> {
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream lives as long as the device.
        device.check("cuStreamBeginCapture", unsafe {
            (device.driver.capture_begin)(device.stream(), CAPTURE_RELAXED)
        })?;
        let queued = queue();
        // SAFETY: a capture was begun; both pointers are valid places, and the graph is destroyed once.
        unsafe {
            let ended = (device.driver.capture_end)(device.stream(), &mut graph);
            queued?;
            device.check("cuStreamEndCapture", ended)?;
            let made = (device.driver.graph_instantiate)(&mut exec, graph, 0);
            (device.driver.graph_destroy)(graph);
            device.check("cuGraphInstantiate", made)?;
        }
        Ok(Self { device: Arc::clone(device), exec })
    }

    /// Queues the whole recording.
    pub fn replay(&self) -> Result<(), CudaError> {
        // SAFETY: recording and stream live as long as `self`.
        self.device
            .check("cuGraphLaunch", unsafe { (self.device.driver.graph_launch)(self.exec, self.device.stream()) })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made by `new` and not used after this.
            unsafe { (self.device.driver.graph_exec_destroy)(self.exec) };
        }
    }
}
