/// Steps at which a run of `last` steps is looked at: 0, 1, 2, 5, 10, 20, 50, ... and the last.
pub fn checkpoints(last: usize) -> Vec<usize> {
    let mut steps = vec![0];
    let mut decade = 1_usize;
    'decades: loop {
        for factor in [1, 2, 5] {
            let step = decade.saturating_mul(factor);
            if step >= last {
                break 'decades;
            }
            steps.push(step);
        }
        decade = decade.saturating_mul(10);
    }
    if last > 0 {
        steps.push(last);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_spread_evenly_over_orders_of_magnitude() {
        assert_eq!(checkpoints(0), [0]);
        assert_eq!(checkpoints(1), [0, 1]);
        assert_eq!(checkpoints(60), [0, 1, 2, 5, 10, 20, 50, 60]);
        assert_eq!(checkpoints(100), [0, 1, 2, 5, 10, 20, 50, 100]);
        assert_eq!(checkpoints(usize::MAX).last(), Some(&usize::MAX));
    }
}
