//! Several pieces of work at once.

use crate::StudyError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` on every item, `jobs` at once, each begun in the order of the list. The first error ends it: what is in flight is
/// finished, nothing else begun.
pub(crate) fn for_each<T: Sync>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<(), StudyError> + Sync,
) -> Result<(), StudyError> {
    share_out(jobs, items, |mut queue| queue.try_for_each(&work))
}

/// The same, but each of the `jobs` takes items as it needs them, from a queue that all share.
pub(crate) fn share_out<T: Sync>(
    jobs: usize,
    items: &[T],
    work: impl Fn(Queue<'_, T>) -> Result<(), StudyError> + Sync,
) -> Result<(), StudyError> {
    let next = AtomicUsize::new(0);
    let ended: Mutex<Option<StudyError>> = Mutex::new(None);
    let worker = || {
        if let Err(error) = work(Queue { items, next: &next }) {
            next.store(items.len(), Ordering::Relaxed);
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.get_or_insert(error);
        }
    };
    match jobs.min(items.len()) {
        0 | 1 => worker(),
        jobs => std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(worker);
            }
        }),
    }
    match ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Gives items that no other job took.
pub(crate) struct Queue<'a, T> {
    items: &'a [T],
    next: &'a AtomicUsize,
}

impl<'a, T> Iterator for Queue<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.items.get(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_run::RunError;

    #[test]
    fn everything_is_done_once_and_an_error_ends_it() {
        for jobs in [0, 1, 3, 50] {
            let items: Vec<usize> = (0..20).collect();
            let counts: Vec<AtomicUsize> = items.iter().map(|_| AtomicUsize::new(0)).collect();
            let count = |item: &usize| {
                counts[*item].fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            for_each(jobs, &items, count).unwrap();
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            let fail = |item: &usize| match item {
                5 => Err(RunError::NoImages.into()),
                _ => Ok(()),
            };
            assert!(for_each(jobs, &items, fail).is_err());
        }
    }
}
