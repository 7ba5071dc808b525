use crate::parallel::map_ranges;
use multiversion::multiversion;

/// Points whose forces one thread sums at a time.
const STEP: usize = 64;
/// Sums that run side by side, so that they fit vector registers.
const LANES: usize = 16;

/// A layout and the affinities of its points.
pub(super) struct Pairs<'a> {
    /// Of all pairs, row-major.
    pub joint: &'a [f32],
    pub layout: &'a [[f64; 2]],
    /// Threads that may work on it; 0 means one per core.
    pub threads: usize,
}

/// What all other points do to one: towards its neighbours, and away from everybody.
#[derive(Clone, Copy, Default)]
struct Force {
    pull: [f64; 2],
    push: [f64; 2],
    /// Sum of the unnormalised closeness to the others.
    closeness: f64,
}

/// The gradient of the divergence, with all affinities multiplied by `exaggeration`.
pub(super) fn gradient(pairs: &Pairs, exaggeration: f64) -> Vec<[f64; 2]> {
    let forces = forces(pairs);
    let total: f64 = forces.iter().map(|force| force.closeness).sum();
    let along = |force: &Force, axis: usize| 4.0 * (exaggeration * force.pull[axis] - force.push[axis] / total);
    let gradient = forces.iter().map(|force| [along(force, 0), along(force, 1)]);
    gradient.collect()
}

/// How much the layout's closeness tells less than the affinities: `sum p ln(p / q)`, in double precision.
pub(super) fn divergence(pairs: &Pairs) -> f64 {
    let &Pairs { joint, layout, threads } = pairs;
    let count = layout.len();
    let parts = map_ranges(threads, count, STEP, |range| {
        let (mut sum, mut share, mut total) = (0.0, 0.0, 0.0);
        for i in range {
            for j in (0..count).filter(|&j| j != i) {
                let [dx, dy] = [layout[i][0] - layout[j][0], layout[i][1] - layout[j][1]];
                let far = 1.0 + dx * dx + dy * dy;
                let p = f64::from(joint[i * count + j]);
                sum += p * (p * far).max(f64::MIN_POSITIVE).ln();
                share += p;
                total += 1.0 / far;
            }
        }
        [sum, share, total]
    });
    let sum = |k: usize| parts.iter().map(|part: &[f64; 3]| part[k]).sum::<f64>();
    // ln(p / q) is ln(p far) + ln(total).
    sum(0) + sum(1) * sum(2).ln()
}

fn forces(pairs: &Pairs) -> Vec<Force> {
    let &Pairs { joint, layout, threads } = pairs;
    let count = layout.len();
    let xs: Vec<f32> = layout.iter().map(|at| at[0] as f32).collect();
    let ys: Vec<f32> = layout.iter().map(|at| at[1] as f32).collect();
    let parts = map_ranges(threads, count, STEP, |range| {
        let of = |own: usize| {
            let joint = &joint[own * count..][..count];
            let mut force = force_on([xs[own], ys[own]], joint, &xs, &ys);
            // A point is infinitely close to itself, which the loop over all points counts as one.
            force.closeness -= 1.0;
            force
        };
        range.map(of).collect::<Vec<Force>>()
    });
    parts.into_iter().flatten().collect()
}

/// The force at `at`, summed over all points.
#[multiversion(targets("x86_64+avx2", "x86_64+avx512f+avx2"))]
fn force_on(at: [f32; 2], joint: &[f32], xs: &[f32], ys: &[f32]) -> Force {
    let mut sums = [[0.0f32; LANES]; 5];
    let (joint, joint_tail) = joint.as_chunks::<LANES>();
    let (xs, xs_tail) = xs.as_chunks::<LANES>();
    let (ys, ys_tail) = ys.as_chunks::<LANES>();
    for ((joint, xs), ys) in joint.iter().zip(xs).zip(ys) {
        add_pairs(at, joint, xs, ys, &mut sums);
    }
    // Points of the tail lie in the first lanes; the others are so far away that they exert no force.
    let mut tail = ([0.0; LANES], [f32::MAX; LANES], [f32::MAX; LANES]);
    tail.0[..joint_tail.len()].copy_from_slice(joint_tail);
    tail.1[..xs_tail.len()].copy_from_slice(xs_tail);
    tail.2[..ys_tail.len()].copy_from_slice(ys_tail);
    let mut rest = [[0.0f32; LANES]; 5];
    add_pairs(at, &tail.0, &tail.1, &tail.2, &mut rest);
    let length = xs_tail.len();
    let sum = |k: usize| {
        let whole: f64 = sums[k].iter().map(|&x| f64::from(x)).sum();
        let rest: f64 = rest[k][..length].iter().map(|&x| f64::from(x)).sum();
        whole + rest
    };
    Force { pull: [sum(0), sum(1)], push: [sum(2), sum(3)], closeness: sum(4) }
}

#[inline(always)]
fn add_pairs(at: [f32; 2], joint: &[f32; LANES], xs: &[f32; LANES], ys: &[f32; LANES], sums: &mut [[f32; LANES]; 5]) {
    for lane in 0..LANES {
        let (dx, dy) = (at[0] - xs[lane], at[1] - ys[lane]);
        let close = 1.0 / (1.0 + dx * dx + dy * dy);
        let pull = joint[lane] * close;
        let push = close * close;
        sums[0][lane] += pull * dx;
        sums[1][lane] += pull * dy;
        sums[2][lane] += push * dx;
        sums[3][lane] += push * dy;
        sums[4][lane] += close;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    /// A symmetric matrix of affinities that sum to one, and a layout.
    fn problem(count: usize) -> (Vec<f32>, Vec<[f64; 2]>) {
        let mut random = SplitMix64::new(6);
        let mut joint = vec![0.0f32; count * count];
        for i in 0..count {
            for j in 0..i {
                let p = random.uniform() as f32;
                joint[i * count + j] = p;
                joint[j * count + i] = p;
            }
        }
        let total: f32 = joint.iter().sum();
        joint.iter_mut().for_each(|p| *p /= total);
        let layout = (0..count).map(|_| [3.0 * random.uniform(), random.uniform() - 2.0]).collect();
        (joint, layout)
    }

    fn pairs<'a>(joint: &'a [f32], layout: &'a [[f64; 2]]) -> Pairs<'a> {
        Pairs { joint, layout, threads: 2 }
    }

    #[test]
    fn the_gradient_is_that_of_the_divergence() {
        for count in [5, 16, 37] {
            let (joint, layout) = problem(count);
            let found = gradient(&pairs(&joint, &layout), 1.0);
            for (point, axis) in [(0, 0), (count / 2, 1), (count - 1, 0)] {
                let at = |step: f64| {
                    let mut moved = layout.clone();
                    moved[point][axis] += step;
                    divergence(&pairs(&joint, &moved))
                };
                let expected = (at(1e-4) - at(-1e-4)) / 2e-4;
                let found = found[point][axis];
                // Measured: 1e-8, from single precision in the forces.
                assert!((found - expected).abs() < 4e-8, "{count}: {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn exaggeration_multiplies_the_pull_alone() {
        let (joint, layout) = problem(20);
        let once = gradient(&pairs(&joint, &layout), 1.0);
        let twice = gradient(&pairs(&joint, &layout), 2.0);
        let doubled: Vec<f32> = joint.iter().map(|p| 2.0 * p).collect();
        assert_eq!(gradient(&pairs(&doubled, &layout), 1.0), twice);
        assert_ne!(once, twice);
    }
}
