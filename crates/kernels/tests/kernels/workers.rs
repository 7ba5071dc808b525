use flipcast_kernels::internals::Workers;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

#[test]
fn short_regions_of_more_threads_than_cores_run_every_chunk_once() {
    // Workers come late, or not at all, to most of these regions; what a region wrote is seen when it is over.
    let mut workers = Workers::new(9);
    let mut sums = vec![0; 3];
    for region in 0..20_000 {
        let counts: Vec<AtomicUsize> = sums.iter().map(|sum| AtomicUsize::new(*sum)).collect();
        workers.each(counts.len(), |chunk, _| {
            counts[chunk].store(counts[chunk].load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        });
        sums = counts.into_iter().map(AtomicUsize::into_inner).collect();
        assert!(sums.iter().all(|sum| *sum == region + 1), "{sums:?}");
    }
}

#[test]
fn a_worker_that_offered_its_core_comes_back_to_the_same_region() {
    let mut workers = Workers::new(2);
    let taken = [const { AtomicUsize::new(0) }; 2];
    // Chunks of a millisecond: a turn of the second thread ends many times.
    workers.each(60, |_, worker| {
        std::thread::sleep(Duration::from_millis(1));
        taken[worker].fetch_add(1, Ordering::Relaxed);
    });
    let [caller, worker] = taken.map(AtomicUsize::into_inner);
    assert_eq!(caller + worker, 60);
    assert!(worker > 3, "{worker}");
}
