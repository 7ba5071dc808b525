use flipcast_ground::SplitMix64;

/// `count` different numbers below `bound`, ascending; all of them when `count` is not smaller.
pub(crate) fn sample_indices(random: &mut SplitMix64, bound: usize, count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..bound).collect();
    let count = count.min(bound);
    for i in 0..count {
        let j = i + random.below(bound - i);
        numbers.swap(i, j);
    }
    numbers.truncate(count);
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_and_in_range() {
        let mut numbers = sample_indices(&mut SplitMix64::new(5), 100, 40);
        assert_eq!(numbers.len(), 40);
        numbers.dedup();
        assert_eq!(numbers.len(), 40);
        assert!(numbers.iter().all(|&number| number < 100));
        assert_eq!(sample_indices(&mut SplitMix64::new(5), 3, 9), [0, 1, 2]);
    }
}
