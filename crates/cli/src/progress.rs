//! How far a long piece of work is, on stderr: a line that rewrites itself on a terminal, plain lines elsewhere.

use crate::output::tell;
use crate::table::grouped;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two plain lines.
const PAUSE: Duration = Duration::from_secs(5);
/// How long work goes on without a word where nobody asked for plain lines: short runs stay silent in logs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Updates of a terminal's line per second.
const RATE: u8 = 10;
/// Work of less time tells nothing about the pace.
const WARM: Duration = Duration::from_secs(1);

/// When progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// A line that rewrites itself on a terminal; elsewhere a plain line every few seconds, once the work takes long
    #[default]
    Auto,
    /// The same, but elsewhere from the start
    Always,
    /// Not at all
    Never,
    /// Plain lines from the start, also on a terminal
    Plain,
}

/// Progress: flatten into a command's arguments.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ProgressArgs {
    /// How progress is shown on stderr
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_value = "auto", default_missing_value = "always")]
    progress: ProgressMode,
    /// No progress and no notes
    #[arg(long, conflicts_with = "progress")]
    pub quiet: bool,
}

impl ProgressArgs {
    /// How it is shown.
    pub fn mode(&self) -> ProgressMode {
        if self.quiet { ProgressMode::Never } else { self.progress }
    }

    /// Tells a note on stderr, where notes are wanted.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            tell(text);
        }
    }

    /// A line about `what`, which stands in front of the counts.
    pub fn line(&self, what: impl Into<String>) -> ProgressLine {
        ProgressLine::new(what, self.mode())
    }
}

/// Tells how far work is; a terminal's line is cleared when dropped.
pub struct ProgressLine {
    what: String,
    started: Instant,
    shown: Shown,
}

/// Where the line goes.
enum Shown {
    Nowhere,
    Terminal(ProgressBar),
    /// Plain lines; the next one is due then.
    Lines(Mutex<Instant>),
}

impl ProgressLine {
    /// Starts the clock; `what` stands in front of the counts.
    pub fn new(what: impl Into<String>, mode: ProgressMode) -> Self {
        let started = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        let shown = match mode {
            ProgressMode::Never => Shown::Nowhere,
            ProgressMode::Auto | ProgressMode::Always if is_terminal => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(RATE));
                bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
                Shown::Terminal(bar)
            }
            ProgressMode::Auto => Shown::Lines(Mutex::new(started + PATIENCE)),
            ProgressMode::Always | ProgressMode::Plain => Shown::Lines(Mutex::new(started)),
        };
        Self { what: what.into(), started, shown }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells that `done` of `total` images are there, `skipped` of which took no work.
    pub fn update(&self, done: usize, skipped: usize, total: usize) {
        self.show(|| {
            let text = format!("{} of {} images", grouped(done), grouped(total));
            text + &self.left(done, skipped, total)
        });
    }

    /// `, about 3 min 20 s left`, once there is a pace.
    pub fn left(&self, done: usize, skipped: usize, total: usize) -> String {
        left(self.elapsed(), done, skipped, total)
    }

    /// Shows what `text` gives; plain lines, if one is due.
    pub fn show(&self, text: impl FnOnce() -> String) {
        match &self.shown {
            Shown::Nowhere => {}
            Shown::Terminal(bar) => bar.set_message(format!("{}: {}", self.what, text())),
            Shown::Lines(due) => {
                // A thread that finds another one writing has nothing newer to say.
                let Ok(mut due) = due.try_lock() else { return };
                if Instant::now() >= *due {
                    tell(&format!("{}: {}", self.what, text()));
                    *due = Instant::now() + PAUSE;
                }
            }
        }
    }

    /// Writes a line that stays, above the one that rewrites itself.
    pub fn tell(&self, text: &str) {
        self.suspend(|| tell(text));
    }

    /// Does `work`, which writes to the terminal, while the line is out of the way.
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.shown {
            Shown::Terminal(bar) => bar.suspend(work),
            Shown::Nowhere | Shown::Lines(_) => work(),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Shown::Terminal(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// `, about 3 min 20 s left`, once there is a pace; `skipped` of what is `done` took no work.
pub fn left(elapsed: Duration, done: usize, skipped: usize, total: usize) -> String {
    let left = time_left(elapsed, done, skipped, total);
    left.map_or_else(String::new, |left| format!(", about {} left", duration(left)))
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
