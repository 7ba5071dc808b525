use super::plan::Share;
use super::problem::{ProbRows, Problem};
use super::solve::solve;
use crate::{EstimateError, Outputs};
use flipcast_ground::SplitMix64;

/// The most images solved as one problem.
const WHOLE: usize = 20_000;

/// Images of a batch where there are more, as published.
const BATCH: usize = 10_000;

/// Seed of the order in which images are dealt to batches, so that sorted images do not give batches of few classes.
const ORDER_SEED: u64 = 0;

/// What each image gives to which class in a best plan, by image; large sets in batches of equal size.
///
/// # Errors
/// When `shares` are not the shares of the classes, see [`check_shares`].
pub(crate) fn plan_shares(outputs: &Outputs, shares: &[f64]) -> Result<Vec<Share>, EstimateError> {
    check_shares(shares, outputs.classes())?;
    let mut found = Vec::with_capacity(outputs.images());
    for batch in batches(outputs.images()) {
        let probs = ProbRows::new(outputs, &batch);
        let plan = solve(&Problem::of_all(&probs, shares));
        found.extend(plan.shares.into_iter().map(|share| Share { image: batch[share.image], ..share }));
    }
    found.sort_by_key(|share| (share.image, share.class));
    Ok(found)
}

/// The images of each batch.
fn batches(images: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..images).collect();
    if images <= WHOLE {
        return vec![order];
    }
    let mut random = SplitMix64::new(ORDER_SEED);
    for last in (1..images).rev() {
        order.swap(last, random.below(last + 1));
    }
    let count = images.div_ceil(BATCH);
    (0..count).map(|batch| order[batch * images / count..(batch + 1) * images / count].to_vec()).collect()
}

/// Refuses shares that are not one per class, finite, not negative, and one in total.
pub(crate) fn check_shares(shares: &[f64], classes: usize) -> Result<(), EstimateError> {
    if shares.len() != classes {
        return Err(EstimateError::Length { what: "class shares", found: shares.len(), expected: classes });
    }
    if let Some(index) = shares.iter().position(|share| !share.is_finite()) {
        return Err(EstimateError::NotFinite { what: "class share", index, found: shares[index] });
    }
    if let Some(&found) = shares.iter().find(|&&share| share < 0.0) {
        return Err(EstimateError::Setting { setting: "a class share", found, expected: "no number below 0" });
    }
    let found: f64 = shares.iter().sum();
    if (found - 1.0).abs() > 1e-6 {
        return Err(EstimateError::Setting { setting: "the sum of the class shares", found, expected: "1" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_every_image_once_and_are_of_equal_size() {
        for images in [1, WHOLE, WHOLE + 1, 45_678] {
            let batches = batches(images);
            let longest = batches.iter().map(Vec::len).max().unwrap();
            let shortest = batches.iter().map(Vec::len).min().unwrap();
            assert!(longest - shortest <= 1 && (batches.len() == 1 || longest <= BATCH));
            let mut all: Vec<usize> = batches.into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (0..images).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sorted_images_are_spread_over_batches() {
        for batch in batches(30_000) {
            let first_half = batch.iter().filter(|&&image| image < 15_000).count();
            assert!((4_700..5_300).contains(&first_half), "{first_half}");
        }
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        assert!(check_shares(&[0.5, 0.5], 2).is_ok());
        for broken in [&[1.0][..], &[f64::NAN, 1.0], &[-0.5, 1.5], &[0.5, 0.4], &[0.0, 0.0]] {
            assert!(check_shares(broken, 2).is_err(), "{broken:?}");
        }
    }
}
