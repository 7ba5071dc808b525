//! Conformal prediction where past errors come in groups.

use crate::{normal_quantile, student_quantile};

/// The size that a new error will have at most with probability `level`, from past `sizes` that come in `groups`; `None` where
/// there are too few groups to say.
///
/// *Idea.* Errors within one kind of shift resemble each other, so that only the kinds, not the cells, can stand for the next kind. Every
/// group gets the same weight, and so does the new group, of which nothing is known.
/// *Formula.* The smallest `q` with `sum_j 1/(k + 1) mean_j(size <= q) >= level` over the `k` groups.
/// *Reference.* Dunn, Wasserman and Ramdas, "Distribution-Free Prediction Sets for Two-Layer Hierarchical Models", JASA 2023 (pooled
/// distribution functions). It needs `k >= level / (1 - level)` groups: nine for 90%.
/// *Departures from the reference.* None.
///
/// # Panics
/// If there is not one group per size.
pub fn grouped_quantile(sizes: &[f64], groups: &[usize], level: f64) -> Option<f64> {
    assert_eq!(sizes.len(), groups.len(), "every size belongs to a group");
    let mut members: Vec<usize> = vec![0; groups.iter().max().map_or(0, |most| most + 1)];
    groups.iter().for_each(|&group| members[group] += 1);
    let known = members.iter().filter(|&&count| count > 0).count();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|&a, &b| sizes[a].total_cmp(&sizes[b]));
    let mut below = 0.0;
    for place in order {
        below += 1.0 / ((known + 1) * members[groups[place]]) as f64;
        // Sums of equal parts must reach a level that they reach exactly.
        if below >= level - 1e-9 {
            return Some(sizes[place]);
        }
    }
    None
}

/// The same, and where there are too few groups for a statement that holds whatever the distribution: the largest size, and Student's factor for their number.
pub(crate) fn conformal_size(sizes: &[f64], groups: &[usize], level: f64) -> f64 {
    grouped_quantile(sizes, groups, level).unwrap_or_else(|| {
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        let known = groups.iter().collect::<std::collections::BTreeSet<_>>().len();
        largest * student_quantile(level, known.saturating_sub(1).max(1)) / normal_quantile(level)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn groups_of_one_give_the_split_conformal_quantile() {
        let sizes: Vec<f64> = (1..=19).map(f64::from).collect();
        let groups: Vec<usize> = (0..19).collect();
        assert_eq!(grouped_quantile(&sizes, &groups, 0.9), Some(18.0));
        assert_eq!(grouped_quantile(&sizes[..9], &groups[..9], 0.9), Some(9.0));
        assert_eq!(grouped_quantile(&sizes[..8], &groups[..8], 0.9), None);
        assert_eq!(grouped_quantile(&[], &[], 0.9), None);
    }

    #[test]
    fn a_large_group_counts_as_much_as_a_small_one() {
        // Group 0 has a thousand small errors, the other nine one large error each.
        let mut sizes = vec![0.1; 1000];
        let mut groups = vec![0; 1000];
        for group in 1..10 {
            sizes.push(group as f64);
            groups.push(group);
        }
        assert_eq!(grouped_quantile(&sizes, &groups, 0.5), Some(5.0));
    }

    #[test]
    fn a_new_group_is_covered_as_often_as_promised() {
        let mut random = SplitMix64::new(3);
        let (mut held, trials) = (0, 4000);
        for _ in 0..trials {
            let (mut sizes, mut groups) = (Vec::new(), Vec::new());
            let mut draw = |group: usize, count: usize| {
                let offset = random.normal();
                for _ in 0..count {
                    sizes.push((offset + 0.3 * random.normal()).abs());
                    groups.push(group);
                }
            };
            (0..18).for_each(|group| draw(group, 1 + group % 4));
            draw(18, 1);
            let new = sizes.pop().unwrap_or_default();
            groups.pop();
            held += usize::from(grouped_quantile(&sizes, &groups, 0.9).is_some_and(|q| new <= q));
        }
        // At least 90%, and not much more: standard error 0.5%.
        let share = f64::from(held as u32) / f64::from(trials);
        assert!((0.885..0.96).contains(&share), "{share}");
    }
}
