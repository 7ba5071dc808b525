//! Batch norms given back to a network whose exporter folded them into its convolutions.

use crate::images::Images;
use crate::layer_statistics::{SampledImages, gather_statistics};
use crate::open::OpenedData;
use crate::training_crop::TrainingCrop;
use crate::{RunError, Watcher};
use flipcast_images::loader::LoaderConfig;
use flipcast_models::{Model, RestoreError, RestoredNorms};

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
    /// How the network's training cut images. Statistics of images cut alike are nearer to those that were folded away.
    pub crop: Option<TrainingCrop>,
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
    let mut config = LoaderConfig { threads: options.threads, ..clean.config.clone() };
    if let Some(crop) = options.crop {
        config = crop.apply(config, model.input_size(), options.seed);
    }
    // Few images, read once: none is kept.
    let images = Images::open(clean.dataset.clone(), config, 0)?;
    let sample = SampledImages { images: &images, at_most: options.images, seed: options.seed };
    let (seen, layers) = gather_statistics(model, layers, &sample, options.threads, watcher)?;
    Ok(RestoredNorms {
        model_sha256: model.weights_sha256().map(str::to_owned),
        images: seen,
        crop: options.crop.map(|crop| crop.to_string()),
        layers,
    })
}
