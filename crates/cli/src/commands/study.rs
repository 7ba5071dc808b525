//! `flipcast study`: a plan of many cells, run in parts, resumed at will.

mod merge;
mod plans;
mod progress;
mod refit;
mod run;
mod status;
mod submit;

use super::numbers::parse_count;
use super::places::check_there;
use crate::failure::Advised;
use crate::table::counted;
use anyhow::{Context, Result};
use clap::Subcommand;
use flipcast_ground::nearest_quoted;
use flipcast_record::RecordFolder;
use flipcast_study::{ExpandOptions, Plan, Unit, Variables, expand};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Far more than a plan needs.
const MAX_PLAN_BYTES: u64 = 4 << 20;

/// Run a plan of many cells, in parts and resumed at will.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Make the cells of a plan that are missing in a folder of records
    Run(run::Args),
    /// Hand a plan to an engine that runs its shards: Slurm, Ray, Kubernetes, or processes of this machine
    Submit(submit::Args),
    /// Tell what is done, what is left and which data are missing
    Status(status::Args),
    /// Join the records of several shards or machines into one file
    Merge(merge::Args),
    /// Fit curves again from cells that are there, without networks and images
    Refit(refit::Args),
    /// List the plans that come with the program
    Plans,
    /// Print a plan that comes with the program, to start from
    Plan {
        /// Its name
        name: String,
    },
}

/// Which plan, and what of it: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct PlanArgs {
    /// A plan, or the name of one that comes with the program (`flipcast study plans`)
    plan: String,
    /// Give a variable of the plan's paths a value; the environment is looked at otherwise
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_set)]
    set: Vec<(String, String)>,
    /// This seed in place of the plan's
    #[arg(long)]
    seed: Option<u64>,
    /// Use at most this many images of a dataset, drawn by the seed from all over it; of a stream, the first
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<usize>,
    /// Only cells whose model, protocol and data hold this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Records besides those of the study's folder: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct KnownArgs {
    /// A file of records made elsewhere, whose cells are not made again; may be given several times
    #[arg(long, value_name = "FILE")]
    records: Vec<PathBuf>,
}

impl KnownArgs {
    /// The record files of `folder` but `own`, and these.
    fn open(&self, folder: &Path, own: Option<&Path>) -> Result<RecordFolder> {
        let mut known = RecordFolder::open(folder, own)?;
        for path in &self.records {
            check_there(path, "a record file")?;
            known = known.with_file(path)?;
        }
        Ok(known)
    }
}

/// A plan with everything that was asked about it.
struct Loaded {
    plan: Plan,
    variables: Variables,
    /// Every cell.
    units: Vec<Unit>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Run(args) => run::run(args),
        Action::Submit(args) => submit::run(args),
        Action::Status(args) => status::run(args),
        Action::Merge(args) => merge::run(args),
        Action::Refit(args) => refit::run(args),
        Action::Plans => plans::list(),
        Action::Plan { name } => plans::print_plan(name),
    }
}

impl PlanArgs {
    /// These arguments as words of a command line.
    fn words(&self) -> Vec<String> {
        let mut words = vec![self.plan.clone()];
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        for (name, path) in &self.set {
            add("--set", format!("{name}={path}"));
        }
        if let Some(seed) = self.seed {
            add("--seed", seed.to_string());
        }
        if let Some(limit) = self.limit {
            add("--limit", limit.to_string());
        }
        if let Some(only) = &self.only {
            add("--only", only.clone());
        }
        words
    }

    fn load(&self) -> Result<Loaded> {
        let text = self.text()?;
        let cannot = || format!("cannot use the plan `{}`", self.plan);
        let plan = Plan::parse(&text).with_context(cannot)?;
        let options = ExpandOptions { seed: self.seed, limit: self.limit };
        let units = expand(&plan, &options).with_context(cannot)?;
        self.check_variables(&plan)?;
        self.check_only(&plan, &units)?;
        let variables = Variables::new(&plan, &self.set);
        Ok(Loaded { plan, variables, units })
    }

    /// Refuses a variable that the plan does not have.
    fn check_variables(&self, plan: &Plan) -> Result<()> {
        let known = Variables::names(plan);
        match self.set.iter().find(|(name, _)| !known.contains(name.as_str())) {
            None => Ok(()),
            Some((name, _)) => Err(Advised {
                problem: format!("--set names `{name}`, but the plan `{}` has no such variable", self.plan),
                hint: format!("names like it are {}", nearest_quoted(name, known)),
            }
            .into()),
        }
    }

    /// Refuses a text that no cell of the whole plan holds; a shard may well have none of those that do.
    fn check_only(&self, plan: &Plan, units: &[Unit]) -> Result<()> {
        let (Some(text), Some(first)) = (&self.only, units.first()) else {
            return Ok(());
        };
        if units.iter().any(|unit| self.asks_for(unit, plan)) {
            return Ok(());
        }
        Err(Advised {
            problem: format!("--only is `{text}`, but none of the plan's {} holds that", counted(units.len(), "cell")),
            hint: format!("cells are called such as `{}`; `study run --dry-run` lists them", first.title(plan)),
        }
        .into())
    }

    fn text(&self) -> Result<String> {
        let path = Path::new(&self.plan);
        if !path.exists() {
            if let Some(plan) = plans::find(&self.plan) {
                return Ok(plan.text.to_owned());
            }
            return Err(Advised {
                problem: format!(
                    "`{}` is neither a file nor the name of a plan that comes with the program",
                    self.plan
                ),
                hint: "`flipcast study plans` lists those; `flipcast study plan NAME` prints one".to_owned(),
            }
            .into());
        }
        let cannot = || format!("cannot read the plan `{}`", self.plan);
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(cannot)?;
        file.take(MAX_PLAN_BYTES).read_to_string(&mut text).with_context(cannot)?;
        Ok(text)
    }

    /// Whether the unit is asked for.
    fn asks_for(&self, unit: &Unit, plan: &Plan) -> bool {
        let text = self.only.as_deref().unwrap_or_default();
        unit.title(plan).contains(text)
    }
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err(format!("`{text}` was given, expected NAME=PATH")),
    }
}
