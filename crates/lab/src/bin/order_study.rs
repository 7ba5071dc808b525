//! Whether estimates depend on the order in which images come.
//!
//! The same 1,000 random images, clean and under every corruption at severity 3, come in random order, sorted by class and in bursts of eight, and are looked at as `flipcast estimate` does; the first look is the same for all three and is made once. The images are those that `production_study` tests on, and the
//! fits are made from the signals that it kept. One line of CSV for every cell, on standard output, with the columns of `production_study`:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin order_study -- \
//!     --weights resnet26.cifar100.safetensors --data cifar100_test.tar --bar cifar-c-bar --signals resnet26.cifar100-0.signals.jsonl > orders.csv
//! ```
//!
//! The split is that of the file's name. `--architecture` and `--device` are as in `production_study`.

use flipcast::corrupt::CorruptionSet;
use flipcast::corrupt::registry::names;
use flipcast::estimate::comes_in_bursts;
use flipcast::images::dataset::Subset;
use flipcast::run::{Basis, HELD_OUT, Images, ScoreOptions, SourcePass, corrupted, run_source};
use flipcast::{CellRequest, Dataset, FlipProtocol, Setting, Unwatched};
use flipcast_ground::SplitMix64;
use flipcast_lab::{KeptSignals, StudyArguments, StudyLine};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// At this severity orders are looked at.
const SEVERITY: u8 = 3;
const IMAGES: usize = 1000;
const MEMORY: usize = 8 << 30;
/// What the three orders are called.
const NAMES: [&str; 3] = ["random", "sorted", "bursts"];
/// Neighbours that stay together in bursts.
const BURST: usize = 8;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let StudyArguments { model, opened, bar, device, .. } = StudyArguments::open(&arguments)?;
    let signals = StudyArguments::option(&arguments, "--signals").ok_or("--signals FILE is missing")?;
    let kept = KeptSignals::read(Path::new(signals))?;
    let seed = kept.seed;
    let (fit, adapted_fit) = kept.fits(model.graph().has_batch_norm())?;
    let begins_from_second = adapted_fit.begins_from_second_look();

    // The halves of `production_study`.
    let mut order: Vec<usize> = (0..opened.dataset.len()).collect();
    SplitMix64::new(seed).shuffle(&mut order);
    let (first, second) = order.split_at(order.len() / 2);
    let half = |indices: &[usize]| -> Outcome<Arc<dyn Dataset>> {
        let mut indices = indices.to_vec();
        indices.sort_unstable();
        Ok(Arc::new(Subset::new(opened.dataset.clone(), indices)?))
    };
    let name = if model.graph().has_batch_norm() { "statistics" } else { "flipcast" };
    let protocol = FlipProtocol { seed, ..FlipProtocol::for_network(name, model.graph())? };
    let setting = Setting { model: &model, protocol: &protocol, device };
    let look = |request: &CellRequest| -> Outcome<SourcePass> {
        let images = Images::open(request.dataset.clone(), request.config.clone(), MEMORY)?;
        Ok(run_source(&model, &images, request.scope, device, &mut Unwatched)?)
    };
    let clean = CellRequest { dataset: half(first)?, memory_limit: MEMORY, ..opened.request() };
    let basis = Basis::fit(&look(&clean)?, clean.scope, &model, ScoreOptions::default())?;

    let mut shifts = vec![("clean".to_owned(), None)];
    for (set, prefix) in [(CorruptionSet::ImageNetC, String::new()), (bar, format!("{bar}/"))] {
        let tested = names(set).into_iter().filter(|name| !HELD_OUT.contains(name));
        shifts.extend(tested.map(|name| (format!("{prefix}{name}"), Some(format!("{prefix}{name}:{SEVERITY}")))));
    }
    let test = half(second)?;
    let mut random = SplitMix64::new(seed ^ 0x5EED);
    let mut drawn: Vec<usize> = (0..test.len()).collect();
    random.shuffle(&mut drawn);
    drawn.truncate(IMAGES);
    let mut stored = drawn.clone();
    stored.sort_unstable();
    let classes = stored.iter().map(|&index| test.label(index)?.class().ok_or("an image without a class".into()));
    let classes = classes.collect::<Outcome<Vec<u32>>>()?;
    let by_chance = drawn.iter().map(|index| stored.partition_point(|earlier| earlier < index)).collect();
    let orders = orders(by_chance, &classes, random);
    let dataset = Arc::new(Subset::new(test, stored)?);
    let request = CellRequest { dataset, memory_limit: MEMORY, ..opened.request() };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", StudyLine::HEADER)?;
    for (shift, spec) in shifts {
        let cell = CellRequest { data: shift.clone(), ..request.clone() };
        let cell = match &spec {
            Some(spec) => corrupted(&cell, spec)?,
            None => cell,
        };
        let (source, samples) = setting.samples_in_orders(&cell, &basis, &orders, &mut Unwatched)?;
        let predicted = source.outputs.classes_predicted();
        for ((order, rows), sample) in NAMES.iter().zip(&orders).zip(samples) {
            let sequence: Vec<usize> = rows.iter().map(|&row| predicted[row]).collect();
            let line = StudyLine {
                seed,
                shift: &shift,
                severity: if spec.is_some() { SEVERITY } else { 0 },
                shares: sample.shares.name(),
                order,
                signals: &sample.signals,
                truths: [sample.accuracy, if begins_from_second { sample.second_accuracy } else { f64::NAN }],
                bursts: comes_in_bursts(&sequence, model.num_classes())?,
            };
            writeln!(out, "{}", line.text(&fit, &adapted_fit))?;
        }
        out.flush()?;
        eprintln!("{shift}");
    }
    Ok(())
}

/// The rows of images of these `classes` in an order of chance, sorted by class, and in bursts.
fn orders(by_chance: Vec<usize>, classes: &[u32], mut random: SplitMix64) -> [Vec<usize>; 3] {
    let mut sorted: Vec<usize> = (0..classes.len()).collect();
    sorted.sort_by_key(|&row| classes[row]);
    let mut bursts: Vec<&[usize]> = sorted.chunks(BURST).collect();
    random.shuffle(&mut bursts);
    let bursts = bursts.concat();
    [by_chance, sorted, bursts]
}
