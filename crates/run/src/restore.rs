//! Batch norms given back to a network whose exporter folded them into its convolutions.

use crate::images::Images;
use crate::open::OpenedData;
use crate::{RunError, Watcher};
use flipcast_exec::{Executor, NetworkOptions, Weights};
use flipcast_images::loader::{LoaderConfig, Order};
use flipcast_models::{LayerStatistics, Model, RestoreError, RestoredNorms};

/// Images of a batch: all layers' values of a batch are in memory at once.
const BATCH: usize = 8;
/// Images that statistics are gathered on, if nothing else is asked for.
pub const RESTORE_IMAGES: usize = 1000;

/// What norms are restored from.
#[derive(Clone, Copy, Debug)]
pub struct RestoreOptions<'a> {
    /// Convolutions that get a norm; `None` means [`Model::folded_layers`].
    pub layers: Option<&'a [String]>,
    /// Images at most, drawn by the seed.
    pub images: usize,
    /// Seed of the draw.
    pub seed: u64,
    /// Threads; 0 means one per core.
    pub threads: usize,
}

/// Gathers on clean images what the norms of `model` need that were folded away.
pub fn restore_norms(
    model: &Model,
    clean: &OpenedData,
    options: RestoreOptions<'_>,
    watcher: &mut dyn Watcher,
) -> Result<RestoredNorms, RunError> {
    let layers = options.layers.map_or_else(|| model.folded_layers(), <[String]>::to_vec);
    if layers.is_empty() {
        let source = RestoreError::Layer { layer: model.name().to_owned(), found: "a network with none folded" };
        return Err(source.into());
    }
    let config = LoaderConfig { threads: options.threads, ..clean.config.clone() };
    // Few images, read once: none is kept.
    let images = Images::open(clean.dataset.clone(), config, 0)?;
    let size = model.input_size();
    let network = NetworkOptions {
        taps: layers.clone(),
        threads: options.threads,
        ..NetworkOptions::predict(BATCH, size.height, size.width)
    };
    let mut net = Weights::new(model.graph().clone(), model.params().clone()).network(&network)?;
    let mut gathered: Vec<Moments> = layers.iter().map(|_| Moments::default()).collect();
    let total = options.images.min(images.len());
    let mut pass = images.pass(Order::Shuffled { seed: options.seed }, Some(total), BATCH)?;
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
    Ok(RestoredNorms {
        model_sha256: model.weights_sha256().map(str::to_owned),
        images: seen,
        layers: statistics.collect(),
    })
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
