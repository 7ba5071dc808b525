//! Arguments and progress that `calibrate`, `estimate` and `agree` share.

use super::DeviceArgs;
use super::inputs::BadImages;
use crate::failure::Advised;
use crate::interrupt::end_on_signal;
use crate::output::print;
use crate::progress::{ProgressArgs, ProgressLine};
use crate::table::grouped;
use anyhow::{Context, Result, bail, ensure};
use flipcast_estimate::Marginal;
use flipcast_models::Model;
use flipcast_record::RecordStore;
use flipcast_run::open::OpenedData;
use flipcast_run::{CellRequest, FlipProtocol, Ledger, Watcher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How cells are made: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct ScoringArgs {
    /// Seed of corruptions, shuffles and adaptation
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// What to do about images that cannot be read
    #[arg(long, value_enum, default_value = "fail")]
    pub on_bad_image: BadImages,
    /// Keep every finished cell in this file (JSON Lines), and take from it what is already there
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Threads; 0 means one per core
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Memory for preprocessed images in MiB; larger datasets are read anew in every pass
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    pub memory: usize,
    #[command(flatten)]
    pub progress: ProgressArgs,
}

impl ScoringArgs {
    /// Makes Ctrl-C end the program with a word on what is kept.
    pub fn end_on_interrupt(&self) -> Result<()> {
        let kept = match &self.record {
            Some(path) => {
                format!("finished cells are kept in `{}`; the same command goes on from there", path.display())
            }
            None => "nothing is kept; with `--record FILE` finished cells are".to_owned(),
        };
        end_on_signal(kept)
    }

    /// The cells kept so far.
    pub fn ledger(&self) -> Result<Ledger> {
        open_ledger(self.record.as_deref())
    }

    /// What is asked of opened images.
    pub fn request<'a>(&self, data: &'a OpenedData) -> CellRequest<'a> {
        let mut request = data.request();
        request.config.on_bad_image = self.on_bad_image.into();
        if self.threads > 0 {
            request.config.threads = self.threads;
        }
        CellRequest { memory_limit: self.memory << 20, ..request }
    }

    /// A watcher that tells how far the cells are; `what` stands in front.
    pub fn watcher(&self, what: &str) -> CellProgress {
        CellProgress::new(self.progress.line(what))
    }
}

/// What is kept in `record`, if anything is to be kept.
pub fn open_ledger(record: Option<&Path>) -> Result<Ledger> {
    let Some(path) = record else {
        return Ok(Ledger::default());
    };
    let store = RecordStore::open(path).with_context(|| format!("cannot keep records in `{}`", path.display()))?;
    Ok(Ledger::new(store))
}

/// The flip protocol called `name` as it applies to `model`, with the settings of the command line in place of its own.
pub fn flip_protocol(name: &str, model: &Model, seed: u64) -> Result<FlipProtocol> {
    let mut protocol = FlipProtocol::for_network(name, model.graph())
        .with_context(|| format!("cannot count flips of `{}` with `{name}`", model.name()))?;
    protocol.seed = seed;
    protocol.check()?;
    Ok(protocol)
}

/// The class shares asked for: `uniform`, `em`, `bbse`, the numbers of the classes that occur, `subset:3,17,42`, or a weight for
/// each of the `classes`, `given:5,1,1`.
pub fn parse_marginal(text: &str, classes: usize) -> Result<Marginal> {
    let refused = || Advised {
        problem: format!(
            "--marginal is `{text}`, expected `uniform`, `em`, `bbse`, `subset:` and class numbers or `given:` and weights"
        ),
        hint: "list the classes that can occur, counted from 0: `--marginal subset:3,17,42`".to_owned(),
    };
    Ok(match text.split_once(':') {
        None if text == "uniform" => Marginal::Uniform,
        None if text == "em" => Marginal::Em,
        None if text == "bbse" => Marginal::Bbse,
        Some(("subset", numbers)) => {
            let numbers = numbers.split(',').map(|class| class.trim().parse());
            let subset: Vec<usize> = numbers.collect::<Result<_, _>>().map_err(|_| refused())?;
            if let Some(class) = subset.iter().find(|&&class| class >= classes) {
                bail!("--marginal names class {class}, expected 0 to {}", classes - 1);
            }
            Marginal::Subset(subset)
        }
        Some(("given", weights)) => {
            let weights = weights.split(',').map(|weight| weight.trim().parse());
            let weights: Vec<f64> = weights.collect::<Result<_, _>>().map_err(|_| refused())?;
            ensure!(
                weights.len() == classes,
                "--marginal gives {} weights, expected one for each of the {classes} classes",
                weights.len()
            );
            Marginal::Given(weights)
        }
        _ => return Err(refused().into()),
    })
}

/// Refuses a probability outside of 0 and 1.
pub fn check_level(level: f64) -> Result<()> {
    ensure!(level > 0.0 && level < 1.0, "--level is {level}, expected more than 0 and less than 1");
    Ok(())
}

/// Which cell, and how far it is. Clones share the line they write to.
#[derive(Clone)]
pub struct CellProgress {
    line: Arc<ProgressLine>,
    cell: (String, usize, usize),
    /// Whether the cell takes work; one that was kept does not.
    works: bool,
    /// Cells before it that took none.
    known: usize,
}

impl CellProgress {
    pub fn new(line: ProgressLine) -> Self {
        Self { line: Arc::new(line), cell: (String::new(), 0, 1), works: false, known: 0 }
    }

    /// Prints a result while the line is out of the way.
    pub fn print(&self, text: &str) -> Result<()> {
        self.line.suspend(|| print(text))
    }

    fn tell(&mut self, done: usize, total: usize, what: &str) {
        self.works = true;
        let (name, cell, cells) = &self.cell;
        self.line.show(|| {
            let left = self.line.left(*cell, self.known, *cells);
            format!("{} of {cells}, {name}: {} of {} {what}{left}", cell + 1, grouped(done), grouped(total))
        });
    }
}

impl Watcher for CellProgress {
    fn cell(&mut self, name: &str, cell: usize, total: usize) {
        self.known += usize::from(cell > 0 && !self.works);
        self.works = false;
        self.cell = (name.to_owned(), cell, total);
    }

    fn predicted(&mut self, images: usize, total: usize) {
        self.tell(images, total, "images");
    }

    fn step(&mut self, step: usize, total: usize) {
        self.tell(step, total, "steps");
    }
}
