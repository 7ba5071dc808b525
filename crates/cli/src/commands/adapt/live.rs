//! What is seen and heard while a model adapts: a progress line, the guard's warnings, and Ctrl-C.

use super::text::describe;
use crate::interrupt::StopRequest;
use crate::progress::{ProgressArgs, ProgressLine, ProgressMode, left};
use crate::table::grouped;
use flipcast_adapt::{GuardAction, GuardState};
use flipcast_exec::Logits;
use flipcast_record::results::Checkpoint;
use flipcast_run::adapt::{Flow, GuardEvent, Progress, StepWatcher};
use std::time::Duration;

/// Shows how a run goes and ends it when the user asks for that.
pub struct Live {
    line: ProgressLine,
    quiet: bool,
    stop: StopRequest,
    /// All logits, where they are wanted.
    logits: Option<Vec<f32>>,
    /// The last look at the clusters.
    looked: Option<Checkpoint>,
}

impl Live {
    /// Starts the clock; `stop` ends the run after the batch in flight.
    pub fn new(progress: ProgressArgs, stop: StopRequest, keeps_logits: bool) -> Self {
        let quiet = progress.mode() == ProgressMode::Never;
        Self { line: progress.line("adapting"), quiet, stop, logits: keeps_logits.then(Vec::new), looked: None }
    }

    /// Ends the line; gives the time since the start, and the logits where they were wanted.
    pub fn finish(self) -> (Duration, Option<Vec<f32>>) {
        (self.line.elapsed(), self.logits)
    }
}

impl StepWatcher for Live {
    fn logits(&mut self, logits: Logits<'_>) {
        if let Some(kept) = &mut self.logits {
            kept.extend_from_slice(logits.values());
        }
    }

    fn batch(&mut self, now: &Progress) -> Flow {
        self.line.show(|| status(now, self.line.elapsed()));
        if self.stop.signal().is_some() { Flow::Stop } else { Flow::Continue }
    }

    fn looked(&mut self, look: &Checkpoint) {
        self.line.tell(&look_text(look, self.looked.as_ref()));
        self.looked = Some(look.clone());
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
        let (batch, reasons) = (event.batch, describe(event));
        self.line.tell(&format!("warning: batch {batch}: the model no longer tells classes apart ({reasons}); {then}"));
    }
}

/// `batch 50: entropy 0.83, silhouette 0.213 (+0.012), 1.30 from the clusters before adapting (+0.20), 12.3% of answers changed since`. What it is compared with are
/// the source parameters with the statistics that the method uses, which are not the source model where these are those of the batch.
fn look_text(look: &Checkpoint, before: Option<&Checkpoint>) -> String {
    let measure = |value: Option<f64>, old: Option<f64>| match (value, old) {
        (Some(value), Some(old)) => format!("{value:.3} ({:+.3})", value - old),
        (Some(value), None) => format!("{value:.3}"),
        (None, _) => "unknown".to_owned(),
    };
    let silhouette = measure(look.silhouette, before.and_then(|before| before.silhouette));
    if look.step == 0 {
        return format!("before adapting: entropy {:.3}, silhouette {silhouette}", look.entropy);
    }
    let moved = measure(look.shift_distance, before.and_then(|before| before.shift_distance));
    format!(
        "batch {}: entropy {:.3}, silhouette {silhouette}, {moved} from the clusters before adapting, {:.1}% of answers changed since",
        look.step,
        look.entropy,
        100.0 * look.flips
    )
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
    text + &now.total.map_or_else(String::new, |total| left(elapsed, now.images, 0, total))
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
