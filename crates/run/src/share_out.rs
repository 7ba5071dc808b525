//! Several pieces of work at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lets every worker take items from one queue, each on a thread of its own, in the order of the list. A worker is whatever `work` needs to tell them apart, such as
/// the [`Device`](crate::Device) that its networks run on. The first error ends it: what is in flight is finished, nothing else begun.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let sum = AtomicUsize::new(0);
/// flipcast_run::share_out(&["one", "two"], &[1, 2, 3], |_worker, queue| {
///     queue.for_each(|item| { sum.fetch_add(*item, Ordering::Relaxed); });
///     Ok::<(), String>(())
/// })?;
/// assert_eq!(sum.into_inner(), 6);
/// # Ok::<(), String>(())
/// ```
pub fn share_out<W: Copy + Sync, T: Sync, E: Send>(
    workers: &[W],
    items: &[T],
    work: impl Fn(W, Queue<'_, T>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let ended: Mutex<Option<E>> = Mutex::new(None);
    let run = |worker: W| {
        if let Err(error) = work(worker, Queue { items, next: &next }) {
            next.store(items.len(), Ordering::Relaxed);
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.get_or_insert(error);
        }
    };
    match &workers[..workers.len().min(items.len())] {
        [] => (),
        [worker] => run(*worker),
        several => std::thread::scope(|scope| {
            for worker in several {
                scope.spawn(|| run(*worker));
            }
        }),
    }
    match ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Gives items that no other worker took.
pub struct Queue<'a, T> {
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

    #[test]
    fn everything_is_done_once_and_an_error_ends_it() {
        for workers in [1, 3, 50] {
            let workers: Vec<usize> = (0..workers).collect();
            let items: Vec<usize> = (0..20).collect();
            let counts: Vec<AtomicUsize> = items.iter().map(|_| AtomicUsize::new(0)).collect();
            let count = |_, mut queue: Queue<usize>| {
                queue.try_for_each(|&item| {
                    counts[item].fetch_add(1, Ordering::Relaxed);
                    Ok::<(), String>(())
                })
            };
            share_out(&workers, &items, count).unwrap();
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            let fail =
                |_, mut queue: Queue<usize>| queue.try_for_each(|&item| if item == 5 { Err(item) } else { Ok(()) });
            assert_eq!(share_out(&workers, &items, fail), Err(5));
        }
    }
}
