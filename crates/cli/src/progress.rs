//! A line on stderr that tells how far a long piece of work is.

use crate::table::grouped;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two updates.
const PAUSE: Duration = Duration::from_millis(100);
/// The same where every update is a line of its own.
const LINE_PAUSE: Duration = Duration::from_secs(1);
/// Work of less time tells nothing about the pace.
const WARM: Duration = Duration::from_secs(1);

/// When the line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// When stderr is a terminal.
    OnTerminal,
    /// Always; where stderr is no terminal, as lines of their own.
    Always,
    /// Never.
    Never,
}

/// Rewrites one line while work goes on; silent when stderr is not a terminal. Cleared when dropped.
pub struct ProgressLine {
    what: String,
    started: Instant,
    /// What was last written; `None` where nothing ever is.
    last: Option<Mutex<Last>>,
    rewrites: bool,
}

/// When the line was last written and how wide it was.
struct Last {
    at: Option<Instant>,
    width: usize,
}

impl ProgressLine {
    /// Starts the clock; `what` stands in front of the counts.
    pub fn new(what: impl Into<String>) -> Self {
        Self::with(what, Shown::OnTerminal)
    }

    /// The same, shown as `shown` says.
    pub fn with(what: impl Into<String>, shown: Shown) -> Self {
        let rewrites = std::io::stderr().is_terminal();
        let shows = match shown {
            Shown::OnTerminal => rewrites,
            Shown::Always => true,
            Shown::Never => false,
        };
        Self {
            what: what.into(),
            started: Instant::now(),
            last: shows.then(|| Mutex::new(Last { at: None, width: 0 })),
            rewrites,
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells that `done` of `total` are there, `skipped` of which took no work.
    pub fn update(&self, done: usize, skipped: usize, total: usize) {
        self.show(|| {
            let mut text = format!("{} of {} images", grouped(done), grouped(total));
            if let Some(left) = time_left(self.elapsed(), done, skipped, total) {
                text += &format!(", about {} left", duration(left));
            }
            text
        });
    }

    /// Writes what `text` gives, unless the last update was a moment ago.
    pub fn show(&self, text: impl FnOnce() -> String) {
        let Some(last) = &self.last else { return };
        // A thread that finds another one writing has nothing newer to say.
        let Ok(mut last) = last.try_lock() else {
            return;
        };
        let pause = if self.rewrites { PAUSE } else { LINE_PAUSE };
        if last.at.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        let text = format!("{}: {}", self.what, text());
        if self.rewrites {
            eprint!("\r{text:<pad$}", pad = last.width);
            last.width = text.chars().count();
        } else {
            eprintln!("{text}");
        }
        let _ = std::io::stderr().flush();
        last.at = Some(Instant::now());
    }

    /// Clears the line, so that something else can be written; the next update shows it again.
    pub fn clear(&self) {
        let Some(last) = &self.last else { return };
        let mut last = last.lock().unwrap_or_else(|e| e.into_inner());
        if last.width > 0 {
            eprint!("\r{:width$}\r", "", width = last.width);
            last.width = 0;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The rest at the pace so far, once there is one.
pub fn time_left(elapsed: Duration, done: usize, skipped: usize, total: usize) -> Option<Duration> {
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
        assert_eq!(time_left(minute, 60, 40, 100), Some(Duration::from_secs(120)));
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
