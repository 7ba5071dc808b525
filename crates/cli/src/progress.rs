//! A line on stderr that tells how far a long piece of work is.

use crate::table::grouped;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two updates.
const PAUSE: Duration = Duration::from_millis(100);
/// Work of less time tells nothing about the pace.
const WARM: Duration = Duration::from_secs(1);

/// Rewrites one line while work goes on; silent when stderr is not a terminal. Cleared when dropped.
pub struct ProgressLine {
    what: String,
    started: Instant,
    /// When the line was last written and how wide it was; `None` without a terminal.
    shown: Option<Mutex<(Instant, usize)>>,
}

impl ProgressLine {
    /// Starts the clock; `what` stands in front of the counts.
    pub fn new(what: impl Into<String>) -> Self {
        let started = Instant::now();
        Self {
            what: what.into(),
            started,
            shown: std::io::stderr()
                .is_terminal()
                .then(|| Mutex::new((started, 0))),
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells that `done` of `total` are there, `skipped` of which took no work.
    pub fn update(&self, done: usize, skipped: usize, total: usize) {
        let Some(shown) = &self.shown else { return };
        // A thread that finds another one writing has nothing newer to say.
        let Ok(mut shown) = shown.try_lock() else {
            return;
        };
        if shown.0.elapsed() < PAUSE {
            return;
        }
        let mut text = format!(
            "{}: {} of {} images",
            self.what,
            grouped(done),
            grouped(total)
        );
        if let Some(left) = time_left(self.elapsed(), done, skipped, total) {
            text += &format!(", about {} left", duration(left));
        }
        let width = text.chars().count();
        eprint!("\r{text:<pad$}", pad = shown.1);
        let _ = std::io::stderr().flush();
        *shown = (Instant::now(), width);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let Some(shown) = &self.shown else { return };
        let width = shown.lock().unwrap_or_else(|e| e.into_inner()).1;
        if width > 0 {
            eprint!("\r{:width$}\r", "");
        }
    }
}

/// The rest at the pace so far, once there is one.
fn time_left(elapsed: Duration, done: usize, skipped: usize, total: usize) -> Option<Duration> {
    let worked = done.checked_sub(skipped).filter(|&n| n > 0)?;
    if elapsed < WARM {
        return None;
    }
    let share = total.saturating_sub(done) as f64 / worked as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * share).ok()
}

/// `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_does_not_count_as_pace() {
        let minute = Duration::from_secs(60);
        assert_eq!(
            time_left(minute, 60, 40, 100),
            Some(Duration::from_secs(120))
        );
        assert_eq!(time_left(minute, 40, 40, 100), None);
        assert_eq!(time_left(Duration::from_millis(200), 1, 0, 100), None);
        assert_eq!(time_left(minute, 100, 0, 100), Some(Duration::ZERO));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let texts = [0, 12, 200, 7500].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(texts, ["0.0 s", "12 s", "3 min 20 s", "2 h 5 min"]);
    }
}
