//! Time on the device's stream.

use crate::device::Device;
use crate::error::CudaError;
use crate::sys::driver::Handle;
use std::sync::Arc;

/// A pair of events.
#[derive(Debug)]
pub(crate) struct Timer {
    device: Arc<Device>,
    events: [Handle; 2],
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Timer {}
// SAFETY: as above.
unsafe impl Sync for Timer {}

impl Timer {
    pub fn new(device: &Arc<Device>) -> Result<Self, CudaError> {
        let mut events = [std::ptr::null_mut(); 2];
        for event in &mut events {
            // SAFETY: `event` is a valid place.
            device.check("cuEventCreate", unsafe { (device.driver.event_create)(event, 0) })?;
        }
        Ok(Self { device: Arc::clone(device), events })
    }

    fn record(&self, which: usize) -> Result<(), CudaError> {
        let device = &self.device;
        // SAFETY: event and stream live as long as `self`.
        device.check("cuEventRecord", unsafe { (device.driver.event_record)(self.events[which], device.stream()) })
    }

    /// Marks the start.
    pub fn start(&self) -> Result<(), CudaError> {
        self.record(0)
    }

    /// Marks the end, waits for it, and tells the milliseconds in between.
    pub fn stop(&self) -> Result<f32, CudaError> {
        self.record(1)?;
        let device = &self.device;
        let mut milliseconds = 0.0;
        // SAFETY: both events were recorded, and `milliseconds` is a valid place.
        unsafe {
            device.check("cuEventSynchronize", (device.driver.event_synchronize)(self.events[1]))?;
            device.check(
                "cuEventElapsedTime",
                (device.driver.event_elapsed)(&mut milliseconds, self.events[0], self.events[1]),
            )?;
        }
        Ok(milliseconds)
    }

    /// Milliseconds of the fastest of `runs` runs, after one to warm up.
    pub fn fastest(&self, runs: usize, mut run: impl FnMut() -> Result<(), CudaError>) -> Result<f32, CudaError> {
        run()?;
        let mut best = f32::INFINITY;
        for _ in 0..runs {
            self.start()?;
            run()?;
            best = best.min(self.stop()?);
        }
        Ok(best)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            for event in self.events {
                // SAFETY: made by `new` and not used after this.
                unsafe { (self.device.driver.event_destroy)(event) };
            }
        }
    }
}
