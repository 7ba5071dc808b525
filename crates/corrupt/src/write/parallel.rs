//! Work on all threads whose results keep their order.

use super::error::WriteError;

/// `work` on every item, on `threads` threads; the results are in the order of the items, and so is the first failure.
pub fn map_in_order<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> Result<T, WriteError> + Sync,
) -> Result<Vec<T>, WriteError> {
    let share = items.len().div_ceil(threads.max(1)).max(1);
    let work = &work;
    let parts: Vec<Result<Vec<T>, WriteError>> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            items.chunks(share).map(|part| scope.spawn(move || part.iter().map(work).collect())).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut results = Vec::with_capacity(items.len());
    for part in parts {
        results.extend(part?);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..11).collect();
        for threads in [0, 1, 3, 20] {
            let doubled = map_in_order(&items, threads, |&item| Ok(2 * item)).expect("no failure");
            assert!(doubled.iter().zip(&items).all(|(two, one)| *two == 2 * one));
            assert_eq!(doubled.len(), items.len());
        }
        let none = map_in_order(&[], 4, |item: &usize| Ok(*item)).expect("nothing to do");
        assert!(none.is_empty());
    }

    #[test]
    fn a_failure_stops_the_work() {
        let failed = map_in_order(&[1, 2, 3], 2, |&item| match item {
            3 => Err(WriteError::NoImages),
            item => Ok(item),
        });
        assert!(matches!(failed, Err(WriteError::NoImages)));
    }
}
