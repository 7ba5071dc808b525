//! How estimates do on data like production's: other class shares, fewer images, corruptions no calibration saw.
//!
//! A random half of labelled images calibrates; the other half, clean and corrupted, is sampled with seven kinds of class shares and six
//! sizes. At one severity, 1,000 random images are also looked at in three orders, by the same calls as `flipcast estimate`. One line of CSV
//! for every sample, on standard output:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin production_study -- \
//!     --weights resnet26.cifar100.safetensors --data cifar100_test.tar --bar cifar-c-bar --seed 0 > samples.csv
//! ```
//!
//! `--device cuda` uses the first GPU (`tf32`), `--architecture` names the network where the file does not.

use flipcast::corrupt::CorruptionSet;
use flipcast::corrupt::registry::names;
use flipcast::estimate::{ClassShares, Estimate, Signals, comes_in_bursts};
use flipcast::images::dataset::Subset;
use flipcast::run::{HELD_OUT, corrupted};
use flipcast::{CalibrationJob, CellRequest, Dataset, FlipProtocol, Ledger, Setting, Unwatched, calibrate};
use flipcast_ground::SplitMix64;
use flipcast_lab::StudyArguments;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;

const SIZES: [usize; 6] = [50, 100, 200, 300, 1000, usize::MAX];
const SEVERITIES: [u8; 3] = [1, 3, 5];
/// At this severity orders are looked at.
const ORDER_SEVERITY: u8 = 3;
const LEVEL: f64 = 0.9;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let StudyArguments { model, opened, bar, seed, device } = StudyArguments::open(&arguments)?;
    let mut order: Vec<usize> = (0..opened.dataset.len()).collect();
    SplitMix64::new(seed).shuffle(&mut order);
    let half = |indices: &[usize]| -> Result<Arc<dyn Dataset>, Box<dyn Error>> {
        let mut indices = indices.to_vec();
        indices.sort_unstable();
        Ok(Arc::new(Subset::new(opened.dataset.clone(), indices)?))
    };
    let (first, second) = order.split_at(order.len() / 2);

    // Flips are not part of what is studied, so that nothing adapts.
    let name = if model.graph().has_batch_norm() { "statistics" } else { "flipcast" };
    let protocol = FlipProtocol { seed, ..FlipProtocol::for_network(name, model.graph())? };
    let setting = || Setting { model: &model, protocol: &protocol, device };
    let memory_limit = 8 << 30;
    let clean = CellRequest { dataset: half(first)?, memory_limit, ..opened.request() };
    let job = CalibrationJob::new(setting(), clean);
    let calibration = calibrate(&job, &mut Ledger::default(), &mut Unwatched)?;
    let fit = calibration.accuracy.as_ref().ok_or("too few images to calibrate with")?;
    eprintln!("calibrated, {:?} off on samples of unseen kinds", fit.errors().mae(0));

    let mut shifts = vec![("clean".to_owned(), 0, None)];
    for (set, prefix) in [(CorruptionSet::ImageNetC, String::new()), (bar, format!("{bar}/"))] {
        for name in names(set).into_iter().filter(|name| !HELD_OUT.contains(name)) {
            let at = |severity: u8| {
                let shift = format!("{prefix}{name}");
                let spec = format!("{shift}:{severity}");
                (shift, severity, Some(spec))
            };
            shifts.extend(SEVERITIES.map(at));
        }
    }
    let plan: Vec<(ClassShares, usize)> =
        ClassShares::ALL.into_iter().flat_map(|shares| SIZES.map(|size| (shares, size))).collect();
    let test = CellRequest { dataset: half(second)?, memory_limit, ..opened.request() };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "seed,shift,severity,shares,order,images,truth,estimate,low,high,any_shares,usual_shares,transport,bursts,flags"
    )?;
    for (shift, severity, spec) in shifts {
        let shifted = |dataset: Arc<dyn Dataset>| -> Result<CellRequest, Box<dyn Error>> {
            let request = CellRequest { dataset, config: test.config.clone(), data: shift.clone(), ..test };
            Ok(match &spec {
                Some(spec) => corrupted(&request, spec)?,
                None => request,
            })
        };
        let mut write =
            |shares: &str, order: &str, signals: &Signals, truth: f64, estimate: &Estimate, bursts: bool| {
                let opinions = fit.opinions(signals);
                let numbers = [
                    truth,
                    estimate.accuracy,
                    estimate.low,
                    estimate.high,
                    opinions.any_shares,
                    opinions.usual_shares,
                    signals.transport,
                ];
                let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.5}")).collect();
                let flags: Vec<&str> = estimate.flags.iter().map(|flag| flag.name()).collect();
                let images = signals.images;
                let (numbers, bursts, flags) = (numbers.join(","), u8::from(bursts), flags.join(" "));
                writeln!(out, "{seed},{shift},{severity},{shares},{order},{images},{numbers},{bursts},{flags}")
            };
        let request = shifted(test.dataset.clone())?;
        for sample in setting().samples(&request, &calibration.basis, &plan, &mut Unwatched)? {
            let estimate = fit.estimate(&sample.signals, LEVEL);
            write(sample.shares.name(), "drawn", &sample.signals, sample.accuracy, &estimate, false)?;
        }
        if severity == 0 || severity == ORDER_SEVERITY {
            for order in Order::ALL {
                let images = order.arrange(&test.dataset, seed)?;
                let request = shifted(images)?;
                let seen = setting().observe(&request, &mut Unwatched)?;
                let bursts = comes_in_bursts(&seen.source.outputs.classes_predicted(), model.num_classes())?;
                let cell =
                    setting().cell("estimate", &request, &calibration.basis, &mut Ledger::default(), &mut Unwatched)?;
                let (Some(signals), Some(truth)) = (cell.signals, cell.accuracy) else {
                    return Err("a cell without signals or labels".into());
                };
                let estimates = calibration.estimate(&cell, LEVEL).source;
                write("sample", order.name(), &signals, truth, &estimates["combined"], bursts)?;
            }
        }
        eprintln!("{shift}:{severity}");
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

    /// The same 1,000 random images of `dataset` in this order.
    fn arrange(self, dataset: &Arc<dyn Dataset>, seed: u64) -> Result<Arc<dyn Dataset>, Box<dyn Error>> {
        let mut random = SplitMix64::new(seed ^ 0x5EED);
        let mut indices: Vec<usize> = (0..dataset.len()).collect();
        random.shuffle(&mut indices);
        indices.truncate(1000);
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
