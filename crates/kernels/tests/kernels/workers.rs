use flipcast_kernels::internals::Workers;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_chunk_runs_once() {
    for threads in [1, 2, 5] {
        let mut workers = Workers::new(threads);
        for chunks in [0, 1, 2, 77] {
            let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
            workers.each(chunks, |chunk, _| {
                counts[chunk].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn a_panic_in_a_chunk_reaches_the_caller_and_the_team_survives() {
    let mut workers = Workers::new(3);
    let result = catch_unwind(AssertUnwindSafe(|| {
        workers.each(8, |chunk, _| assert!(chunk != 5, "chunk five"));
    }));
    assert!(result.is_err());
    let done = AtomicUsize::new(0);
    workers.each(8, |_, _| {
        done.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(done.into_inner(), 8);
}
