//! Ctrl-C and its relatives: what is known is kept, and the exit code says which signal it was.

use crate::failure::Environment;
use crate::output::tell;
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Exit code of a program that a signal ended, as shells have it: 130 for Ctrl-C, 143 for `kill`.
pub fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Ends the program at the next signal, with a word on what is kept. Only for work that may end at any moment: a record is
/// written in one piece, and a torn one is dropped when the file is opened again.
pub fn end_on_signal(kept: String) -> Result<()> {
    on_signal(move |signal| {
        tell(&format!("\nerror: interrupted\n  hint: {kept}"));
        std::process::exit(i32::from(exit_code(signal)));
    })
}

/// Work that ended in order because a signal asked for it.
#[derive(Debug, thiserror::Error)]
#[error("{progress}")]
pub struct Interrupted {
    /// The signal.
    pub signal: i32,
    /// How far it got, and what is kept.
    pub progress: String,
}

/// Asks for an orderly end.
#[derive(Clone, Default)]
pub struct StopRequest(Arc<AtomicI32>);

impl StopRequest {
    /// Listens: the first signal asks for an end, the second ends the program at once.
    pub fn listen() -> Result<Self> {
        let request = Self::default();
        let shared = request.clone();
        on_signal(move |signal| {
            if shared.0.swap(signal, Ordering::SeqCst) != 0 {
                std::process::exit(i32::from(exit_code(signal)));
            }
        })?;
        Ok(request)
    }

    /// The signal that asked for an end, if one did.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
    }
}

fn on_signal(act: impl Fn(i32) + Send + 'static) -> Result<()> {
    let cannot = |error| Environment(format!("cannot listen for Ctrl-C: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(cannot)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(act))
        .map_err(cannot)?;
    Ok(())
}
