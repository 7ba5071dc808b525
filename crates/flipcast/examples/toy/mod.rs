//! Pictures and a classifier made on the spot, so that the examples need no files.

use flipcast::images::preprocess::{Normalise, Preprocess, Size};
use flipcast::{Device, Image, InMemory, Label, Loader, LoaderConfig, Model, NormMode, OpenedData, Purpose};
use flipcast_ground::SplitMix64;
use flipcast_tensor::Tensor;
use std::error::Error;

/// Width and height of a picture.
const SIDE: usize = 32;
/// Classes: stripes in one of two directions, wide or narrow.
pub const CLASSES: usize = 4;

/// `count` noisy pictures of stripes.
pub fn pictures(count: usize, seed: u64) -> Result<InMemory, Box<dyn Error>> {
    let mut random = SplitMix64::new(seed);
    let mut samples = Vec::new();
    for number in 0..count {
        let class = number % CLASSES;
        let (width, shift) = ([3, 7][class / 2], random.below(14));
        let mut rgb = Vec::with_capacity(SIDE * SIDE * 3);
        for place in 0..SIDE * SIDE {
            let across = if class.is_multiple_of(2) { place / SIDE } else { place % SIDE };
            let bright = if ((across + shift) / width).is_multiple_of(2) { 190 } else { 70 };
            rgb.extend((0..3).map(|_| bright + random.below(60) as u8));
        }
        let image = Image::new(SIDE, SIDE, rgb).ok_or("three bytes a pixel")?;
        samples.push((image, Label::Class(class as u32)));
    }
    Ok(InMemory::new(samples))
}

/// A classifier for them: a random network whose head asks which class's mean embedding of `teacher` is nearest. It is made
/// for networks that normalise with the statistics of `mode`.
pub fn classifier(teacher: InMemory, mode: NormMode) -> Result<Model, Box<dyn Error>> {
    let size = Some(Size::square(SIDE));
    let preprocess = Preprocess { crop: size, ..Preprocess::normalise_only(Normalise::half()) };
    let random = Model::random("cifar_resnet20", CLASSES, 7)?.with_preprocess(preprocess.clone());
    let data = OpenedData::new("teacher", teacher, &random)?;
    let images = data.dataset.len();
    let mut net = Device::cpu(0).network(&random, Purpose::Predict, images)?;
    net.set_norm_mode(mode)?;
    let mut loader = Loader::new(data.dataset, LoaderConfig { batch_size: images, ..data.config })?;
    let loaded = loader.next_batch()?.ok_or("there are no pictures")?;
    net.forward(&loaded.batch)?;
    let embeddings = net.tap("embedding")?;
    let dims = embeddings.values().len() / images;
    let mut means = vec![0.0; CLASSES * dims];
    let mut counts = [0.0f32; CLASSES];
    for (row, label) in embeddings.values().chunks_exact(dims).zip(&loaded.labels) {
        let Some(class) = label.class() else { continue };
        counts[class as usize] += 1.0;
        for (mean, value) in means[class as usize * dims..].iter_mut().zip(row) {
            *mean += value;
        }
    }
    for (mean, count) in means.chunks_exact_mut(dims).zip(counts) {
        mean.iter_mut().for_each(|value| *value /= count);
    }
    // |x - m|^2 = |x|^2 - 2 m x + |m|^2, and the first term is the same for every class.
    let bias = means.chunks_exact(dims).map(|mean| -mean.iter().map(|m| m * m).sum::<f32>()).collect();
    let weight = means.iter().map(|m| 2.0 * m).collect();
    let graph = (**random.graph()).clone();
    let head = graph.node(graph.output()).name.clone();
    let mut params = (**random.params()).clone();
    params.insert(format!("{head}.weight"), Tensor::new([CLASSES, dims], weight)?);
    params.insert(format!("{head}.bias"), Tensor::new([CLASSES], bias)?);
    Ok(Model::from_params(graph, params)?.with_name("stripes").with_preprocess(preprocess))
}
