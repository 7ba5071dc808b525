use std::time::Duration;

/// Time spent in every step of the plan since profiling was switched on.
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    /// One entry per forward step.
    pub forward: Vec<Duration>,
    /// One entry per backward step.
    pub backward: Vec<Duration>,
}
