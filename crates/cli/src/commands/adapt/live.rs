//! What is seen and heard while a model adapts: a progress line, the guard's warnings, and Ctrl-C.

use super::text::describe;
use crate::failure::Environment;
use crate::progress::{ProgressLine, Shown, duration, time_left};
use crate::table::grouped;
use anyhow::Result;
use flipcast_adapt::{GuardAction, GuardState};
use flipcast_run::adapt::{Flow, GuardEvent, Progress, StepWatcher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Exit code when a second signal comes before the batch is done.
const ENVIRONMENT: i32 = 3;

/// Shows how a run goes and ends it when the user asks for that.
pub struct Live {
    line: ProgressLine,
    quiet: bool,
    stop: Arc<AtomicBool>,
}

impl Live {
    /// Starts the clock, and listens for Ctrl-C: the first ends the run after the batch in flight, the second at once.
    pub fn new(shown: Shown) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let handler = move || {
            if asked.swap(true, Ordering::SeqCst) {
                std::process::exit(ENVIRONMENT);
            }
        };
        ctrlc::set_handler(handler).map_err(|error| Environment(format!("cannot listen for Ctrl-C: {error}")))?;
        Ok(Self { line: ProgressLine::with("adapting", shown), quiet: shown == Shown::Never, stop })
    }

    /// Ends the line; gives the time since the start.
    pub fn finish(self) -> Duration {
        self.line.elapsed()
    }
}

impl StepWatcher for Live {
    fn batch(&mut self, now: &Progress) -> Flow {
        self.line.show(|| status(now, self.line.elapsed()));
        if self.stop.load(Ordering::SeqCst) { Flow::Stop } else { Flow::Continue }
    }

    fn guard(&mut self, event: &GuardEvent) {
        // Only a collapse is worth interrupting the user; warnings stand in the summary.
        if self.quiet || event.state != GuardState::Collapsed {
            return;
        }
        let then = match event.action {
            Some(GuardAction::Stop) => "the run ends here",
            Some(GuardAction::Reset) => "the source parameters were restored",
            Some(GuardAction::Source) => "the source model predicts from here on",
            _ => "adapting goes on",
        };
        self.line.clear();
        eprintln!(
            "warning: batch {}: the model no longer tells classes apart ({}); {then}",
            event.batch,
            describe(event)
        );
    }
}

/// `1,280 of 10,000 images, 512/s, entropy 0.83, kept 41%, flips 12.3%, healthy, about 17 s left`.
fn status(now: &Progress, elapsed: Duration) -> String {
    let mut text = match now.total {
        Some(total) => format!("{} of {} images", grouped(now.images), grouped(total)),
        None => format!("{} images", grouped(now.images)),
    };
    let rate = now.images as f64 / elapsed.as_secs_f64().max(1e-9);
    text += &format!(", {rate:.0}/s, entropy {:.2}, kept {:.0}%", now.mean_entropy, 100.0 * now.used_share);
    if let Some(flips) = now.flip_rate {
        text += &format!(", flips {:.1}%", 100.0 * flips);
    }
    text += match now.guard {
        GuardState::Healthy => ", healthy",
        GuardState::Warning => ", warning",
        GuardState::Collapsed => ", collapsed",
    };
    let left = now.total.and_then(|total| time_left(elapsed, now.images, 0, total));
    if let Some(left) = left {
        text += &format!(", about {} left", duration(left));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_what_matters() {
        let now = Progress {
            images: 1280,
            total: Some(10_240),
            batches: 20,
            mean_entropy: 0.834,
            used_share: 0.41,
            flip_rate: Some(0.1234),
            guard: GuardState::Warning,
        };
        assert_eq!(
            status(&now, Duration::from_secs(2)),
            "1,280 of 10,240 images, 640/s, entropy 0.83, kept 41%, flips 12.3%, warning, about 14 s left"
        );
        let now = Progress { total: None, flip_rate: None, guard: GuardState::Healthy, ..now };
        assert_eq!(status(&now, Duration::from_secs(2)), "1,280 images, 640/s, entropy 0.83, kept 41%, healthy");
    }
}
