use crate::ReferenceNorm;
use std::fmt;

/// One comparison that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The case.
    pub case: String,
    /// The norm mode.
    pub mode: ReferenceNorm,
    /// What was compared, the error and the bound.
    pub report: String,
}

/// The largest error seen, whether or not it was within bounds.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Worst {
    /// Relative L2 error.
    pub error: f64,
    /// Where: case, mode, and the parameter if it is about one.
    pub at: String,
}

impl Worst {
    pub(super) fn see(&mut self, error: f64, at: impl FnOnce() -> String) {
        // A NaN is the worst there is, and stays visible.
        if !self.error.is_nan() && exceeds(error, self.error) {
            self.error = error;
            self.at = at();
        }
    }
}

/// Whether `error` is above `bound` or not a number.
pub(super) fn exceeds(error: f64, bound: f64) -> bool {
    error.is_nan() || error > bound
}

/// Everything a suite found out about a subject.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SuiteReport {
    /// Runs compared: cases times modes.
    pub runs: usize,
    /// Everything that exceeded its bound.
    pub failures: Vec<Failure>,
    /// Gradients that exceeded their bound because values fell on the other side of a kink, with where that was.
    pub excused: Vec<Failure>,
    /// Cases the subject does not support, with its reason.
    pub unsupported: Vec<(String, String)>,
    /// Largest error of logits.
    pub worst_logits: Worst,
    /// Largest error of a whole affine gradient.
    pub worst_gradient: Worst,
    /// Largest error of one parameter tensor's gradient.
    pub worst_parameter: Worst,
}

impl SuiteReport {
    /// Panics with the whole report when something exceeded its bound or nothing was run.
    #[track_caller]
    pub fn check(&self) {
        assert!(self.failures.is_empty() && self.runs > 0, "{self}");
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, failures, excused, unsupported, worst_logits, worst_gradient, worst_parameter } = self;
        let (failed, others) = (failures.len(), excused.len());
        writeln!(f, "{runs} runs, {failed} failures, {others} excused")?;
        for (what, Worst { error, at }) in
            [("logits", worst_logits), ("gradient", worst_gradient), ("parameter gradient", worst_parameter)]
        {
            writeln!(f, "worst {what}: relative L2 error {error:.2e} in {at}")?;
        }
        for (case, reason) in unsupported {
            writeln!(f, "not run: {case}: {reason}")?;
        }
        for (what, list) in [("excused", excused), ("failed", failures)] {
            for Failure { case, mode, report } in list {
                writeln!(f, "{what}: {case} ({mode:?}): {report}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_stays_the_worst() {
        let mut worst = Worst::default();
        for error in [0.5, f64::NAN, 0.75] {
            worst.see(error, || "case".to_owned());
        }
        assert!(worst.error.is_nan());
    }

    #[test]
    fn a_suite_that_ran_nothing_does_not_pass() {
        let result = std::panic::catch_unwind(|| SuiteReport::default().check());
        assert!(result.is_err());
    }
}
