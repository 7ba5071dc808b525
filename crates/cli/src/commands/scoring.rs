//! Arguments and progress that `calibrate`, `estimate` and `agree` share.

use super::DeviceArgs;
use super::inputs::{BadImages, OpenedData};
use super::numbers::parse_count;
use crate::failure::Advised;
use crate::progress::duration;
use crate::table::grouped;
use anyhow::{Context, Result, bail, ensure};
use flipcast_estimate::Marginal;
use flipcast_images::dataset::take_evenly;
use flipcast_images::loader::LoaderConfig;
use flipcast_models::Model;
use flipcast_record::RecordStore;
use flipcast_run::{CellRequest, FlipProtocol, Ledger, Scope, Watcher};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Exit code of a run that was interrupted.
const INTERRUPTED: i32 = 3;

/// How cells are made: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct ScoringArgs {
    /// Seed of corruptions, shuffles and adaptation
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Use at most this many images of a dataset, drawn by the seed from all over it; of a stream, the first
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<usize>,
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
    /// No progress on stderr
    #[arg(long)]
    pub quiet: bool,
}

impl ScoringArgs {
    /// Makes Ctrl-C end the program with a word on what is kept. A record is written in one piece, and a torn one is dropped
    /// when the file is opened again, so the program may end at any moment.
    pub fn end_on_interrupt(&self) -> Result<()> {
        let kept = match &self.record {
            Some(path) => {
                format!("finished cells are kept in `{}`; the same command goes on from there", path.display())
            }
            None => "nothing is kept; with `--record FILE` finished cells are".to_owned(),
        };
        ctrlc::set_handler(move || {
            eprintln!("\nerror: interrupted\n  hint: {kept}");
            std::process::exit(INTERRUPTED);
        })
        .context("cannot listen to Ctrl-C")
    }

    /// The cells kept so far.
    pub fn ledger(&self) -> Result<Ledger> {
        match &self.record {
            None => Ok(Ledger::default()),
            Some(path) => {
                let store = RecordStore::open(path);
                let cannot = || format!("cannot keep records in `{}`", path.display());
                Ok(Ledger::new(store.with_context(cannot)?))
            }
        }
    }

    /// What is asked of opened images, the limit applied.
    pub fn request<'a>(&self, data: &'a OpenedData, scope: &'a Scope) -> Result<CellRequest<'a>> {
        let mut request = self.request_all(data, scope);
        match self.limit {
            Some(limit) if data.dataset.is_stream() => {
                request.config.limit = Some(limit);
            }
            Some(limit) if limit < data.dataset.len() => {
                let mut spec = data.spec.clone();
                spec.path += &format!("#sample:{limit}:{}", self.seed);
                request.data = spec.to_string();
                let sample = take_evenly(data.dataset.clone(), limit, self.seed)?;
                request.dataset = Arc::new(sample);
            }
            _ => {}
        }
        Ok(request)
    }

    /// The same of all images.
    pub fn request_all<'a>(&self, data: &'a OpenedData, scope: &'a Scope) -> CellRequest<'a> {
        let config = data.loader_config();
        CellRequest {
            data: data.spec.to_string(),
            dataset: data.dataset.clone(),
            config: LoaderConfig {
                on_bad_image: self.on_bad_image.into(),
                threads: match self.threads {
                    0 => config.threads,
                    threads => threads,
                },
                ..config
            },
            preprocess: &data.preprocess,
            scope,
            seed: self.seed,
            memory_limit: self.memory << 20,
        }
    }

    /// A watcher that tells how far the cells are.
    pub fn watcher(&self) -> CellProgress {
        CellProgress::new(!self.quiet && std::io::stderr().is_terminal())
    }
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

/// Refuses to write where nothing can be written, before hours of work.
pub fn check_writable(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if folder.is_dir() && !path.is_dir() {
        return Ok(());
    }
    let problem = if path.is_dir() {
        format!("`{}` is a folder, expected the name of a file", path.display())
    } else {
        format!("the folder `{}` does not exist", folder.display())
    };
    Err(Advised { problem, hint: "give the path of a file in a folder that exists".to_owned() }.into())
}

/// One line on stderr: which cell, and how far it is.
pub struct CellProgress {
    shown: bool,
    started: Instant,
    last: Instant,
    cell: (String, usize, usize),
    width: usize,
}

impl CellProgress {
    /// Shown if stderr is a terminal.
    pub fn for_terminal() -> Self {
        Self::new(std::io::stderr().is_terminal())
    }

    fn new(shown: bool) -> Self {
        let now = Instant::now();
        Self { shown, started: now, last: now, cell: (String::new(), 0, 1), width: 0 }
    }

    /// Wipes the line, so that a result can be printed.
    pub fn clear(&mut self) {
        if self.width > 0 {
            eprint!("\r{:width$}\r", "", width = self.width);
            self.width = 0;
        }
    }

    fn tell(&mut self, doing: &str) {
        if !self.shown || self.last.elapsed() < Duration::from_millis(100) {
            return;
        }
        self.last = Instant::now();
        let (name, cell, total) = &self.cell;
        let mut text = format!("{} of {total}, {name}: {doing}", cell + 1);
        if *cell > 0 {
            let pace = self.started.elapsed().as_secs_f64() / *cell as f64;
            let left = Duration::from_secs_f64(pace * (total - cell) as f64);
            text += &format!(", about {} left", duration(left));
        }
        let width = text.chars().count();
        eprint!("\r{text:<pad$}", pad = self.width);
        let _ = std::io::stderr().flush();
        self.width = width;
    }
}

impl Watcher for CellProgress {
    fn cell(&mut self, name: &str, cell: usize, total: usize) {
        self.cell = (name.to_owned(), cell, total);
    }

    fn predicted(&mut self, images: usize, total: usize) {
        self.tell(&format!("{} of {} images", grouped(images), grouped(total)));
    }

    fn step(&mut self, step: usize, total: usize) {
        self.tell(&format!("step {} of {}", grouped(step), grouped(total)));
    }
}

impl Drop for CellProgress {
    fn drop(&mut self) {
        self.clear();
    }
}
