//! `flipcast study refit`.

use super::PlanArgs;
use super::run::refit_text;
use crate::commands::files::Files;
use crate::commands::places::check_there;
use crate::failure::Advised;
use crate::output::print;
use crate::table::grouped;
use anyhow::{Context, Result};
use flipcast_record::{RecordStore, Records, RunRecord};
use flipcast_run::Ledger;
use flipcast_study::{Unit, run_refits};
use std::path::PathBuf;

/// Fit curves again from cells that are there.
///
/// The cells of the plan are looked for in the record files, whichever machine and version made them; neither networks nor images are
/// needed. The plan's `[[refits]]` say what is fitted. The same command on the same records makes nothing twice.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,
    /// A file of records that hold cells; may be given several times
    #[arg(long, value_name = "FILE", required = true)]
    records: Vec<PathBuf>,
    /// The file the refits are kept in
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let loaded = args.plan.load()?;
    if loaded.plan.refits().len() == 0 {
        return Err(Advised {
            problem: format!("the plan of `{}` has no `[[refits]]`", loaded.plan.study.name),
            hint: "`flipcast study plan f_ablation` prints a plan that has some".to_owned(),
        }
        .into());
    }
    let mut records: Vec<RunRecord> = Vec::new();
    for path in &args.records {
        check_there(path, "a record file")?;
        records.extend(Records::load(path)?.iter().cloned());
    }
    Files::default().reads_records(&args.records).writes("--out", "refits.jsonl", Some(&args.out)).check()?;
    let asked = |unit: &&Unit| unit.analysis.is_none() && args.plan.asks_for(unit, &loaded.plan);
    let units: Vec<Unit> = loaded.units.iter().filter(asked).cloned().collect();
    let cannot = || format!("cannot keep records in `{}`", args.out.display());
    let store = RecordStore::open(&args.out).with_context(cannot)?;
    let outcome = run_refits(&loaded.plan, &units, &records, &mut Ledger::new(store))?;
    let (found, asked) = (grouped(outcome.cells), grouped(units.len()));
    print(&format!("{found} of the plan's {asked} cells found\n{}", refit_text(&outcome)))
}
