//! Times how images reach a GPU: as a set of bytes or of floats that lies there, or sent batch by batch.
//!
//! `cargo bench -p flipcast-run --bench device_images -- MODEL CLASSES BATCH SIZE PRECISION IMAGES STEPS` makes a network with random weights and pictures in memory,
//! and prints, for bytes and for floats: how long reading took, what the set takes, the first step, which copies it to the
//! device, and the steps after it; then steps on batches that are sent one by one; then flips, and cells of corrupted images.

use flipcast_adapt::MethodConfig;
use flipcast_corrupt::{CorruptionStep, Corruptor};
use flipcast_cuda::Precision;
use flipcast_graph::Purpose;
use flipcast_images::dataset::{DataError, Dataset, Layout, Payload, Sample};
use flipcast_images::loader::{LoaderConfig, Order};
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess, Resize, Size};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::{CellRequest, Device, FlipProtocol, Images, Scope, Setting, Unwatched, collect_flips};
use flipcast_tensor::Batch;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Room for any set.
const MEMORY: usize = 64 << 30;

/// Made-up pictures.
struct Pictures {
    images: usize,
    side: usize,
}

impl Dataset for Pictures {
    fn layout(&self) -> Layout {
        Layout::FlatFolder
    }
    fn len(&self) -> usize {
        self.images
    }
    fn classes(&self) -> &[String] {
        &[]
    }
    fn id(&self, index: usize) -> String {
        index.to_string()
    }
    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let byte = |at: usize| (at.wrapping_mul(at / 3 + 7 * index + 1) >> 4) as u8;
        let rgb = (0..3 * self.side * self.side).map(byte).collect();
        let pixels = Image::new(self.side, self.side, rgb).expect("sizes match");
        Ok(Sample { id: self.id(index), payload: Payload::Pixels(pixels), label: Label::Class(0) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [name, classes, batch, side, precision, images, steps] = args.as_slice() else {
        return Err("expected: MODEL CLASSES BATCH SIZE PRECISION IMAGES STEPS".into());
    };
    let (classes, batch, side): (usize, usize, usize) = (classes.parse()?, batch.parse()?, side.parse()?);
    let (images, steps): (usize, usize) = (images.parse()?, steps.parse()?);
    let precision = Precision::from_name(precision).ok_or("expected tf32, bf16 or f32")?;
    let device = Device::Cuda { index: 0, precision };
    let dataset: Arc<dyn Dataset> = Arc::new(Pictures { images, side });
    let bytes = Preprocess {
        resize: Resize::None,
        crop: Some(Size::square(side)),
        interpolation: Interpolation::Bilinear,
        normalise: Normalise::imagenet(),
    };
    // A resize to the size they have: nothing changes but that it is one on floats.
    let floats = Preprocess { resize: Resize::ExactFloat(Size::square(side)), crop: None, ..bytes.clone() };
    let model = Model::random(name, classes, 1)?.with_preprocess(bytes.clone());
    let mut protocol = FlipProtocol::named("code")?;
    protocol.batch_size = batch;
    protocol.stops = vec![steps];
    for (what, rule) in [("bytes", &bytes), ("floats", &floats)] {
        let config = LoaderConfig::new(rule.clone());
        let start = Instant::now();
        let opened = Images::open(Arc::clone(&dataset), config, MEMORY)?;
        let read = start.elapsed().as_secs_f64();
        let times = time_steps(&model, &opened, &protocol, device)?;
        println!("{what}: read in {read:.2} s, {times}");
    }
    let scope = Scope::new(classes, None);
    let config = LoaderConfig::new(bytes.clone());
    let opened = Images::open(Arc::clone(&dataset), config.clone(), MEMORY)?;
    let start = Instant::now();
    let flips = collect_flips(&model, &opened, &scope, &protocol, device, &mut Unwatched)?;
    println!(
        "flips: {} steps in {:.2} s, networks and probes included",
        flips.adaptation.steps,
        start.elapsed().as_secs_f64()
    );
    drop(opened);
    protocol.stops = vec![10];
    for name in ["gaussian_noise:3", "contrast:3", "gaussian_blur:3"] {
        let corruptor = Arc::new(Corruptor::new(1));
        let request = CellRequest {
            data: name.to_owned(),
            dataset: Arc::clone(&dataset),
            config: CorruptionStep::join(config.clone(), name.parse()?, corruptor),
            preprocess: &bytes,
            scope: &scope,
            seed: 1,
            memory_limit: MEMORY,
        };
        let setting = Setting { model: &model, protocol: &protocol, device };
        let start = Instant::now();
        let seen = setting.observe(&request, &mut Unwatched)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "cell {name}: {seconds:.2} s, {:.2} s of them before the network's passes",
            seconds - seen.seconds.total()
        );
    }
    Ok(())
}

/// Steps on batches of a set, then on batches that are sent.
fn time_steps(
    model: &Model,
    images: &Images,
    protocol: &FlipProtocol,
    device: Device,
) -> Result<String, Box<dyn Error>> {
    let mut net = device.network(model, Purpose::Adapt, protocol.batch_size)?;
    let method: &MethodConfig = &protocol.method;
    let mut adapter = method.build(0)?;
    let (mut in_set, mut sent, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let (mut size, mut epoch) = (0, 0);
    while in_set.len() < protocol.last_stop() {
        let order = Order::Shuffled { seed: epoch };
        let mut pass = images.pass(order, None, protocol.batch_size)?;
        epoch += 1;
        while let Some(loaded) = pass.next_batch()? {
            if loaded.batch.images() < protocol.batch_size {
                break;
            }
            let start = Instant::now();
            adapter.step(&mut *net, &loaded.batch)?;
            in_set.push(start.elapsed().as_secs_f64() * 1e3);
            size = loaded.batch.selection().map_or(0, |(set, _)| set.size());
            if own.len() < 4 {
                own.push(alone(&loaded.batch)?);
            }
            pass.recycle(loaded.batch);
        }
    }
    for batch in own.iter().cycle().take(protocol.last_stop().min(200)) {
        let start = Instant::now();
        adapter.step(&mut *net, batch)?;
        sent.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let first = in_set[0];
    Ok(format!(
        "{:.1} MB, first step {first:.1} ms, step {:.3} ms in a set, {:.3} ms sent",
        size as f64 / 1e6,
        median(&mut in_set[3..]),
        median(&mut sent[3..])
    ))
}

/// The same batch, given alone.
fn alone(batch: &Batch) -> Result<Batch, Box<dyn Error>> {
    let extents = [batch.images(), batch.height(), batch.width(), batch.channels()];
    Ok(match batch.scale() {
        Some(scale) => {
            let image = |at| batch.image_bytes(at).unwrap_or_default().to_vec();
            let bytes = (0..batch.images()).flat_map(image).collect();
            Batch::from_bytes(extents, bytes, scale, Vec::new())?
        }
        None => Batch::new(extents, batch.values().to_vec())?,
    })
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
