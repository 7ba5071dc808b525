//! What the first two cores of this machine can do apart and together, and how near they are to each other.
//!
//! `cores [COUNT]` prints a line COUNT times: multiply-adds in GFLOP/s and copies in GB/s (bytes read and written; within a core's own cache,
//! within a shared one, in memory) on one thread and on two, and how long a cache line takes from one thread to another and back. Steps on two
//! threads depend on the last, which a virtual machine's host may change while it runs.
#![forbid(unsafe_code)]

use flipcast_kernels::{Buffer, Isa, ScratchSize, Target, Team, accumulate, measure_fma_peak};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    for _ in 0..count {
        let one = Rates::measure(1);
        let two = Rates::measure(2);
        println!("1 thread: {one}; 2 threads: {two}; there and back {:.0} ns", round_trip());
    }
}

struct Rates {
    gflops: f64,
    copies: [f64; 3],
}

impl Rates {
    fn measure(threads: usize) -> Self {
        let mut team = Team::new(Isa::detect(), threads, ScratchSize::default());
        Self {
            gflops: measure_fma_peak(&mut team),
            copies: [48 << 10, 1 << 20, 32 << 20].map(|len| copy(&mut team, len)),
        }
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [own, shared, memory] = self.copies;
        write!(f, "{:.0} GFLOP/s, copies {own:.0} / {shared:.0} / {memory:.0} GB/s", self.gflops)
    }
}

/// The best rate of copies of `len` floats.
fn copy(team: &mut Team, len: usize) -> f64 {
    const FLOATS: usize = 64 << 20;
    let from = Buffer::zeroed(len);
    let mut to = Buffer::zeroed(len);
    let mut rate = || {
        let start = Instant::now();
        for _ in 0..FLOATS / len {
            accumulate(team, &from, Target { values: &mut to, accumulate: false });
        }
        (2 * 4 * (FLOATS / len * len)) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..4).map(|_| rate()).fold(0.0, f64::max)
}

/// Nanoseconds that a number takes to another thread and back, at best of a few times.
fn round_trip() -> f64 {
    const TRIPS: u64 = 20_000;
    let best = (0..3).map(|_| {
        let line = AtomicU64::new(0);
        let wait = |value: u64| {
            while line.load(Ordering::Acquire) != value {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for trip in 0..TRIPS {
                    wait(2 * trip + 1);
                    line.store(2 * trip + 2, Ordering::Release);
                }
            });
            let start = Instant::now();
            for trip in 0..TRIPS {
                line.store(2 * trip + 1, Ordering::Release);
                wait(2 * trip + 2);
            }
            start.elapsed().as_nanos() as f64 / TRIPS as f64
        })
    });
    best.fold(f64::INFINITY, f64::min)
}
