//! Estimates of both looks from signals that `production_study --signals` wrote: the fits are made again, and no network is needed.
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin refit_signals -- resnet26.cifar100-0.signals.jsonl ... > samples.csv
//! ```
//!
//! Behind `--without-batch-norms` stand files of networks without batch norms, whose second look is not what adapting begins from. Behind `--without-early-look` early looks are forgotten. A file is called `NETWORK-SEED.signals.jsonl`. One line of CSV for every sample of the test, with the columns of `production_study`.

use flipcast_lab::{KeptSample, KeptSignals, StudyLine};
use std::error::Error;
use std::io::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", StudyLine::HEADER)?;
    let (mut begins_from_second, mut early_look) = (true, true);
    for path in std::env::args().skip(1) {
        if path == "--without-batch-norms" {
            begins_from_second = false;
            continue;
        }
        if path == "--without-early-look" {
            early_look = false;
            continue;
        }
        let mut kept = KeptSignals::read(Path::new(&path))?;
        if !early_look {
            kept.lines.iter_mut().for_each(|line| line.sample.signals.early_cross = None);
        }
        let (source, adapted) = kept.fits(begins_from_second)?;
        for KeptSample { name, sample, .. } in kept.test() {
            let (shift, severity) = name.rsplit_once(':').ok_or("a shift without a severity")?;
            let second_accuracy = if begins_from_second { sample.second_accuracy } else { f64::NAN };
            let line = StudyLine {
                seed: kept.seed,
                shift,
                severity: severity.parse()?,
                shares: sample.shares.name(),
                order: "drawn",
                signals: &sample.signals,
                truths: [sample.accuracy, second_accuracy],
                bursts: false,
            };
            writeln!(out, "{}", line.text(&source, &adapted))?;
        }
    }
    Ok(())
}
