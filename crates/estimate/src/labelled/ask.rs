use crate::EstimateError;
use flipcast_ground::SplitMix64;
use serde::{Deserialize, Serialize};

/// Labels that a stratum gets on average, at least; with fewer, what strata gain is lost to doubt about each.
const LABELS_PER_STRATUM: usize = 50;
/// The most strata: more of them gain nothing and leave each with few labels.
const MOST_STRATA: usize = 5;
/// The least spread a stratum is planned with. Where guesses say nothing, strata are alike and unequal numbers of labels cost width; at
/// 0.15 that was 13% of it, at 0.3 a few percent.
const LEAST_SPREAD: f64 = 0.3;

/// Which images to label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Images to label, in an order that tells nothing about them.
    pub images: Vec<usize>,
    /// The stratum of every image of the dataset.
    pub strata: Vec<usize>,
}

/// Chooses `labels` images to label so that they tell most about the accuracy.
///
/// *Idea.* Images that are almost surely right, or wrong, need few labels; doubtful ones need more.
/// *Formula.* Images are put into strata of equal size by their guess `g`; a stratum gets labels in proportion to
/// `sqrt(g (1 - g))` at its mean guess, at least two, drawn at random within it.
/// *Reference.* Neyman, "On the two different aspects of the representative method", 1934.
/// *Departures from the reference.* The spread is planned with at least 0.3, since guesses may be wrong.
///
/// ```
/// let guesses: Vec<f64> = (0..1000).map(|i| f64::from(i) / 1000.0).collect();
/// let question = flipcast_estimate::choose_questions(&guesses, 50, 0)?;
/// assert_eq!(question.images.len(), 50);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
///
/// # Errors
/// When there are more labels asked for than images, or fewer than two.
pub fn choose_questions(guesses: &[f64], labels: usize, seed: u64) -> Result<Question, EstimateError> {
    if labels < 2 {
        return Err(EstimateError::TooFew { what: "labels", found: labels, expected: 2 });
    }
    if labels > guesses.len() {
        return Err(EstimateError::TooMany { what: "labels", found: labels, expected: guesses.len() });
    }
    check_guesses(guesses)?;
    let count = (labels / LABELS_PER_STRATUM).clamp(1, MOST_STRATA);
    let groups = groups_by_guess(guesses, count);
    let strata = strata_of(&groups, guesses.len());
    let mut random = SplitMix64::new(seed);
    let mut images = Vec::with_capacity(labels);
    for (group, wanted) in groups.iter().zip(allocate(&groups, guesses, labels)) {
        let mut group = group.clone();
        for i in 0..wanted {
            let j = i + random.below(group.len() - i);
            group.swap(i, j);
        }
        images.extend_from_slice(&group[..wanted]);
    }
    random.shuffle(&mut images);
    Ok(Question { images, strata })
}

/// The stratum of every image where images are put into `count` strata of equal size by their guess, as [`choose_questions`]
/// does; one stratum where `count` is 0. So strata are known again from the guesses and their number.
///
/// # Errors
/// When a guess is not finite.
pub fn stratify(guesses: &[f64], count: usize) -> Result<Vec<usize>, EstimateError> {
    check_guesses(guesses)?;
    Ok(strata_of(&groups_by_guess(guesses, count.max(1)), guesses.len()))
}

pub(super) fn check_guesses(guesses: &[f64]) -> Result<(), EstimateError> {
    match guesses.iter().position(|guess| !guess.is_finite()) {
        Some(index) => Err(EstimateError::NotFinite { what: "guess", index, found: guesses[index] }),
        None => Ok(()),
    }
}

/// Images in groups of equal size, lowest guesses first.
fn groups_by_guess(guesses: &[f64], count: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..guesses.len()).collect();
    order.sort_by(|&a, &b| guesses[a].total_cmp(&guesses[b]).then(a.cmp(&b)));
    (0..count).map(|i| order[i * guesses.len() / count..(i + 1) * guesses.len() / count].to_vec()).collect()
}

fn strata_of(groups: &[Vec<usize>], images: usize) -> Vec<usize> {
    let mut strata = vec![0; images];
    for (stratum, group) in groups.iter().enumerate() {
        group.iter().for_each(|&image| strata[image] = stratum);
    }
    strata
}

/// Labels of every group: in proportion to its planned spread, at least two, at most all of it, `labels` in all.
fn allocate(groups: &[Vec<usize>], guesses: &[f64], labels: usize) -> Vec<usize> {
    let spread = |group: &Vec<usize>| {
        let mean = group.iter().map(|&image| guesses[image]).sum::<f64>() / group.len().max(1) as f64;
        let share = mean.clamp(0.0, 1.0);
        group.len() as f64 * (share * (1.0 - share)).sqrt().max(LEAST_SPREAD)
    };
    let spreads: Vec<f64> = groups.iter().map(spread).collect();
    let mut given: Vec<usize> = groups.iter().map(|group| group.len().min(2)).collect();
    while given.iter().sum::<usize>() < labels {
        // The group whose next label lowers the variance most.
        let gain = |i: usize| spreads[i] / (given[i] as f64 * (given[i] + 1) as f64).sqrt();
        let open = (0..groups.len()).filter(|&i| given[i] < groups[i].len());
        match open.max_by(|&a, &b| gain(a).total_cmp(&gain(b)).then(b.cmp(&a))) {
            Some(best) => given[best] += 1,
            None => break,
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesses() -> Vec<f64> {
        (0..500).map(|i| f64::from((i * 7919) % 500) / 500.0).collect()
    }

    #[test]
    fn every_question_is_asked_once_and_every_stratum_has_some() {
        for labels in [2, 9, 50, 500] {
            let question = choose_questions(&guesses(), labels, 1).unwrap();
            let mut asked = question.images.clone();
            asked.sort_unstable();
            asked.dedup();
            assert_eq!(asked.len(), labels);
            let last = *question.strata.iter().max().unwrap();
            for stratum in 0..=last {
                assert!(asked.iter().any(|&image| question.strata[image] == stratum), "{labels}: {stratum}");
            }
        }
    }

    #[test]
    fn doubtful_images_are_asked_about_more() {
        let question = choose_questions(&guesses(), 250, 1).unwrap();
        let asked = |stratum| question.images.iter().filter(|&&image| question.strata[image] == stratum).count();
        assert!(asked(2) > asked(0) && asked(2) > asked(4), "{} {} {}", asked(0), asked(2), asked(4));
    }

    #[test]
    fn the_seed_alone_decides() {
        let ask = |seed| choose_questions(&guesses(), 60, seed).unwrap();
        assert_eq!(ask(3), ask(3));
        assert_ne!(ask(3).images, ask(4).images);
    }

    #[test]
    fn strata_are_known_again_from_the_guesses() {
        for labels in [20, 120, 400] {
            let question = choose_questions(&guesses(), labels, 2).unwrap();
            let count = question.strata.iter().max().unwrap() + 1;
            assert_eq!(stratify(&guesses(), count).unwrap(), question.strata);
        }
        assert_eq!(stratify(&[0.5; 3], 0).unwrap(), [0; 3]);
        assert!(stratify(&[f64::NAN], 1).is_err());
    }

    #[test]
    fn more_labels_than_images_are_refused() {
        assert!(choose_questions(&[0.5; 10], 11, 0).is_err());
        assert!(choose_questions(&[0.5; 10], 1, 0).is_err());
    }
}
