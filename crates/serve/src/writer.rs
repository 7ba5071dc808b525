//! The thread that writes: whatever waits is written in one transaction, and told to those who wait for it.

use crate::store::{Store, Write};
use crate::streams::Streams;
use crate::{Log, ServeError};
use flipcast_ground::with_causes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

/// Changes that one transaction takes at most, so that nobody waits for all that came after.
const MOST_WRITES: usize = 4096;

/// Hands changes to the thread that writes.
#[derive(Clone)]
pub struct Writer(Sender<Commit>);

/// Changes, and whom to tell.
pub struct Commit {
    writes: Vec<Write>,
    done: Box<dyn FnOnce(bool) + Send>,
}

impl Writer {
    /// A writer and where its changes arrive.
    pub fn new() -> (Self, Receiver<Commit>) {
        let (sender, receiver) = channel();
        (Self(sender), receiver)
    }

    /// Hands over changes; `done` hears whether they are on disk.
    pub fn send(&self, writes: Vec<Write>, done: impl FnOnce(bool) + Send + 'static) {
        let commit = Commit { writes, done: Box::new(done) };
        if let Err(refused) = self.0.send(commit) {
            (refused.0.done)(false);
        }
    }
}

/// Starts the thread. It ends when nobody can hand over changes any more.
pub fn start_writer(
    receiver: Receiver<Commit>,
    store: Arc<Store>,
    streams: Weak<Mutex<Streams>>,
    log: Log,
    alive: Arc<()>,
) -> Result<JoinHandle<()>, ServeError> {
    let work = move || {
        let _alive = alive;
        while let Ok(first) = receiver.recv() {
            let mut commits = vec![first];
            let mut count = commits[0].writes.len();
            while count < MOST_WRITES
                && let Ok(next) = receiver.try_recv()
            {
                count += next.writes.len();
                commits.push(next);
            }
            let writes: Vec<Write> = commits.iter_mut().flat_map(|commit| std::mem::take(&mut commit.writes)).collect();
            match store.write(&writes) {
                Ok(()) => commits.into_iter().for_each(|commit| (commit.done)(true)),
                Err(error) => {
                    log.error("state_not_written", &[("error", with_causes(&error).into())]);
                    // What is in memory is ahead of the disk. Changes are handed over under the lock, so that none comes between.
                    let streams = streams.upgrade();
                    let mut held = streams.as_ref().map(|s| s.lock().unwrap_or_else(PoisonError::into_inner));
                    commits.extend(receiver.try_iter());
                    if let Some(streams) = &mut held {
                        streams.forget();
                    }
                    drop(held);
                    commits.into_iter().for_each(|commit| (commit.done)(false));
                }
            }
        }
    };
    std::thread::Builder::new().name("writer".to_owned()).spawn(work).map_err(ServeError::Thread)
}
