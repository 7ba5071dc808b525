//! What became of the files.

use crate::formats::Format;
use crate::{allocation, numbered};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Memory that any file may take, beside `PER_BYTE` times its length.
const FREE_BYTES: usize = 16 << 20;
const PER_BYTE: usize = 64;
/// Longer than any small file may take, on a busy machine.
const LONG: Duration = Duration::from_secs(5);
/// Bytes of an error's text at most.
const LONGEST_TEXT: usize = 8192;

/// Counts of files by what became of them.
#[derive(Clone, Default)]
pub struct Outcomes {
    files: u64,
    good: u64,
    /// By the innermost error.
    errors: BTreeMap<String, u64>,
    panics: u64,
    large: u64,
    slow: u64,
    /// Errors whose text is too long.
    wordy: u64,
    most: usize,
    longest: Duration,
}

impl Outcomes {
    /// Makes and reads file `number` of `seed`; keeps it in `kept` where something is wrong.
    pub fn run(&mut self, format: &dyn Format, (name, seed, number): (&str, u64, u64), kept: &Path) {
        let bytes = format.damaged(&mut numbered(seed, number));
        let copy = bytes.clone();
        let held = allocation::start();
        let start = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| format.read(bytes)));
        let (mut took, taken) = (start.elapsed(), allocation::peak().wrapping_sub(held));
        if took > LONG && read.is_ok() {
            // The machine may have been busy with something else: the second time decides.
            let start = Instant::now();
            let _ = format.read(copy.clone());
            took = start.elapsed();
        }
        let mut wrong = None;
        match read {
            Ok(Ok(())) => self.good += 1,
            Ok(Err(error)) => {
                if error.to_string().len() > LONGEST_TEXT {
                    self.wordy += 1;
                    wrong = Some("wordy");
                }
                *self.errors.entry(innermost(error.as_ref())).or_default() += 1;
            }
            Err(_) => {
                self.panics += 1;
                wrong = Some("panic");
            }
        }
        if taken > FREE_BYTES + PER_BYTE * copy.len() {
            self.large += 1;
            wrong = Some("large");
        }
        if took > LONG {
            self.slow += 1;
            wrong = Some("slow");
        }
        self.files += 1;
        self.most = self.most.max(taken);
        self.longest = self.longest.max(took);
        if let Some(why) = wrong {
            let place = kept.join(format!("{name}-{seed}-{number}.{why}"));
            std::fs::write(&place, &copy)
                .unwrap_or_else(|error| eprintln!("cannot write {}: {error}", place.display()));
        }
    }

    /// Both together.
    pub fn merged(mut self, other: &Self) -> Self {
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Self {
            files: self.files + other.files,
            good: self.good + other.good,
            errors: self.errors,
            panics: self.panics + other.panics,
            large: self.large + other.large,
            slow: self.slow + other.slow,
            wordy: self.wordy + other.wordy,
            most: self.most.max(other.most),
            longest: self.longest.max(other.longest),
        }
    }

    /// Whether no file did what none may.
    pub fn are_right(&self) -> bool {
        self.panics + self.large + self.slow + self.wordy == 0
    }

    /// One line per innermost error, the most frequent first.
    pub fn by_error(&self) -> String {
        let mut errors: Vec<(&String, &u64)> = self.errors.iter().collect();
        errors.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), *kind));
        errors.iter().map(|(kind, count)| format!("  {count:>10} {kind}\n")).collect()
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, good, errors, panics, large, slow, wordy, most, longest } = self;
        write!(
            f,
            "{files} files: {good} good, {} errors, {panics} panics, {large} took more memory than they may, {slow} longer, \
             {wordy} errors too long; at most {:.1} MiB and {:.0} ms",
            errors.values().sum::<u64>(),
            *most as f64 / f64::from(1 << 20),
            longest.as_secs_f64() * 1e3,
        )
    }
}

/// The name of the error at the end of the chain, as its type spells it.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let mut name = Start(String::new());
    // Ends with an error at the first character that is of no name.
    let _ = write!(name, "{last:?}");
    name.0
}

/// The letters and digits that a text starts with.
struct Start(String);

impl Write for Start {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if !letter.is_alphanumeric() {
                return Err(fmt::Error);
            }
            self.0.push(letter);
        }
        Ok(())
    }
}
