use super::AugmentConfig;
use super::colour::draw_changes;
use super::geometry::{Motion, Size};
use crate::AdaptError;
use crate::random::Draws;
use flipcast_tensor::Batch;

/// A changed copy of `batch`: the same change for all its images, but noise of their own.
pub(crate) fn augment(batch: &Batch, config: &AugmentConfig, draws: &mut Draws) -> Result<Batch, AdaptError> {
    AdaptError::unless(
        batch.channels() == 3,
        "channels of an image to augment",
        batch.channels() as f64,
        "3, red, green and blue",
    )?;
    let size = Size { height: batch.height(), width: batch.width() };
    let (mean, std) = config.pixels.mean_std();
    let changes = draw_changes(config, draws);
    let motion = Motion::draw(config, size, draws);
    let (mut pixels, mut moved, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
    let mut changed = batch.clone();
    let len = batch.values().len() / batch.images().max(1);
    for image in changed.values_mut().chunks_exact_mut(len.max(1)) {
        pixels.clear();
        for value in image.as_chunks::<3>().0 {
            let pixel = |c: usize| (value[c] * std[c] + mean[c]).clamp(0.0, 1.0);
            pixels.extend([pixel(0), pixel(1), pixel(2)]);
        }
        for change in changes {
            change.apply(&mut pixels);
        }
        motion.apply(&pixels, size, &mut moved, &mut scratch);
        if config.noise > 0.0 {
            add_noise(&mut moved, config.noise, draws);
        }
        for (value, pixel) in image.as_chunks_mut::<3>().0.iter_mut().zip(moved.as_chunks::<3>().0) {
            *value = std::array::from_fn(|c| (pixel[c].clamp(0.0, 1.0) - mean[c]) / std[c]);
        }
    }
    Ok(changed)
}

fn add_noise(values: &mut [f32], std: f64, draws: &mut Draws) {
    for pair in values.chunks_mut(2) {
        for (value, noise) in pair.iter_mut().zip(draws.normals()) {
            *value += (std * noise) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;
    use crate::{Padding, PixelSpace};

    fn draws(step: u64) -> Draws {
        Draws::new(7, Purpose::Augment, step)
    }

    /// Two images of 6 x 8 whose pixels lie between 0 and 1 once `pixels` is undone.
    fn batch(pixels: PixelSpace) -> Batch {
        let (mean, std) = pixels.mean_std();
        let values = (0..2 * 6 * 8 * 3).map(|i| {
            let pixel = ((i * 29) % 97) as f32 / 96.0;
            (pixel - mean[i % 3]) / std[i % 3]
        });
        Batch::new([2, 6, 8, 3], values.collect()).unwrap()
    }

    /// Settings under which nothing changes.
    fn nothing(pixels: PixelSpace) -> AugmentConfig {
        AugmentConfig {
            pixels,
            brightness: [1.0; 2],
            contrast: [1.0; 2],
            saturation: [1.0; 2],
            hue: [0.0; 2],
            gamma: [1.0; 2],
            degrees: [0.0; 2],
            shift: 0.0,
            scale: [1.0; 2],
            padding: Padding::Edge,
            blur: None,
            mirror: 0.0,
            noise: 0.0,
        }
    }

    #[test]
    fn no_change_returns_the_batch_in_the_values_the_network_takes() {
        for pixels in [PixelSpace::imagenet(), PixelSpace::AsIs] {
            let before = batch(pixels);
            let after = augment(&before, &nothing(pixels), &mut draws(0)).unwrap();
            for (a, b) in before.values().iter().zip(after.values()) {
                // Eight roundings of values below 3.
                assert!((a - b).abs() < 3e-6, "{a} {b}");
            }
        }
    }

    #[test]
    fn the_published_quirk_sets_every_value_below_the_mean_to_it() {
        let before = batch(PixelSpace::imagenet());
        let after = augment(&before, &nothing(PixelSpace::AsIs), &mut draws(0)).unwrap();
        assert!(before.values().iter().any(|v| *v < 0.0));
        assert!(after.values().iter().all(|v| (0.0..=1.0).contains(v)));
    }

    #[test]
    fn the_same_draws_give_the_same_views_and_others_do_not() {
        let before = batch(PixelSpace::imagenet());
        for config in [AugmentConfig::cotta(PixelSpace::imagenet()), AugmentConfig::roid(PixelSpace::imagenet())] {
            let view = |step| augment(&before, &config, &mut draws(step)).unwrap();
            assert_eq!(view(1), view(1));
            assert_ne!(view(1), view(2));
            let (mean, std) = config.pixels.mean_std();
            for (i, value) in view(1).values().iter().enumerate() {
                let pixel = value * std[i % 3] + mean[i % 3];
                assert!((-1e-6..=1.0 + 1e-6).contains(&pixel), "{pixel}");
            }
        }
    }

    #[test]
    fn grey_images_are_refused_with_the_number_found() {
        let batch = Batch::new([1, 4, 4, 1], vec![0.0; 16]).unwrap();
        let config = nothing(PixelSpace::AsIs);
        let error = augment(&batch, &config, &mut draws(0)).unwrap_err();
        assert!(error.to_string().contains("is 1, expected 3"), "{error}");
    }
}
