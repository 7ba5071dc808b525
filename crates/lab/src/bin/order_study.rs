//! Whether estimates depend on the order in which images come.
//!
//! The same 1,000 random images, clean and under every corruption at severity 3, come in random order, sorted by class and in bursts of eight, and are looked at by the calls of `flipcast estimate`. The images are those that `production_study` tests on, and the
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
use flipcast::{CellRequest, Dataset, FlipProtocol, Ledger, Setting, Unwatched};
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
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", StudyLine::HEADER)?;
    for (shift, spec) in shifts {
        for order in Order::ALL {
            let dataset = order.arrange(&test, seed)?;
            let request = CellRequest { dataset, data: shift.clone(), memory_limit: MEMORY, ..opened.request() };
            let request = match &spec {
                Some(spec) => corrupted(&request, spec)?,
                None => request,
            };
            let bursts = comes_in_bursts(&look(&request)?.outputs.classes_predicted(), model.num_classes())?;
            let cell = setting.cell("estimate", &request, &basis, &mut Ledger::default(), &mut Unwatched)?;
            let (Some(signals), Some(truth)) = (cell.signals, cell.accuracy) else {
                return Err("a cell without signals or labels".into());
            };
            let second_truth = cell.adapted_accuracy.filter(|_| begins_from_second);
            let line = StudyLine {
                seed,
                shift: &shift,
                severity: if spec.is_some() { SEVERITY } else { 0 },
                shares: "sample",
                order: order.name(),
                signals: &signals,
                truths: [truth, second_truth.unwrap_or(f64::NAN)],
                bursts,
            };
            writeln!(out, "{}", line.text(&fit, &adapted_fit))?;
            out.flush()?;
        }
        eprintln!("{shift}");
    }
    Ok(())
}

/// In which order images come.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Random,
    Sorted,
    Bursts,
}

impl Order {
    const ALL: [Self; 3] = [Self::Random, Self::Sorted, Self::Bursts];

    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sorted => "sorted",
            Self::Bursts => "bursts",
        }
    }

    /// The same random images of `dataset` in this order.
    fn arrange(self, dataset: &Arc<dyn Dataset>, seed: u64) -> Outcome<Arc<dyn Dataset>> {
        let mut random = SplitMix64::new(seed ^ 0x5EED);
        let mut indices: Vec<usize> = (0..dataset.len()).collect();
        random.shuffle(&mut indices);
        indices.truncate(IMAGES);
        let mut keyed = Vec::new();
        for index in indices {
            let class = dataset.label(index)?.class().ok_or("an image without a class")?;
            keyed.push((class, index));
        }
        if self != Self::Random {
            keyed.sort_unstable();
        }
        if self == Self::Bursts {
            // Eight neighbours stay together.
            let mut bursts: Vec<Vec<(u32, usize)>> = keyed.chunks(8).map(<[_]>::to_vec).collect();
            random.shuffle(&mut bursts);
            keyed = bursts.concat();
        }
        let indices = keyed.into_iter().map(|(_, index)| index).collect();
        Ok(Arc::new(Subset::new(dataset.clone(), indices)?))
    }
}
