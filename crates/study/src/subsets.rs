//! What a curve is worth that was fitted to these kinds of shift and not to those: every choice of so many.

use crate::refit::{Fit, Point};
use flipcast_record::results::SubsetErrors;
use std::collections::BTreeMap;

/// Most choices that are looked at.
const MOST: usize = 100_000;
/// Steps from the least error to the largest that a record tells.
const STEPS: usize = 100;

/// Fits to every choice of `groups` of the groups there are, clean cells besides, and tests on all others.
pub(crate) struct EverySubset<'a> {
    pub fit: &'a Fit<'a>,
    pub groups: usize,
}

impl EverySubset<'_> {
    pub fn errors(&self, points: &[Point]) -> Result<SubsetErrors, String> {
        let shifted = points.iter().filter(|point| !point.is_clean);
        let mut by_group: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
        for point in shifted {
            by_group.entry(&point.group).or_default().push(point.clone());
        }
        let clean: Vec<Point> = points.iter().filter(|point| point.is_clean).cloned().collect();
        let names: Vec<&str> = by_group.keys().copied().collect();
        let choices = count(names.len(), self.groups);
        if choices == 0 || choices > MOST {
            let (found, wanted) = (names.len(), self.groups);
            return Err(format!(
                "there are {choices} choices of {wanted} of {found} groups, expected at least 1 and at most {MOST}"
            ));
        }
        let mut found: Vec<(f64, Vec<usize>)> = Vec::with_capacity(choices);
        let mut chosen: Vec<usize> = (0..self.groups).collect();
        loop {
            let is_chosen = |place: usize| chosen.contains(&place);
            let pick = |wanted: bool| {
                let groups = by_group.values().enumerate().filter(move |(place, _)| is_chosen(*place) == wanted);
                groups.flat_map(|(_, points)| points.iter().cloned())
            };
            let fitted: Vec<Point> = clean.iter().cloned().chain(pick(true)).collect();
            let tested: Vec<Point> = pick(false).collect();
            found.push((self.fit.errors(&fitted, &tested)?.mae, chosen.clone()));
            if !advance(&mut chosen, names.len()) {
                break;
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let named = |chosen: &[usize]| chosen.iter().map(|&place| names[place].to_owned()).collect();
        let with = |place: usize| {
            let errors = found.iter().filter(|(_, chosen)| chosen.contains(&place)).map(|(mae, _)| *mae);
            let (sum, count) = errors.fold((0.0, 0usize), |(sum, count), mae| (sum + mae, count + 1));
            sum / count as f64
        };
        let step = |step: usize| found[(step * (choices - 1)).div_ceil(STEPS)].0;
        Ok(SubsetErrors {
            estimator: self.fit.estimator.to_owned(),
            curve: self.fit.curve,
            fitted_to: self.groups,
            subsets: choices,
            cells: points.len(),
            mean: found.iter().map(|(mae, _)| mae).sum::<f64>() / choices as f64,
            percentiles: (0..=STEPS).map(step).collect(),
            with_group: names.iter().enumerate().map(|(place, name)| ((*name).to_owned(), with(place))).collect(),
            best: found.first().map(|(_, chosen)| named(chosen)).unwrap_or_default(),
            worst: found.last().map(|(_, chosen)| named(chosen)).unwrap_or_default(),
        })
    }
}

/// The next choice in order; `false` after the last.
fn advance(chosen: &mut [usize], of: usize) -> bool {
    let size = chosen.len();
    let Some(place) = (0..size).rev().find(|&place| chosen[place] < of - size + place) else {
        return false;
    };
    chosen[place] += 1;
    for later in place + 1..size {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

/// Choices of `size` of `of`, none where that leaves nothing to fit or to test; more than [`MOST`] where there are too many to count.
fn count(of: usize, size: usize) -> usize {
    if size == 0 || size >= of {
        return 0;
    }
    let mut choices = 1usize;
    for taken in 0..size.min(of - size) {
        choices = choices.saturating_mul(of - taken) / (taken + 1);
        if choices > MOST * of {
            return usize::MAX;
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_estimate::CurveKind;

    fn point(group: &str, score: f64, accuracy: f64) -> Point {
        Point { group: group.to_owned(), score, accuracy, is_clean: group.is_empty() }
    }

    #[test]
    fn every_choice_comes_once_and_the_odd_group_is_found() {
        let mut points = vec![point("", 0.0, 0.9)];
        for group in ["a", "b", "c", "d", "odd"] {
            for severity in 1..=3 {
                let score = f64::from(severity) * 10.0;
                let line = 0.9 - score / 100.0;
                points.push(point(group, score, if group == "odd" { 0.9 } else { line }));
            }
        }
        let fit = Fit { estimator: "wf", curve: CurveKind::Linear };
        let errors = EverySubset { fit: &fit, groups: 2 }.errors(&points).unwrap();
        assert_eq!((errors.subsets, errors.cells, errors.fitted_to), (10, 16, 2));
        assert!(errors.worst.contains(&"odd".to_owned()) && !errors.best.contains(&"odd".to_owned()));
        assert!(errors.with_group["odd"] > errors.with_group["a"]);
        assert_eq!(errors.percentiles.len(), 101);
        assert!(errors.percentiles.is_sorted());
        assert!(errors.percentiles[0] <= errors.mean && errors.mean <= errors.percentiles[100]);
    }

    #[test]
    fn choices_are_counted_and_listed_alike() {
        for (of, size) in [(5, 2), (15, 4), (4, 3)] {
            let mut chosen: Vec<usize> = (0..size).collect();
            let mut listed = 1;
            while advance(&mut chosen, of) {
                assert!(chosen.is_sorted() && chosen.iter().all(|&place| place < of));
                listed += 1;
            }
            assert_eq!(count(of, size), listed, "{size} of {of}");
        }
        assert_eq!((count(15, 4), count(4, 4), count(4, 0)), (1365, 0, 0));
        assert!(count(1000, 500) > MOST);
    }
}
