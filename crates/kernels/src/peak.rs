//! What this machine can do at most: the ceilings that kernels are measured against.

use crate::lanes::{Lanes, Task};
use crate::{Buffer, Target, Team};
use std::time::Instant;

/// Measured fused multiply-adds per second of all threads together, two operations each, in GFLOP/s.
pub fn measure_fma_peak(team: &mut Team) -> f64 {
    const ROUNDS: usize = 2_000_000;
    let (isa, count) = (team.isa(), team.threads());
    let flops = count as f64 * (ROUNDS * CHAINS * isa.lanes() * 2) as f64;
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            team.each(count, |_, _| {
                std::hint::black_box(isa.run(Fma(ROUNDS)));
            });
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    flops / best / 1e9
}

/// Independent chains: more than latency times throughput of the units.
const CHAINS: usize = 12;

struct Fma(usize);

impl Task for Fma {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f32 {
        // SAFETY: arithmetic only.
        unsafe {
            let (a, b) = (L::splat(std::hint::black_box(0.999_9)), L::splat(std::hint::black_box(1e-4)));
            let mut acc = [L::splat(1.0); CHAINS];
            for _ in 0..self.0 {
                for v in &mut acc {
                    *v = L::fma(*v, a, b);
                }
            }
            acc.into_iter().map(|v| L::sum(v)).sum()
        }
    }
}

/// Measured bytes read and written per second while copying between buffers beyond every cache, in GB/s.
pub fn measure_copy_bandwidth(team: &mut Team) -> f64 {
    const FLOATS: usize = 32 << 20;
    let from = Buffer::zeroed(FLOATS);
    let mut to = Buffer::zeroed(FLOATS);
    let best = (0..4)
        .map(|_| {
            let start = Instant::now();
            crate::accumulate(team, &from, Target { values: &mut to, accumulate: false });
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    (2 * 4 * FLOATS) as f64 / best / 1e9
}
