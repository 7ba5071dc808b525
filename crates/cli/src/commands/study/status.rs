//! `flipcast study status`.

use super::{KnownArgs, PlanArgs};
use crate::commands::places::check_there;
use crate::output::print;
use crate::progress::duration;
use crate::table::{grouped, render};
use anyhow::{Context, Result};
use flipcast_record::RunRecord;
use flipcast_study::{Missing, Row, Unit, find_missing, read_status};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the lists of cells that failed are called.
const FAILED: &str = "failed-";

/// Tell what is done, what is left and which data are missing.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,
    /// The folder of the records
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    known: KnownArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let loaded = args.plan.load()?;
    check_there(&args.out, "the folder that `flipcast study run --out` writes to")?;
    let plan = &loaded.plan;
    let asked = |unit: &&Unit| args.plan.asks_for(unit, plan);
    let units: Vec<Unit> = loaded.units.iter().filter(asked).cloned().collect();
    let (lacking, missing) = find_missing(plan, &units, &loaded.variables);
    let folder = args.known.open(&args.out, None)?;
    let records: Vec<RunRecord> = folder.iter().cloned().collect();
    let failed = read_failed(&args.out)?;
    let rows = read_status(plan, &units, &lacking, &failed, &records);
    if args.json {
        let rows: Vec<_> = rows.iter().map(row_json).collect();
        let missing: Vec<_> = missing.iter().map(missing_json).collect();
        let object = json!({"study": plan.study.name, "rows": rows, "missing": missing});
        return print(&(object.to_string() + "\n"));
    }
    print(&(table(&rows) + &missing_text(&missing)))
}

/// Where the cells are listed that a shard could not make.
pub fn failed_file(folder: &Path, shard: &str) -> PathBuf {
    folder.join(format!("{FAILED}{shard}.tsv"))
}

/// Keys of the cells that the last runs could not make.
fn read_failed(folder: &Path) -> Result<BTreeSet<String>> {
    let mut failed = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(failed);
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(FAILED) && name.ends_with(".tsv") {
            let cannot = || format!("cannot read `{}`", path.display());
            let text = std::fs::read_to_string(&path).with_context(cannot)?;
            let keys = text.lines().filter_map(|line| line.split('\t').next());
            failed.extend(keys.map(str::to_owned));
        }
    }
    Ok(failed)
}

fn table(rows: &[Row]) -> String {
    let time = |row: &Row| row.seconds.map(|seconds| seconds * row.left() as f64);
    let shown = |seconds: Option<f64>| match seconds.map(Duration::try_from_secs_f64) {
        Some(Ok(time)) => duration(time),
        _ => "-".to_owned(),
    };
    let mut lines: Vec<Vec<String>> = Vec::new();
    for row in rows {
        lines.push(vec![
            row.model.clone(),
            row.dataset.clone(),
            grouped(row.cells),
            grouped(row.done),
            grouped(row.left()),
            grouped(row.failed),
            grouped(row.waiting),
            shown(time(row)),
        ]);
    }
    let sum = |count: fn(&Row) -> usize| grouped(rows.iter().map(count).sum());
    let known = rows.iter().any(|row| row.seconds.is_some());
    let total: f64 = rows.iter().filter_map(time).sum();
    lines.push(vec![
        "all".to_owned(),
        String::new(),
        sum(|row| row.cells),
        sum(|row| row.done),
        sum(Row::left),
        sum(|row| row.failed),
        sum(|row| row.waiting),
        shown(known.then_some(total)),
    ]);
    let header = ["model", "dataset", ">cells", ">done", ">left", ">failed", ">no data", ">time left"];
    render(&header, &lines)
}

/// What is not there, and what to do about it.
pub fn missing_text(missing: &[Missing]) -> String {
    let mut text = String::new();
    for Missing { what, place, get, cells } in missing {
        text += &format!("missing: {what} ({} cells), looked for at {place}\n", grouped(*cells));
        if let Some(get) = get {
            text += &format!("  get it: {get}\n");
        }
    }
    text
}

fn row_json(row: &Row) -> serde_json::Value {
    json!({
        "model": row.model,
        "dataset": row.dataset,
        "cells": row.cells,
        "done": row.done,
        "left": row.left(),
        "failed": row.failed,
        "waiting": row.waiting,
        "seconds_per_cell": row.seconds,
    })
}

fn missing_json(missing: &Missing) -> serde_json::Value {
    json!({
        "what": missing.what,
        "place": missing.place,
        "get": missing.get,
        "cells": missing.cells,
    })
}
