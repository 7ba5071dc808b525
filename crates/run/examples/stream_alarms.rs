//! How soon a monitor notices shifts, and how often it is wrong where there is none, on images of a real model.
//!
//! `cargo run --release -p flipcast-run --example stream_alarms -- MODEL CALIBRATION DATA [IMAGES [STREAMS]]` predicts DATA as it is and with every corruption of
//! CIFAR-10-C at severities 1, 3 and 5, then draws streams from these predictions: STREAMS unchanged ones of IMAGES images, and ones that change after 5,120.

use flipcast_corrupt::CorruptionSet;
use flipcast_corrupt::registry::names;
use flipcast_estimate::{FLIP_BATCH, Outputs};
use flipcast_exec::{NormMode, Purpose};
use flipcast_ground::SplitMix64;
use flipcast_images::dataset::Subset;
use flipcast_images::loader::Order;
use flipcast_run::monitor::{AlarmKind, Monitor, MonitorBasis, MonitorConfig};
use flipcast_run::open::{DataRequest, ModelRequest};
use flipcast_run::{Calibration, CellRequest, Device, HELD_OUT, Images, corrupted};
use std::error::Error;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Images of a stream before it changes.
const BEFORE: usize = 5120;
/// Images after that.
const AFTER: usize = 10_240;
/// Streams for every change.
const STREAMS: u64 = 5;

/// Predictions of a dataset in batches of 64: logits with own statistics, with those of the batch, and the answers.
struct Predicted(Vec<(Outputs, Outputs, Vec<usize>)>);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, calibration, data, rest @ ..] = &arguments[..] else {
        return Err("expected MODEL CALIBRATION DATA [IMAGES [STREAMS]]".into());
    };
    let long: usize = rest.first().map_or(Ok(1_000_000), |text| text.parse())?;
    let unchanged: u64 = rest.get(1).map_or(Ok(10), |text| text.parse())?;
    let model = ModelRequest::new(model.as_ref()).open()?;
    let calibration = Calibration::load(calibration.as_ref())?;
    let basis = Arc::new(MonitorBasis::new(&calibration, &model)?);
    let data = DataRequest::new(data).open(&model)?;
    let predict = |request: CellRequest, orders: u64| -> Result<Predicted> {
        let images = Images::open(request.dataset, request.config, request.memory_limit)?;
        let mut nets = [NormMode::Running, NormMode::Batch].map(|mode| {
            let mut net =
                Device::cpu(0).network(&model, Purpose::Predict, FLIP_BATCH).map_err(|error| error.to_string())?;
            net.set_norm_mode(mode).map_err(|error| error.to_string())?;
            Ok::<_, String>(net)
        });
        let mut batches = Vec::new();
        // Several orders, so that images meet in different batches.
        for seed in 0..orders {
            let mut pass = images.pass(Order::Shuffled { seed }, None, FLIP_BATCH)?;
            while let Some(loaded) = pass.next_batch()? {
                if loaded.batch.images() < FLIP_BATCH {
                    continue;
                }
                let mut rows = Vec::new();
                for net in &mut nets {
                    let net = net.as_mut().map_err(|error| error.clone())?;
                    rows.push(Outputs::new(net.forward(&loaded.batch)?.values().to_vec(), model.num_classes())?);
                }
                let second = rows.pop().ok_or("two looks")?;
                let labels = loaded.labels.iter().map(|label| label.class().map_or(usize::MAX, |class| class as usize));
                batches.push((rows.remove(0), second, labels.collect()));
                pass.recycle(loaded.batch);
            }
        }
        Ok(Predicted(batches))
    };
    let clean = predict(data.request(), 3)?;
    println!(
        "unchanged: {unchanged} streams of {long} images, false alarms at most {} of them",
        MonitorConfig::default().false_alarms
    );
    let mut false_alarms = 0;
    for stream in 0..unchanged {
        let mut monitor =
            Monitor::new(basis.clone(), MonitorConfig { seed: stream, kept_windows: 8, ..Default::default() })?;
        send(&mut monitor, &clean, long, &mut SplitMix64::new(stream))?;
        false_alarms += usize::from(!monitor.alarms().is_empty());
        for alarm in monitor.alarms() {
            println!("  stream {stream}: {} at image {}", alarm.kind.name(), alarm.image);
        }
    }
    println!("  {false_alarms} of {unchanged} streams raised an alarm\n");
    println!(
        "| change | accuracy | alarms before | noticed | images until the first alarm, median | by | estimate off by, points | interval held |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut unseen = names(CorruptionSet::CifarC);
    unseen.retain(|name| !HELD_OUT.contains(name));
    for name in unseen {
        for severity in [1, 3, 5] {
            let spec = format!("cifar-c/{name}:{severity}");
            row(&format!("{name}:{severity}"), &basis, &clean, &predict(corrupted(&data.request(), &spec)?, 1)?)?;
        }
    }
    // Half of the classes no longer come: the images of the others as they are.
    let mut kept = Vec::new();
    for index in 0..data.dataset.len() {
        kept.extend(data.dataset.label(index)?.class().filter(|class| *class < 5).map(|_| index));
    }
    let half = CellRequest { dataset: Arc::new(Subset::new(data.dataset.clone(), kept)?), ..data.request() };
    row("half of the classes", &basis, &clean, &predict(half, 2)?)
}

/// One line of the table: what happens after images of `clean` turn into those of `changed`.
fn row(name: &str, basis: &Arc<MonitorBasis>, clean: &Predicted, changed: &Predicted) -> Result<()> {
    let accuracy = changed.accuracy();
    let mut early = 0;
    let (mut delays, mut kinds, mut errors, mut held, mut windows) = (Vec::new(), Vec::new(), 0.0, 0, 0);
    for stream in 0..STREAMS {
        let mut monitor = Monitor::new(basis.clone(), MonitorConfig { seed: 100 + stream, ..Default::default() })?;
        let mut random = SplitMix64::new(1000 + stream);
        send(&mut monitor, clean, BEFORE, &mut random)?;
        send(&mut monitor, changed, AFTER, &mut random)?;
        let first = monitor.alarms().iter().find(|alarm| alarm.image as usize >= BEFORE);
        early += usize::from(monitor.alarms().iter().any(|alarm| (alarm.image as usize) < BEFORE));
        delays.extend(first.map(|alarm| alarm.image as usize - BEFORE));
        kinds.extend(monitor.alarms().iter().filter(|alarm| alarm.image as usize >= BEFORE).map(|alarm| alarm.kind));
        for window in monitor.report()?.windows.iter().filter(|window| window.first_image as usize >= BEFORE) {
            if let Some(estimate) = window.best() {
                errors += (estimate.accuracy - accuracy).abs();
                held += usize::from(estimate.holds(accuracy));
                windows += 1;
            }
        }
    }
    delays.sort_unstable();
    let median = delays.get(delays.len() / 2).map_or("-".to_owned(), usize::to_string);
    let by: Vec<String> = AlarmKind::ALL
        .iter()
        .map(|kind| (kind.name(), kinds.iter().filter(|found| *found == kind).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    println!(
        "| {name} | {:.1}% | {early} of {STREAMS} | {} of {STREAMS} | {median} | {} | {:.1} | {:.0}% |",
        100.0 * accuracy,
        delays.len(),
        by.join(", "),
        100.0 * errors / f64::from(windows.max(1)),
        100.0 * f64::from(held as u32) / f64::from(windows.max(1))
    );
    Ok(())
}

/// Sends random batches of `predicted`, a minute apart.
fn send(monitor: &mut Monitor, predicted: &Predicted, images: usize, random: &mut SplitMix64) -> Result<()> {
    for _ in 0..images / FLIP_BATCH {
        let (source, second, _) = &predicted.0[random.below(predicted.0.len())];
        let time = 60.0 * (monitor.state().images() / FLIP_BATCH as u64) as f64;
        let numbers: Vec<u64> = monitor.update(source, time)?.collect();
        monitor.look_again(&numbers, second)?;
    }
    Ok(())
}

impl Predicted {
    fn accuracy(&self) -> f64 {
        let right = |(source, _, labels): &(Outputs, Outputs, Vec<usize>)| {
            source.classes_predicted().iter().zip(labels).filter(|(p, l)| p == l).count()
        };
        let images: usize = self.0.iter().map(|batch| batch.2.len()).sum();
        self.0.iter().map(right).sum::<usize>() as f64 / images.max(1) as f64
    }
}
