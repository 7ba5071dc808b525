use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// `work` applied to consecutive ranges of at most `step` of `0..count`, on up to `threads` threads (0 means one per core); the
/// results in order.
///
/// A thread takes the next range when it has done one, so long ranges should come first. What a range gives must not depend on
/// other ranges, so neither do results depend on the number of threads.
pub fn map_ranges<T: Send>(
    threads: usize,
    count: usize,
    step: usize,
    work: impl Fn(std::ops::Range<usize>) -> T + Sync,
) -> Vec<T> {
    let ranges = count.div_ceil(step);
    let range = |index: usize| index * step..((index + 1) * step).min(count);
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
    .min(ranges);
    if threads <= 1 {
        return (0..ranges).map(|index| work(range(index))).collect();
    }
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= ranges {
                return done;
            }
            done.push((index, work(range(index))));
        }
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_turns)).collect();
        let own = take_turns();
        let others = others.into_iter().flat_map(|worker| worker.join().expect("the work does not panic"));
        own.into_iter().chain(others).collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ranges_cover_everything_in_order() {
        for (count, threads) in (0..20).flat_map(|count| (0..5).map(move |n| (count, n))) {
            let ranges = map_ranges(threads, count, 3, |range| range);
            let numbers: Vec<usize> = ranges.into_iter().flatten().collect();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_more_threads_work_than_asked_for() {
        for threads in 1..4 {
            let workers = map_ranges(threads, 100, 1, |_| thread::current().id());
            let different: HashSet<_> = workers.into_iter().collect();
            assert!(different.len() <= threads, "{different:?}");
        }
    }
}
