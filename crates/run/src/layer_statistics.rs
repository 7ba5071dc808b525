//! Means and variances of a network's inner values over images.

use crate::images::Images;
use crate::{RunError, Watcher};
use flipcast_exec::{Executor, NetworkOptions, Weights};
use flipcast_images::loader::Order;
use flipcast_models::{LayerStatistics, Model};

/// Images of a batch: all layers' values of a batch are in memory at once.
const BATCH: usize = 8;

/// Images drawn from others.
pub(crate) struct SampledImages<'a> {
    /// All images.
    pub images: &'a Images,
    /// How many are drawn at most.
    pub at_most: usize,
    /// Seed of the draw.
    pub seed: u64,
}

/// What every channel of `layers` looks like over the images of `sample` when the network normalises with its running statistics, and the number of
/// images. Runs on the processor, which can read every layer.
pub(crate) fn gather_statistics(
    model: &Model,
    layers: Vec<String>,
    sample: &SampledImages,
    threads: usize,
    watcher: &mut dyn Watcher,
) -> Result<(usize, Vec<LayerStatistics>), RunError> {
    let size = model.input_size();
    let options =
        NetworkOptions { taps: layers.clone(), threads, ..NetworkOptions::predict(BATCH, size.height, size.width) };
    let mut net = Weights::new(model.graph().clone(), model.params().clone()).network(&options)?;
    let mut gathered: Vec<Moments> = layers.iter().map(|_| Moments::default()).collect();
    let total = sample.at_most.min(sample.images.len());
    let mut pass = sample.images.pass(Order::Shuffled { seed: sample.seed }, Some(total), BATCH)?;
    let mut seen = 0;
    while let Some(loaded) = pass.next_batch()? {
        net.forward(&loaded.batch)?;
        for (layer, moments) in layers.iter().zip(&mut gathered) {
            let values = net.tap(layer)?;
            let channels = values.shape().extents().last().copied().unwrap_or(1);
            moments.add(values.values(), channels);
        }
        seen += loaded.batch.images();
        watcher.predicted(seen, total);
        pass.recycle(loaded.batch);
    }
    if seen == 0 {
        return Err(RunError::NoImages);
    }
    let statistics = layers.into_iter().zip(gathered).map(|(layer, moments)| LayerStatistics {
        layer,
        mean: moments.mean.iter().map(|&mean| mean as f32).collect(),
        variance: moments.squares.iter().map(|&squares| (squares / moments.count) as f32).collect(),
    });
    Ok((seen, statistics.collect()))
}

/// Means of channels, and sums of their squared deviations.
#[derive(Default)]
struct Moments {
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    /// Takes in the values of a batch, whose channels run fastest: two passes over them, then both parts are merged.
    fn add(&mut self, values: &[f32], channels: usize) {
        let count = (values.len() / channels.max(1)) as f64;
        let mut mean = vec![0.0; channels];
        for pixel in values.chunks_exact(channels) {
            mean.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        let mut squares = vec![0.0; channels];
        for pixel in values.chunks_exact(channels) {
            let deviations = pixel.iter().zip(&mean).map(|(&value, mean)| f64::from(value) - mean);
            squares.iter_mut().zip(deviations).for_each(|(sum, deviation)| *sum += deviation * deviation);
        }
        if self.count == 0.0 {
            *self = Self { count, mean, squares };
            return;
        }
        let all = self.count + count;
        for c in 0..channels {
            let apart = mean[c] - self.mean[c];
            self.mean[c] += apart * count / all;
            self.squares[c] += squares[c] + apart * apart * self.count * count / all;
        }
        self.count = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_give_the_moments_of_the_whole() {
        let values: Vec<f32> = (0..60).map(|i| ((i * 7919) % 31) as f32 + 100.0).collect();
        let mut whole = Moments::default();
        whole.add(&values, 2);
        let mut parts = Moments::default();
        [&values[..6], &values[6..40], &values[40..]].iter().for_each(|part| parts.add(part, 2));
        for c in 0..2 {
            assert!((whole.mean[c] - parts.mean[c]).abs() < 1e-12);
            assert!((whole.squares[c] - parts.squares[c]).abs() < 1e-9);
        }
    }
}
