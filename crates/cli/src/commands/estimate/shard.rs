//! `flipcast estimate --shard`: what is seen of one shard of the images.

use super::{Args, check_calibration, check_protocol, note_sizing};
use crate::commands::files::Files;
use crate::commands::inputs::{DataArgs, ModelArgs};
use crate::commands::numbers::parse_count;
use crate::commands::thread_count;
use crate::interrupt::end_on_signal;
use crate::table::{counted, grouped};
use anyhow::{Context, Result};
use flipcast_ground::Shard;
use flipcast_run::{Calibration, DEFAULT_SAMPLE, Part, PartPlan, Setting};
use serde_json::json;
use std::path::{Path, PathBuf};

/// One shard of the images: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct ShardArgs {
    /// Look at shard I of N of the images, drawn by their names, and write what was seen to --part; `flipcast estimate merge`
    /// joins the parts of all shards. The first shard also adapts
    #[arg(long, value_name = "I/N", requires = "part", conflicts_with_all = ["logits", "record", "marginal", "level", "all", "labelled", "use_labels", "ask", "ask_out", "by_class", "logits_out"])]
    shard: Option<Shard>,
    /// Where --shard writes what was seen; the file appears whole or not at all
    #[arg(long, value_name = "FILE", requires = "shard")]
    part: Option<PathBuf>,
    /// Images of all shards together whose outputs are kept, drawn by their names; estimates are made from them [default: 20000]
    #[arg(long, value_name = "N", requires = "shard", value_parser = parse_count)]
    sample: Option<usize>,
}

/// What was asked for.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    plan: PartPlan,
    part: &'a Path,
}

impl ShardArgs {
    /// `files` with that of the part.
    pub fn add_to<'a>(&'a self, files: Files<'a>) -> Files<'a> {
        files.writes("--part", "part", self.part.as_deref())
    }

    pub fn asked(&self) -> Option<Asked<'_>> {
        let (shard, part) = (self.shard?, self.part.as_deref()?);
        Some(Asked { plan: PartPlan { shard, sample: self.sample.unwrap_or(DEFAULT_SAMPLE) }, part })
    }
}

/// Looks at a shard and writes its part.
pub fn run(args: &Args, artefact: &Path, model: &ModelArgs, data: &DataArgs, asked: Asked) -> Result<()> {
    let device = args.scoring.device.device(thread_count(args.scoring.threads)?)?;
    end_on_signal(format!(
        "nothing of the shard is kept: `{}` is written once all of it was seen; more and smaller shards lose less",
        asked.part.display()
    ))?;
    check_calibration(artefact)?;
    let calibration = Calibration::load(artefact)?;
    check_protocol(args.protocol.as_deref(), &calibration.protocol)?;
    let spec = data.only()?;
    let model = model.open(&args.preprocess, &args.scoring.progress)?;
    let opened = data.open(spec, &model, args.scoring.seed, &args.scoring.progress)?;
    calibration.check_fits(&model, &opened.preprocess, &opened.scope)?;
    note_sizing(&calibration, &model, (spec, &opened.preprocess), |note| args.scoring.progress.note(note));
    let setting = Setting { model: &model, protocol: &calibration.protocol, device };
    let mut watcher = args.scoring.watcher("estimate");
    let shard = asked.plan.shard;
    let part = setting
        .make_part(&calibration, &args.scoring.request(&opened), asked.plan, &mut watcher)
        .with_context(|| format!("cannot look at shard {shard} of `{spec}`"))?;
    part.save(asked.part)?;
    watcher.print(&match args.shown.json {
        true => to_json(spec, &part, asked.part).to_string() + "\n",
        false => to_text(spec, &part, asked.part),
    })
}

fn to_json(spec: &str, part: &Part, path: &Path) -> serde_json::Value {
    json!({
        "data": spec,
        "shard": part.shard().to_string(),
        "part": path.display().to_string(),
        "images": part.sums().images,
        "skipped": part.skipped(),
        "sampled": part.sampled(),
        "seconds": part.seconds(),
    })
}

fn to_text(spec: &str, part: &Part, path: &Path) -> String {
    let unreadable = match part.skipped() as usize {
        0 => String::new(),
        skipped => format!(", {} unreadable", grouped(skipped)),
    };
    let images = counted(part.sums().images as usize, "image");
    let sampled = grouped(part.sampled());
    format!("{spec}: shard {}, {images}{unreadable}, outputs of {sampled} in `{}`\n", part.shard(), path.display())
}
