//! Time of every step, for finding out where it goes.

use crate::error::CudaError;
use crate::network::CudaNetwork;
use crate::timer::Timer;
use flipcast_executor::StepTimes;
use std::cell::RefCell;
use std::time::Duration;

/// Time spent in every step of the plan since profiling was switched on, backward steps after forward ones.
#[derive(Debug)]
pub(crate) struct Profile {
    timer: Timer,
    milliseconds: RefCell<Vec<f64>>,
}

impl CudaNetwork {
    /// Starts measuring the time of every step. Steps then run one by one and not as a recording.
    pub fn start_profile(&mut self) -> Result<(), CudaError> {
        self.device.enter()?;
        let steps = self.plan.forward().len() + self.plan.backward().len();
        self.profile = Some(Profile { timer: Timer::new(&self.device)?, milliseconds: RefCell::new(vec![0.0; steps]) });
        Ok(())
    }

    /// Stops measuring; what was measured since `start_profile`.
    pub fn take_profile(&mut self) -> Option<StepTimes> {
        let profile = self.profile.take()?;
        let duration = |&ms: &f64| Duration::from_secs_f64(ms.max(0.0) / 1e3);
        let all = profile.milliseconds.into_inner();
        let (forward, backward) = all.split_at(self.plan.forward().len());
        Some(StepTimes {
            forward: forward.iter().map(duration).collect(),
            backward: backward.iter().map(duration).collect(),
        })
    }

    /// Queues a step, and measures it if asked to.
    pub(crate) fn timed(&self, index: usize, queue: impl FnOnce() -> Result<(), CudaError>) -> Result<(), CudaError> {
        let Some(profile) = &self.profile else {
            return queue();
        };
        profile.timer.start()?;
        queue()?;
        let time = profile.timer.stop()?;
        profile.milliseconds.borrow_mut()[index] += f64::from(time);
        Ok(())
    }
}
