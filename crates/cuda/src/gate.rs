//! Keeps recordings apart from what loads and unloads kernels.
//!
//! Libraries load kernels when a network is made and when a pass runs for the first time, and give them back when a network
//! goes. On the way they wait for the whole device, in whatever thread, which breaks off a recording in another thread, and
//! fails itself while something is recorded. Many may load at once; who records is alone. Passes that are only replayed need
//! nothing of this.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// How many passages through the gate this thread is in: a lock must not be taken twice by one thread.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// A passage through the gate, which ends when it is dropped.
pub(crate) struct Passage {
    _lock: Lock,
}

/// What is held meanwhile.
enum Lock {
    Load {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Record {
        _guard: RwLockWriteGuard<'static, ()>,
    },
    /// A passage around this one holds what there is to hold.
    Within,
}

impl Passage {
    fn enter(lock: impl FnOnce() -> Lock) -> Self {
        let lock = match INSIDE.get() {
            0 => lock(),
            _ => Lock::Within,
        };
        INSIDE.set(INSIDE.get() + 1);
        Self { _lock: lock }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
    }
}

/// Held while kernels may be loaded or unloaded.
pub(crate) fn load() -> Passage {
    Passage::enter(|| Lock::Load { _guard: GATE.read().unwrap_or_else(PoisonError::into_inner) })
}

/// Held while work is recorded.
pub(crate) fn record() -> Passage {
    Passage::enter(|| Lock::Record { _guard: GATE.write().unwrap_or_else(PoisonError::into_inner) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn recordings_are_alone_and_passages_nest() {
        const THREADS: usize = 8;
        let (loading, recording) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (loading, recording) = (&loading, &recording);
                scope.spawn(move || {
                    for round in 0..200 {
                        if (thread + round) % 3 == 0 {
                            let _alone = record();
                            let _within = load();
                            assert_eq!(recording.fetch_add(1, Ordering::SeqCst), 0);
                            assert_eq!(loading.load(Ordering::SeqCst), 0);
                            recording.fetch_sub(1, Ordering::SeqCst);
                        } else {
                            let _around = load();
                            let _within = load();
                            loading.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(recording.load(Ordering::SeqCst), 0);
                            loading.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
}
