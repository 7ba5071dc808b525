//! `flipcast serve --demo`: three streams of the demo's images, sent as a shop would.

use super::{Args, assets, serve};
use crate::interrupt::StopRequest;
use crate::output::tell;
use anyhow::{Context, Result};
use flipcast_corrupt::{CorruptionSet, CorruptionSpec, Corruptor, Severity};
use flipcast_ground::SplitMix64;
use flipcast_images::Image;
use flipcast_images::dataset::Dataset;
use flipcast_run::Calibration;
use flipcast_run::open::{DataRequest, ModelRequest};
use flipcast_serve::Feeder;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Images that a stream gets at once.
const AT_ONCE: usize = 32;
/// Time between two such.
const PAUSE: Duration = Duration::from_millis(250);
/// Images of every stream before anything changes.
const UNCHANGED: usize = 2560;
/// Hours for which the demo keeps its images.
const KEPT: u64 = 1;

/// What happens to a stream.
#[derive(Clone, Copy)]
enum Change {
    /// Nothing.
    None,
    /// Its camera gets noisy.
    Noise,
    /// Trousers and bags are sold out.
    Classes,
}

/// Runs the demo.
pub fn run(args: &Args) -> Result<()> {
    let folder = assets::unpack(None)?;
    let model = ModelRequest::new(&folder.weights()).open()?;
    let calibration = Calibration::load(&folder.calibration())?;
    let images = Arc::new(load(&DataRequest::new(&folder.images()).open(&model)?.dataset)?);
    let (state, is_kept) = match &args.state {
        Some(state) => (state.clone(), true),
        None => (std::env::temp_dir().join(format!("flipcast-serve-demo-{}", std::process::id())), false),
    };
    let args = Args { keep_images: Some(args.keep_images.unwrap_or(KEPT)), ..args.clone() };
    let server = args.network_server(&model, &calibration, state.clone())?;
    let stop = StopRequest::listen()?;
    let streams = [("berlin", Change::Noise), ("lisbon", Change::None), ("oslo", Change::Classes)];
    for (seed, (stream, change)) in streams.into_iter().enumerate() {
        let (feeder, images, stop) = (server.feeder(), images.clone(), stop.clone());
        let send = move || feed(&feeder, stream, change, &images, seed as u64, &stop);
        std::thread::Builder::new().name(stream.to_owned()).spawn(send).context("cannot start the demo's streams")?;
    }
    tell(&format!(
        "demo: `berlin` gets noisy and `oslo` changes its classes after {UNCHANGED} images each, `lisbon` stays as it is"
    ));
    let served = serve(server, &stop);
    folder.close(false)?;
    if !is_kept {
        std::fs::remove_dir_all(&state).with_context(|| format!("cannot remove `{}`", state.display()))?;
    }
    served
}

/// The images and their classes.
fn load(dataset: &Arc<dyn Dataset>) -> Result<Vec<(Image, u32)>> {
    let one = |index: usize| {
        let sample = dataset.sample(index)?;
        let class = sample.label.class().context("the demo's images have labels")?;
        Ok((sample.payload.into_image(&Default::default())?, class))
    };
    (0..dataset.len()).map(one).collect()
}

/// Sends random images until the server stops. Classes come as often as each other, as they do in the calibration: images drawn again and again from a
/// few thousand have the shares of those, which differ by chance, and a stream that stays as it is would have an alarm after a while.
fn feed(feeder: &Feeder, stream: &str, change: Change, images: &[(Image, u32)], seed: u64, stop: &StopRequest) {
    let mut random = SplitMix64::new(seed);
    let corruptor = Corruptor::new(seed);
    let noise = Severity::new(3).and_then(|three| CorruptionSpec::new(CorruptionSet::CifarC, "gaussian_noise", three));
    let mut of_class: BTreeMap<u32, Vec<&Image>> = BTreeMap::new();
    for (image, class) in images {
        of_class.entry(*class).or_default().push(image);
    }
    let of_class: Vec<(u32, Vec<&Image>)> = of_class.into_iter().collect();
    let mut sent = 0;
    while stop.signal().is_none() {
        let has_changed = sent >= UNCHANGED;
        let mut batch = Vec::with_capacity(AT_ONCE);
        while batch.len() < AT_ONCE {
            let (class, of_this) = &of_class[random.below(of_class.len())];
            let image = of_this[random.below(of_this.len())];
            let image = match (change, &noise) {
                (Change::Classes, _) if has_changed && [1, 8].contains(class) => continue,
                (Change::Noise, Ok(noise)) if has_changed => {
                    corruptor.corrupt(image, noise, (sent + batch.len()) as u64).unwrap_or_else(|_| image.clone())
                }
                _ => image.clone(),
            };
            batch.push(image);
        }
        sent += batch.len();
        match feeder.send(stream, batch) {
            Ok(true) => std::thread::sleep(PAUSE),
            Ok(false) => return,
            Err(reason) => {
                tell(&format!("demo: `{stream}` ends: {reason}"));
                return;
            }
        }
    }
}
