//! `--set ccc`: one stream of smoothly varying pairs, in shards.

use super::settings::Settings;
use super::{Args, clean_images, corruptor, end_on_interrupt, written_line};
use crate::commands::thread_count;
use crate::failure::Advised;
use crate::output::print;
use crate::table::grouped;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use flipcast_corrupt::ccc::{Difficulty, Speed, StreamPlan, load_tables};
use flipcast_corrupt::write::{ImageSource, WriteOptions, stream_folder, stream_images, write_shards};
use std::path::PathBuf;

/// The seed of the first published streams.
const FIRST_SEED: u64 = 43;

/// What only `ccc` has.
#[derive(clap::Args)]
pub struct StreamArgs {
    /// For `ccc`: JSON file with the accuracies the stream follows, {"flipcast_accuracy_tables": 1, "tables":
    /// {"gaussian_noise+shot_noise": [[21 x 21 numbers]], ...}}; row i, column j is the accuracy of a ResNet-50 in per
    /// cent with the first corruption at severity i / 4 and then the second at j / 4
    #[arg(long, value_name = "FILE")]
    accuracy_tables: Option<PathBuf>,
    /// For `ccc`: accuracy in per cent to stay close to: 40 is CCC-Easy, 20 -Medium, 0 -Hard; 40 if not given
    #[arg(long, value_enum)]
    baseline: Option<Baseline>,
    /// For `ccc`: images shown before a severity changes; 1000 if not given
    #[arg(long, value_enum)]
    speed: Option<ImagesPerCell>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Baseline {
    #[value(name = "40")]
    Easy,
    #[value(name = "20")]
    Medium,
    #[value(name = "0")]
    Hard,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImagesPerCell {
    #[value(name = "1000")]
    Fast,
    #[value(name = "2000")]
    Middle,
    #[value(name = "5000")]
    Slow,
}

impl StreamArgs {
    /// Refuses arguments of `ccc` with another set.
    pub fn refuse_any(&self) -> Result<()> {
        let given = [
            ("--accuracy-tables", self.accuracy_tables.is_some()),
            ("--baseline", self.baseline.is_some()),
            ("--speed", self.speed.is_some()),
        ];
        refuse(&given, "belongs to `--set ccc`, but another set is asked for")
    }
}

/// Refuses the first of `arguments` that was given.
fn refuse(arguments: &[(&str, bool)], because: &str) -> Result<()> {
    let first = arguments.iter().find(|(_, is_given)| *is_given);
    ensure!(first.is_none(), "{} {because}", first.map_or("", |(name, _)| name));
    Ok(())
}

/// Writes the stream that `args` ask for.
pub fn run(args: &Args) -> Result<()> {
    refuse(
        &[
            ("--corruption", !args.corruption.is_empty()),
            ("--severity", !args.severity.is_empty()),
            ("--layout", args.layout.is_some()),
            ("--resize-crop", args.resize_crop.is_some()),
        ],
        "is given, but `ccc` fixes it: pairs, severities, crops and shards follow from the stream",
    )?;
    let seed = args.seed.unwrap_or(FIRST_SEED);
    let threads = thread_count(args.threads)?;
    let Some(file) = &args.stream.accuracy_tables else {
        return Err(no_tables().into());
    };
    let tables = load_tables(file).with_context(|| format!("cannot use the accuracy tables `{}`", file.display()))?;
    let plan = StreamPlan {
        difficulty: match args.stream.baseline.unwrap_or(Baseline::Easy) {
            Baseline::Easy => Difficulty::Easy,
            Baseline::Medium => Difficulty::Medium,
            Baseline::Hard => Difficulty::Hard,
        },
        seed: u32::try_from(seed).with_context(|| format!("--seed is {seed}, but `ccc` takes 0 to {}", u32::MAX))?,
        speed: match args.stream.speed.unwrap_or(ImagesPerCell::Fast) {
            ImagesPerCell::Fast => Speed::Fast,
            ImagesPerCell::Middle => Speed::Middle,
            ImagesPerCell::Slow => Speed::Slow,
        },
        tables: &tables,
    };
    let (corruptor, frost) = corruptor(args, seed)?;
    let source = clean_images(args, None, None, seed)?;
    let folder = stream_folder(&args.out, &plan);
    let refused = || format!("cannot write to `{}`", folder.display());
    let total = stream_images(&source, &plan, args.limit).with_context(refused)?;
    let images = (source.len(), source.names_digest());
    let settings = Settings::new("ccc", "shards", images, "none".to_owned(), seed, frost);
    settings.claim(&folder).with_context(refused)?;
    end_on_interrupt(&folder)?;
    args.progress.note(&format!(
        "clean images: {}, stream: {}, images: {}",
        grouped(source.len()),
        plan.name(),
        grouped(total)
    ));
    if source.len() < plan.speed.images() {
        args.progress.note(&format!(
            "note: fewer clean images than the {} of a cell, so that every cell shows {}",
            plan.speed.images(),
            source.len()
        ));
    }
    let progress = args.progress.line("writing");
    let options = WriteOptions { threads, on_progress: &|now| progress.update(now.done, now.skipped, now.total) };
    let written = write_shards(&args.out, &source, &plan, args.limit, &corruptor, &options);
    let elapsed = progress.elapsed();
    drop(progress);
    print(&written_line(&folder, written.with_context(refused)?, elapsed))
}

fn no_tables() -> Advised {
    Advised {
        problem: "cannot write `ccc` without `--accuracy-tables FILE`: its severities follow the accuracies of a \
                  ResNet-50 on pairs of corruptions, and the tables of the authors are not part of this program"
            .to_owned(),
        hint: "measure your own: for every ordered pair FIRST+SECOND corrupt some labelled images with FIRST at severity \
               i / 4 and then SECOND at j / 4, i and j from 0 to 20, and put the accuracy in per cent into row i, column j \
               of a JSON file {\"flipcast_accuracy_tables\": 1, \"tables\": {\"FIRST+SECOND\": [[21 x 21 numbers]], ...}}; \
               a short stream needs only the pairs it goes through, and names the first that is missing"
            .to_owned(),
    }
}
