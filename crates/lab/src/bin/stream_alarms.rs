//! How often a monitor is wrong where nothing changes, and how soon it notices shifts, on images of a real model.
//!
//! `cargo run --release -p flipcast-lab --bin stream_alarms -- MODEL CALIBRATION DATA KNOWN [STREAMS [cpu|cuda [CHANGES [YEARS]]]]`; the first KNOWN images of DATA are those of the
//! calibration; CHANGES are corruptions and `classes`, with commas, or all; with 0 for STREAMS there are no unchanged ones, and with 0 or nothing for YEARS no long ones. No stream holds an image twice, or one that its tests know already: a stream drawn with replacement from a few thousand images has those
//! images as its source and not the source of the calibration's, which is a change, if a small one, and tests are right to see it.
//!
//! - Unchanged streams: all images are predicted in batches of 64, several times in other batches. Every stream deals these batches anew into
//!   the images that its tests know and those that come. Dealing makes them exchangeable, so that alarms are false and at most as frequent as promised.
//! - Long streams, a million images each, about a year of two images a minute: what the tests know and what comes is drawn from one source, the images of DATA, one by one with
//!   replacement, and so are counts of flips from its batches. That is independent and alike by construction, for any length, which no set of images without replacement would reach.
//! - For comparison, the same number of streams drawn with replacement from the images that the calibration does not know.
//! - Changed streams: half of these images as they are, then the others corrupted, or without half of the classes.

use flipcast_corrupt::CorruptionSet;
use flipcast_corrupt::registry::names;
use flipcast_estimate::{FLIP_BATCH, Outputs, ShiftReference};
use flipcast_exec::{NormMode, Purpose};
use flipcast_ground::{SplitMix64, argmax};
use flipcast_images::dataset::Subset;
use flipcast_images::loader::Order;
use flipcast_run::monitor::{AlarmKind, Monitor, MonitorBasis, MonitorConfig};
use flipcast_run::open::{DataRequest, ModelRequest};
use flipcast_run::{Calibration, CellRequest, Device, HELD_OUT, Images, corrupted};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Batches that an unchanged stream has; its tests know the others.
const UNCHANGED: usize = 80;
/// Times that all images are predicted, each time in other batches.
const DEALS: u64 = 4;
/// Streams for every change.
const STREAMS: u64 = 10;
/// Images of a long stream: two a minute for a year, nearly.
const YEAR: usize = 1_000_000;
/// Probabilities of a false alarm at which unchanged streams are counted.
const PROMISES: [f64; 4] = [0.01, 0.05, 0.1, 0.2];

/// A batch: logits with own statistics, with those of the batch, and the answers.
type Predicted = (Outputs, Outputs, Vec<usize>);

/// Where the tests of one stream stood highest.
struct Watched {
    highest: BTreeMap<AlarmKind, f64>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, calibration, data, known, rest @ ..] = &arguments[..] else {
        return Err("expected MODEL CALIBRATION DATA KNOWN [STREAMS [cpu|cuda [CHANGES [YEARS]]]]".into());
    };
    let known: usize = known.parse()?;
    let unchanged: u64 = rest.first().map_or(Ok(300), |text| text.parse())?;
    let device = match rest.get(1).map(String::as_str) {
        None | Some("cpu") => Device::cpu(0),
        Some("cuda") => Device::Cuda { index: 0, precision: flipcast_cuda::Precision::F32 },
        Some(other) => return Err(format!("the device is `{other}`, expected cpu or cuda").into()),
    };
    let changes: Option<Vec<&str>> = rest.get(2).map(|text| text.split(',').collect());
    let is_wanted = |name: &str| changes.as_ref().is_none_or(|changes| changes.contains(&name));
    let years: u64 = rest.get(3).map_or(Ok(0), |text| text.parse())?;
    let model = ModelRequest::new(model.as_ref()).open()?;
    let data = DataRequest::new(data).open(&model)?;
    let calibration = Calibration::load(calibration.as_ref())?;
    let subset = |indices: Vec<usize>| -> Result<CellRequest> {
        Ok(CellRequest { dataset: Arc::new(Subset::new(data.dataset.clone(), indices)?), ..data.request() })
    };
    let mut fresh: Vec<usize> = (known..data.dataset.len()).collect();
    SplitMix64::new(7).shuffle(&mut fresh);
    let (first, then) = fresh.split_at(fresh.len() / 2);
    let predict = |request: CellRequest, deal: u64| -> Result<Vec<Predicted>> {
        let images = Images::open(request.dataset, request.config, request.memory_limit)?;
        let mut nets = Vec::new();
        for mode in [NormMode::Running, NormMode::Batch] {
            let mut net = device.network(&model, Purpose::Predict, FLIP_BATCH)?;
            net.set_norm_mode(mode)?;
            nets.push(net);
        }
        let mut batches = Vec::new();
        let mut pass = images.pass(Order::Shuffled { seed: deal }, None, FLIP_BATCH)?;
        while let Some(loaded) = pass.next_batch()? {
            if loaded.batch.images() == FLIP_BATCH {
                let mut rows = Vec::new();
                for net in &mut nets {
                    rows.push(Outputs::new(net.forward(&loaded.batch)?.values().to_vec(), model.num_classes())?);
                }
                let second = rows.pop().ok_or("two looks")?;
                let labels = loaded.labels.iter().map(|label| label.class().map_or(usize::MAX, |class| class as usize));
                batches.push((rows.remove(0), second, labels.collect()));
            }
            pass.recycle(loaded.batch);
        }
        Ok(batches)
    };
    let whole = Arc::new(MonitorBasis::new(&calibration, &model)?);
    let mut deals = Vec::new();
    if unchanged > 0 || years > 0 {
        // Long streams draw images one by one, so that one deal is enough for them.
        let times = if unchanged > 0 { DEALS } else { 1 };
        eprintln!("predicting {times} deals");
        deals = (0..times).map(|deal| predict(data.request(), deal)).collect::<Result<Vec<_>>>()?;
    }
    if years > 0 {
        eprintln!("long streams");
        let source = Source::new(&deals);
        let watched = in_parallel(years, |stream| {
            let mut random = SplitMix64::new(5000 + stream);
            let basis =
                basis_from(&calibration, &model, source.rows(known, &mut random), source.flips(known, &mut random))?;
            source.watch(&basis, stream, &mut random)
        })?;
        tell(&format!("{years} unchanged streams of {YEAR} images, drawn from {} images", source.rows.len()), &watched);
    }
    if unchanged > 0 {
        let clean = predict(subset(fresh.clone())?, 0)?;
        eprintln!("unchanged streams");
        let dealt = in_parallel(unchanged, |stream| {
            let mut random = SplitMix64::new(stream);
            let mut batches: Vec<&Predicted> = deals[stream as usize % deals.len()].iter().collect();
            random.shuffle(&mut batches);
            let (coming, known) = batches.split_at(UNCHANGED);
            let basis = basis_of(&calibration, &model, known)?;
            watch(&basis, stream, coming)
        })?;
        let images = UNCHANGED * FLIP_BATCH;
        tell(&format!("{unchanged} unchanged streams of {images} images, dealt anew"), &dealt);
        let drawn = in_parallel(unchanged, |stream| {
            let mut random = SplitMix64::new(stream);
            let batches: Vec<&Predicted> = (0..UNCHANGED).map(|_| &clean[random.below(clean.len())]).collect();
            watch(&whole, stream, &batches)
        })?;
        let sources = clean.len() * FLIP_BATCH;
        tell(&format!("{unchanged} streams of {images} images drawn with replacement from {sources} others"), &drawn);
    }

    println!(
        "| change | accuracy before, after | alarms before | noticed | images until the first alarm: median, most | by | estimate off by, points | interval held |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let before = predict(subset(first.to_vec())?, 0)?;
    let changing = subset(then.to_vec())?;
    let mut unseen = names(CorruptionSet::CifarC);
    unseen.retain(|name| !HELD_OUT.contains(name) && is_wanted(name));
    for name in unseen {
        for severity in [1, 3, 5] {
            eprintln!("{name}:{severity}");
            let after = predict(corrupted(&changing, &format!("cifar-c/{name}:{severity}"))?, 0)?;
            row(&format!("{name}:{severity}"), &whole, &before, &after)?;
        }
    }
    if !is_wanted("classes") {
        return Ok(());
    }
    // Half of the classes no longer come: the images of the others as they are.
    let mut kept = Vec::new();
    for index in then {
        let class = data.dataset.label(*index)?.class();
        kept.extend(class.filter(|class| (*class as usize) < model.num_classes() / 2).map(|_| *index));
    }
    row("half of the classes", &whole, &before, &predict(subset(kept)?, 0)?)
}

/// What a monitor knows if `known` are the calibration's images.
fn basis_of(
    calibration: &Calibration,
    model: &flipcast_models::Model,
    known: &[&Predicted],
) -> Result<Arc<MonitorBasis>> {
    let (mut logits, mut flips) = (Vec::new(), vec![0; FLIP_BATCH + 1]);
    for batch in known {
        logits.extend_from_slice(batch.0.logits());
        flips[count_flips(batch)] += 1;
    }
    basis_from(calibration, model, logits, flips)
}

/// What a monitor knows if the calibration's images have these logits, and its batches so many flips.
fn basis_from(
    calibration: &Calibration,
    model: &flipcast_models::Model,
    logits: Vec<f32>,
    flips: Vec<u32>,
) -> Result<Arc<MonitorBasis>> {
    let warm = Outputs::new(logits, model.num_classes())?.scaled(calibration.basis.temperature.value);
    let shift = Some(ShiftReference::fit(&warm, Some(flips))?);
    Ok(Arc::new(MonitorBasis::new(&Calibration { shift, ..calibration.clone() }, model)?))
}

/// Predictions that differ between the two looks at a batch.
fn count_flips((source, second, _): &Predicted) -> usize {
    source.rows().zip(second.rows()).filter(|(a, b)| argmax(a) != argmax(b)).count()
}

/// What long streams are drawn from.
struct Source<'a> {
    rows: Vec<&'a [f32]>,
    flips: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Images of the first deal; flips of the batches of all.
    fn new(deals: &'a [Vec<Predicted>]) -> Self {
        let rows = deals.iter().take(1).flatten().flat_map(|(source, _, _)| source.rows()).collect();
        Self { rows, flips: deals.iter().flatten().map(count_flips).collect() }
    }

    /// Logits of so many images.
    fn rows(&self, images: usize, random: &mut SplitMix64) -> Vec<f32> {
        (0..images).flat_map(|_| self.rows[random.below(self.rows.len())].iter().copied()).collect()
    }

    /// How often each number of flips comes in the batches of so many images.
    fn flips(&self, images: usize, random: &mut SplitMix64) -> Vec<u32> {
        let mut counts = vec![0; FLIP_BATCH + 1];
        (0..images / FLIP_BATCH).for_each(|_| counts[self.flips[random.below(self.flips.len())]] += 1);
        counts
    }

    /// Watches a year of images. Of a second look the tests know how many predictions flip, so that as many are made to.
    fn watch(&self, basis: &Arc<MonitorBasis>, seed: u64, random: &mut SplitMix64) -> Result<Watched> {
        let config = MonitorConfig { seed, kept_windows: 1, false_alarms: PROMISES[0], ..Default::default() };
        let mut monitor = Monitor::new(basis.clone(), config)?;
        let (mut highest, classes) = (BTreeMap::new(), basis.classes());
        for _ in 0..YEAR / FLIP_BATCH {
            let flips = self.flips[random.below(self.flips.len())];
            let (mut numbers, mut second) = (Vec::new(), Vec::new());
            for place in 0..FLIP_BATCH {
                let mut row = self.rows[random.below(self.rows.len())].to_vec();
                numbers.extend(monitor.update(&Outputs::new(row.clone(), classes)?, 0.0)?);
                note(&monitor, &mut highest);
                row.rotate_right(usize::from(place < flips));
                second.extend(row);
            }
            monitor.look_again(&numbers, &Outputs::new(second, classes)?)?;
            note(&monitor, &mut highest);
        }
        Ok(Watched { highest })
    }
}

/// Watches a stream image by image. A test rests after its alarm, above all lines that are counted.
fn watch(basis: &Arc<MonitorBasis>, seed: u64, batches: &[&Predicted]) -> Result<Watched> {
    let config = MonitorConfig { seed, kept_windows: 8, false_alarms: PROMISES[0], ..Default::default() };
    let mut monitor = Monitor::new(basis.clone(), config)?;
    let mut highest = BTreeMap::new();
    for (source, second, _) in batches {
        let mut numbers = Vec::new();
        for row in source.rows() {
            numbers.extend(monitor.update(&Outputs::new(row.to_vec(), source.classes())?, 0.0)?);
            note(&monitor, &mut highest);
        }
        monitor.look_again(&numbers, second)?;
        note(&monitor, &mut highest);
    }
    Ok(Watched { highest })
}

fn note(monitor: &Monitor, highest: &mut BTreeMap<AlarmKind, f64>) {
    for test in monitor.tests() {
        let most = highest.entry(test.kind).or_insert(f64::NEG_INFINITY);
        *most = most.max(test.log_e_value);
    }
}

/// How many streams raised alarms, by what was promised.
fn tell(title: &str, watched: &[Watched]) {
    println!("{title}\n");
    println!("| promised, of streams | with any alarm | 95% interval | by test |\n|---|---|---|---|");
    for promise in PROMISES {
        let line = (3.0 / promise).ln();
        let any = watched.iter().filter(|one| one.highest.values().any(|high| *high >= line)).count();
        let (low, high) = clopper_pearson(any, watched.len());
        let by = |kind: &AlarmKind| watched.iter().filter(|one| one.highest[kind] >= line).count();
        let kinds = watched.first().map(|one| one.highest.keys().copied().collect::<Vec<_>>()).unwrap_or_default();
        let by: Vec<String> = kinds.iter().map(|kind| format!("{} {}", kind.name(), by(kind))).collect();
        println!(
            "| {:.0}% | {any} of {} ({:.2}%) | {:.2}% to {:.2}% | {} |",
            100.0 * promise,
            watched.len(),
            100.0 * any as f64 / watched.len().max(1) as f64,
            100.0 * low,
            100.0 * high,
            by.join(", ")
        );
    }
    println!();
}

/// The exact 95% interval of a share: where the binomial tails have 2.5% each.
fn clopper_pearson(hits: usize, trials: usize) -> (f64, f64) {
    let at_most = |hits: usize, share: f64| {
        let (mut term, mut sum) = ((trials as f64 * (-share).ln_1p()).exp(), 0.0);
        for k in 0..=hits {
            sum += term;
            term *= (trials - k) as f64 / (k + 1) as f64 * share / (1.0 - share);
        }
        sum
    };
    let solve = |hits: usize, target: f64| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if at_most(hits, middle) > target { low = middle } else { high = middle }
        }
        low
    };
    let low = if hits == 0 { 0.0 } else { solve(hits - 1, 0.975) };
    (low, if hits == trials { 1.0 } else { solve(hits, 0.025) })
}

/// One line of the table: what happens in streams whose images turn from those of `before` into those of `after`.
fn row(name: &str, basis: &Arc<MonitorBasis>, before: &[Predicted], after: &[Predicted]) -> Result<()> {
    let streams = in_parallel(STREAMS, |stream| {
        let mut random = SplitMix64::new(1000 + stream);
        let [before, after] = [before, after].map(|batches| {
            let mut batches: Vec<&Predicted> = batches.iter().collect();
            random.shuffle(&mut batches);
            batches
        });
        let mut monitor = Monitor::new(basis.clone(), MonitorConfig { seed: 100 + stream, ..Default::default() })?;
        let change = (FLIP_BATCH * before.len()) as u64;
        for (source, second, _) in before.iter().chain(&after) {
            let numbers: Vec<u64> = monitor.update(source, 0.0)?.collect();
            monitor.look_again(&numbers, second)?;
        }
        let report = monitor.report()?;
        let truth = accuracy(&after);
        // A window that begins before the change holds images of both kinds.
        let windows = report.windows.iter().filter(|window| window.first_image >= change);
        let estimates: Vec<_> = windows.filter_map(|window| window.best().cloned()).collect();
        let off: Vec<f64> = estimates.iter().map(|estimate| (estimate.accuracy - truth).abs()).collect();
        let held = estimates.iter().filter(|estimate| estimate.holds(truth)).count();
        let alarms: Vec<(AlarmKind, u64)> = report.alarms.iter().map(|alarm| (alarm.kind, alarm.image)).collect();
        Ok((alarms, change, truth, off, held))
    })?;
    let mut delays: Vec<u64> = Vec::new();
    let (mut early, mut kinds, mut off, mut held, mut truth) = (0, BTreeMap::new(), Vec::new(), 0, 0.0);
    for (alarms, change, accuracy, errors, inside) in &streams {
        early += usize::from(alarms.iter().any(|(_, image)| image < change));
        delays.extend(alarms.iter().map(|(_, image)| *image).filter(|image| image >= change).min().map(|i| i - change));
        for (kind, _) in alarms.iter().filter(|(_, image)| image >= change) {
            *kinds.entry(kind.name()).or_insert(0) += 1;
        }
        off.extend(errors);
        held += inside;
        truth += accuracy / streams.len() as f64;
    }
    delays.sort_unstable();
    let text = |delay: Option<&u64>| delay.map_or("-".to_owned(), u64::to_string);
    let by: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!(
        "| {name} | {:.1}%, {:.1}% | {early} of {STREAMS} | {} of {STREAMS} | {}, {} | {} | {:.1} | {held} of {} |",
        100.0 * accuracy(&before.iter().collect::<Vec<_>>()),
        100.0 * truth,
        delays.len(),
        text(delays.get(delays.len() / 2)),
        text(delays.last()),
        by.join(", "),
        100.0 * off.iter().sum::<f64>() / off.len().max(1) as f64,
        off.len(),
    );
    Ok(())
}

fn accuracy(batches: &[&Predicted]) -> f64 {
    let right = |(source, _, labels): &&Predicted| {
        source.classes_predicted().iter().zip(labels).filter(|(predicted, label)| predicted == label).count()
    };
    let images: usize = batches.iter().map(|batch| batch.2.len()).sum();
    batches.iter().map(right).sum::<usize>() as f64 / images.max(1) as f64
}

/// What `act` gives for every stream, in their order, on all cores.
fn in_parallel<T: Send>(streams: u64, act: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let stream = next.fetch_add(1, Ordering::Relaxed);
            if stream >= streams {
                return Ok(done);
            }
            done.push((stream, act(stream).map_err(|error| error.to_string())?));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<std::result::Result<Vec<(u64, T)>, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread ended".to_owned()))).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(stream, _)| *stream);
    Ok(all.into_iter().map(|(_, made)| made).collect())
}
