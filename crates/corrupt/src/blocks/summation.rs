//! The order in which numpy adds up an array.

/// The sum of `values` in numpy's pairwise order, so that normalised weights agree to the last bit.
pub fn pairwise_sum(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 8 {
        return values.iter().fold(0.0, |total, v| total + v);
    }
    if n <= 128 {
        let mut lanes = [0.0; 8];
        lanes.copy_from_slice(&values[..8]);
        let mut chunks = values[8..].chunks_exact(8);
        for chunk in &mut chunks {
            for (lane, v) in lanes.iter_mut().zip(chunk) {
                *lane += v;
            }
        }
        let [a, b, c, d, e, f, g, h] = lanes;
        let total = ((a + b) + (c + d)) + ((e + f) + (g + h));
        return chunks.remainder().iter().fold(total, |total, v| total + v);
    }
    let half = n / 2 - (n / 2) % 8;
    pairwise_sum(&values[..half]) + pairwise_sum(&values[half..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_sum_exactly_at_every_length() {
        for n in 0..400 {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            assert_eq!(pairwise_sum(&values), f64::from(n * (n - 1) / 2));
        }
    }
}
