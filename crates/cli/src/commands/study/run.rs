//! `flipcast study run`.

use super::progress::StudyProgress;
use super::status::{failed_file, missing_text};
use super::{KnownArgs, Loaded, PlanArgs};
use crate::commands::inputs::BadImages;
use crate::commands::{DeviceArgs, thread_count};
use crate::failure::{Environment, Fired};
use crate::interrupt::end_on_signal;
use crate::output::print;
use crate::progress::ProgressArgs;
use crate::table::grouped;
use anyhow::{Context, Result};
use flipcast_record::{RecordError, RecordFolder, RecordStore, write_atomically};
use flipcast_run::Ledger;
use flipcast_study::{
    Failure, Outcome, RefitOutcome, Shard, StudyJob, Unit, find_missing, read_status, run_refits, run_study,
    shard_units,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most cells at once.
const MAX_JOBS: usize = 256;
/// Most cells that failed which the error names.
const MAX_NAMED: usize = 20;

/// Make the cells of a plan that are missing in a folder of records.
///
/// Every cell is kept as soon as it is known, in FOLDER/records-I-of-N.jsonl. Ended or killed at any moment and started again, the same
/// command goes on where it was. Shards may run at the same time, on one machine or on several that share the folder.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,
    /// The folder of the records
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    known: KnownArgs,
    /// Run part I of N; cells of one model stay together
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: String,
    /// Cells at once, on every device
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Threads of one cell; 0 means that all cells together use every core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// Memory for preprocessed images of all cells in MiB; larger datasets are read anew in every pass
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: usize,
    /// What to do about images that cannot be read
    #[arg(long, value_enum, default_value = "fail")]
    on_bad_image: BadImages,
    /// List the cells and run none
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    progress: ProgressArgs,
}

impl Args {
    /// Cells at once.
    pub fn jobs(&self) -> usize {
        self.jobs.max(1)
    }

    /// Threads of one cell; 0 where they were not given.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let shard: Shard = args.shard.parse()?;
    anyhow::ensure!((1..=MAX_JOBS).contains(&args.jobs), "--jobs is {}, but 1 to {MAX_JOBS} are allowed", args.jobs);
    let threads = match args.threads {
        0 => (thread_count(0)? / args.jobs).max(1),
        threads => thread_count(threads)?,
    };
    let devices = args.device.devices(threads)?;
    // The first cells go to different devices.
    let workers = devices.repeat(args.jobs);
    let loaded = args.plan.load()?;
    let asked = |unit: &&Unit| args.plan.asks_for(unit, &loaded.plan);
    let units: Vec<Unit> = shard_units(shard, &loaded.units).into_iter().filter(asked).cloned().collect();
    if args.dry_run {
        return list(&loaded, &units);
    }
    let cannot = || format!("cannot make the folder `{}`", args.out.display());
    std::fs::create_dir_all(&args.out).with_context(cannot)?;
    let path = args.out.join(RecordFolder::file_name(&shard.file_part()));
    let store = open_store(&path, shard)?;
    let kept = path.display();
    end_on_signal(format!("finished cells are kept in `{kept}`; the same command goes on from there"))?;
    let others = args.known.open(&args.out, Some(&path))?;
    let mut ledger = Ledger::new(store).beside(others);
    let job = StudyJob {
        plan: &loaded.plan,
        variables: &loaded.variables,
        units: &units,
        shard,
        limit: args.plan.limit,
        workers: &workers,
        memory_limit: args.memory << 20,
        on_bad_image: args.on_bad_image.into(),
        // All workers together read images with as many threads as one would.
        threads: (threads / devices.len()).max(1),
    };
    let progress = StudyProgress::new(args.progress.line(&loaded.plan.study.name));
    let outcome = run_study(&job, &ledger, &progress)?;
    drop(progress);
    keep_failures(&failed_file(&args.out, &shard.file_part()), &outcome.failed)?;
    let refits = refit(&loaded, &mut ledger)?;
    print(&summary(&outcome, &path, &refits))?;
    conclude(&outcome)
}

/// The shard's records, unless another run writes them.
fn open_store(path: &Path, shard: Shard) -> Result<RecordStore> {
    match RecordStore::open(path) {
        Ok(store) => Ok(store),
        Err(RecordError::InUse { .. }) => Err(Environment(format!(
            "another run is at work on shard {shard} in `{}`; wait for it, or run another shard",
            path.display()
        ))
        .into()),
        Err(error) => {
            let cannot = || format!("cannot keep records in `{}`", path.display());
            Err(error).with_context(cannot)
        }
    }
}

/// The cells of this part, one per line, and what is missing.
fn list(loaded: &Loaded, units: &[Unit]) -> Result<()> {
    let (lacking, missing) = find_missing(&loaded.plan, units, &loaded.variables);
    let mut text = String::new();
    for (unit, lacks) in units.iter().zip(&lacking) {
        let state = if *lacks { "no data" } else { "ready  " };
        text += &format!("{}  {state}  {}\n", unit.key, unit.title(&loaded.plan));
    }
    let ready = lacking.iter().filter(|lacks| !**lacks).count();
    text += &format!(
        "{} cells, {} ready, {} without data\n",
        grouped(units.len()),
        grouped(ready),
        grouped(units.len() - ready)
    );
    print(&(text + &missing_text(&missing)))
}

/// Writes which cells failed beside the records, for `study status`; the file goes when none did.
fn keep_failures(path: &Path, failed: &[Failure]) -> Result<()> {
    if failed.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
            }
            _ => Ok(()),
        };
    }
    let line = |f: &Failure| format!("{}\t{}\t{}\n", f.unit, f.title, f.problem.replace('\n', " "));
    let text: String = failed.iter().map(line).collect();
    Ok(write_atomically(path, text.as_bytes())?)
}

/// Fits again what the plan asks for, once every cell that can be made is there; tells what became of it.
fn refit(loaded: &Loaded, ledger: &mut Ledger) -> Result<String> {
    let Loaded { plan, variables, units } = loaded;
    if plan.refits().len() == 0 {
        return Ok(String::new());
    }
    ledger.refresh()?;
    // Refits rest on estimates alone, so they do not wait for analyses.
    let estimates = units.iter().filter(|unit| unit.analysis.is_none());
    let units: Vec<Unit> = estimates.cloned().collect();
    let (lacking, _) = find_missing(plan, &units, variables);
    let records = ledger.records();
    let rows = read_status(plan, &units, &lacking, &BTreeSet::new(), &records);
    let left: usize = rows.iter().map(|row| row.left()).sum();
    if left > 0 {
        return Ok(format!("refits wait for {} cells\n", grouped(left)));
    }
    Ok(refit_text(&run_refits(plan, &units, &records, ledger)?))
}

/// What became of refits.
pub(super) fn refit_text(outcome: &RefitOutcome) -> String {
    let mut text = format!("{} refits made, {} were there\n", grouped(outcome.made), grouped(outcome.found));
    for problem in &outcome.skipped {
        text += &format!("  no refit of {problem}\n");
    }
    text
}

fn summary(outcome: &Outcome, path: &Path, refits: &str) -> String {
    format!(
        "{} cells made, {} were there, {} wait for data, {} failed\n{refits}records in {}\n{}",
        grouped(outcome.made),
        grouped(outcome.found),
        grouped(outcome.waiting),
        grouped(outcome.failed.len()),
        path.display(),
        missing_text(&outcome.missing)
    )
}

fn conclude(outcome: &Outcome) -> Result<()> {
    if !outcome.failed.is_empty() {
        let mut text = format!("{} cells failed", grouped(outcome.failed.len()));
        for failure in outcome.failed.iter().take(MAX_NAMED) {
            text += &format!("\n  {}: {}", failure.title, failure.problem);
        }
        if outcome.failed.len() > MAX_NAMED {
            text += &format!("\n  and {} more", outcome.failed.len() - MAX_NAMED);
        }
        return Err(Fired(text).into());
    }
    if outcome.made + outcome.found == 0 && outcome.waiting > 0 {
        return Err(Environment("no cell could be made: all of them wait for data".into()).into());
    }
    Ok(())
}
