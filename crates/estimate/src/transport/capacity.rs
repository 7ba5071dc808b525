/// Mass of one image. Masses are whole numbers, so that flows add up exactly. Rounding capacities to it changes a mean
/// probability by at most `2^-36` times the number of classes over that of images.
pub(super) const UNIT: i64 = 1 << 36;

/// Capacities this close to a whole number of images are meant to be that number.
const SNAP: f64 = 1e-9;

/// The mass each class takes of `images` images when the classes have these shares.
///
/// The shares must be finite, not negative and not all zero; the masses add up to that of all images.
pub(super) fn capacities(shares: &[f64], images: usize) -> Vec<i64> {
    let sum: f64 = shares.iter().sum();
    let mut masses: Vec<i64> = shares
        .iter()
        .map(|share| {
            let exact = share / sum * images as f64;
            let whole = exact.round();
            let snapped = if (exact - whole).abs() <= SNAP { whole } else { exact };
            (snapped * UNIT as f64) as i64
        })
        .collect();
    let mut missing = images as i64 * UNIT - masses.iter().sum::<i64>();
    // Rounding leaves units over. Classes that are no whole number of images anyway take them, one at a time.
    let mut takers: Vec<usize> = (0..masses.len()).filter(|&class| masses[class] % UNIT != 0).collect();
    while missing != 0 {
        let before = missing;
        for &class in &takers {
            let given = missing.signum().max(-masses[class]);
            masses[class] += given;
            missing -= given;
        }
        if missing == before {
            takers = (0..masses.len()).collect();
        }
    }
    masses
}

/// Capacities in whole images, all images together; the largest rests are rounded up.
pub(super) fn whole_images(capacities: &[i64]) -> Vec<usize> {
    let mut places: Vec<usize> = capacities.iter().map(|mass| (mass / UNIT) as usize).collect();
    let left = capacities.iter().map(|mass| mass % UNIT).sum::<i64>() / UNIT;
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&class| -(capacities[class] % UNIT));
    for &class in &order[..left as usize] {
        places[class] += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_images_stay_whole() {
        let masses = capacities(&[0.1; 1000], 10_000);
        assert!(masses.iter().all(|&mass| mass == 10 * UNIT));
        let counts = [61.0, 51.0, 63.0, 0.0, 425.0];
        let shares: Vec<f64> = counts.iter().map(|count| count / 600.0).collect();
        for (mass, count) in capacities(&shares, 600).into_iter().zip(counts) {
            assert_eq!(mass, count as i64 * UNIT);
        }
    }

    #[test]
    fn fractions_add_up_to_all_images() {
        for images in [1, 7, 500, 4_000_000] {
            let masses = capacities(&[1.0 / 37.0; 37], images);
            assert_eq!(masses.iter().sum::<i64>(), images as i64 * UNIT);
            assert_eq!(whole_images(&masses).iter().sum::<usize>(), images);
            let expected = images as f64 / 37.0;
            for mass in masses {
                let found = mass as f64 / UNIT as f64;
                assert!((found - expected).abs() < 1e-9 * expected.max(1.0));
            }
        }
    }

    #[test]
    fn rests_too_small_for_an_image_are_shared_out() {
        for rest in [0.0, 1e-15, 4e-14, 5e-10, 1e-6] {
            let masses = capacities(&[1.0 - rest, rest], 10_000);
            assert_eq!(masses.iter().sum::<i64>(), 10_000 * UNIT);
            assert!(masses.iter().all(|mass| *mass >= 0));
        }
    }

    #[test]
    fn the_largest_fractions_are_rounded_up() {
        let masses = capacities(&[0.12, 0.0, 0.37, 0.51], 10);
        assert_eq!(whole_images(&masses), [1, 0, 4, 5]);
    }
}
