//! Diamond-square height map on a torus.

/// A `size` x `size` map (`size` a power of two, at least 2) in 0..1 whose jitter shrinks by `decay` per halving.
///
/// `uniform` supplies one draw of 0..1 per point but the first, in the order the published code takes them: the
/// centres of the squares, the points on the top edges, the points on the left edges, row by row each.
/// The jitter is `amplitude * U(-amplitude, amplitude)`, that is, it scales with the square of the amplitude.
pub fn plasma_map(size: usize, decay: f64, mut uniform: impl FnMut() -> f64) -> Vec<f64> {
    let mut map = vec![0.0; size * size];
    let mask = size - 1;
    let (mut step, mut amplitude) = (size, 100.0_f64);
    while step >= 2 {
        let half = step / 2;
        let mut jitter = |sum: f64| sum / 4.0 + amplitude * (-amplitude + 2.0 * amplitude * uniform());
        let at = |map: &[f64], y: usize, x: usize| map[(y & mask) * size + (x & mask)];
        for y in (0..size).step_by(step) {
            for x in (0..size).step_by(step) {
                let left = at(&map, y, x) + at(&map, y + step, x);
                let right = at(&map, y, x + step) + at(&map, y + step, x + step);
                map[(y + half) * size + x + half] = jitter(left + right);
            }
        }
        for y in (0..size).step_by(step) {
            for x in (0..size).step_by(step) {
                let centres = at(&map, y + half, x + half) + at(&map, y + size - half, x + half);
                let corners = at(&map, y, x) + at(&map, y, x + step);
                map[y * size + x + half] = jitter(centres + corners);
            }
        }
        for y in (0..size).step_by(step) {
            for x in (0..size).step_by(step) {
                let centres = at(&map, y + half, x + half) + at(&map, y + half, x + size - half);
                let corners = at(&map, y, x) + at(&map, y + step, x);
                map[(y + half) * size + x] = jitter(centres + corners);
            }
        }
        step = half;
        amplitude /= decay;
    }
    let low = extreme(&map, f64::min);
    map.iter_mut().for_each(|v| *v -= low);
    let high = extreme(&map, f64::max);
    map.iter_mut().for_each(|v| *v /= high);
    map
}

/// The value that `pick` prefers to all others; several candidates are kept at a time.
fn extreme(map: &[f64], pick: impl Fn(f64, f64) -> f64) -> f64 {
    let (chunks, rest) = map.as_chunks::<8>();
    let mut candidates = [map[0]; 8];
    for chunk in chunks {
        for (candidate, &value) in candidates.iter_mut().zip(chunk) {
            *candidate = pick(*candidate, value);
        }
    }
    candidates.iter().chain(rest).copied().fold(map[0], pick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_but_the_first_takes_one_draw() {
        let mut draws = 0;
        let map = plasma_map(16, 2.0, || {
            draws += 1;
            (draws * 37 % 101) as f64 / 101.0
        });
        assert_eq!(draws, 16 * 16 - 1);
        assert!(map.iter().all(|v| (0.0..=1.0).contains(v)));
        assert!(map.contains(&0.0) && map.contains(&1.0));
    }
}
