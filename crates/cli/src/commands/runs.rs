use crate::failure::Advised;
use crate::output::print;
use crate::progress::duration;
use crate::table::render;
use anyhow::Result;
use clap::Subcommand;
use flipcast_record::{Difference, Protocol, Records, RunRecord, diff};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod date;

use date::utc;

/// Digits of a hash that tell networks apart.
const HASH_SHOWN: usize = 8;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// One line per run, oldest first
    List {
        /// A record file
        file: PathBuf,
        /// Only runs of this kind, such as `adapt`
        #[arg(long)]
        kind: Option<String>,
        /// Print the records as they are stored
        #[arg(long)]
        json: bool,
    },
    /// Everything about one run
    Show {
        /// A record file
        file: PathBuf,
        /// The run's key, or as much of its start as only this run has
        key: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// In which settings, and in which results, two runs differ
    Diff {
        /// A record file
        file: PathBuf,
        /// The key of one run
        left: String,
        /// The key of the other
        right: String,
        /// The record file of the other, if it is another one
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::List { file, kind, json } => list(file, kind.as_deref(), *json),
        Action::Show { file, key, json } => show(file, key, *json),
        Action::Diff { file, left, right, with, json } => {
            let (one, other) = (file, with.as_ref().unwrap_or(file));
            compare((one, left), (other, right), *json)
        }
    }
}

fn list(file: &Path, kind: Option<&str>, json: bool) -> Result<()> {
    let records = Records::load(file)?;
    let wanted = |record: &&RunRecord| kind.is_none_or(|kind| record.kind == kind);
    let shown: Vec<&RunRecord> = records.iter().filter(wanted).collect();
    if json {
        let mut text = String::new();
        for record in shown {
            text += &serde_json::to_string(record)?;
            text.push('\n');
        }
        return print(&text);
    }
    let names = names_by_weights(&records);
    let rows: Vec<Vec<String>> = shown.into_iter().map(|record| row(record, &names)).collect();
    let header = ["key", "kind", "model", "method", "data", ">images", ">accuracy", "created (UTC)", ">time"];
    print(&render(&header, &rows))
}

/// What models are called, by the hash of their weights.
fn names_by_weights(records: &Records) -> BTreeMap<&str, &str> {
    let models = records.iter().filter_map(|record| record.protocol.get("model"));
    models.filter_map(|model| Some((model.get("weights_sha256")?.as_str()?, model.get("name")?.as_str()?))).collect()
}

/// What the model of a run is called. Runs that adapt know the architecture and the weights alone: networks of one architecture are told apart by the name that
/// other runs of the file give these weights, or else by the start of their hash.
fn model_name(model: &Value, names: &BTreeMap<&str, &str>) -> Option<String> {
    let text = |field: &str| model.get(field).and_then(Value::as_str);
    if let Some(name) = text("name") {
        return Some(name.to_owned());
    }
    let (architecture, weights) = (text("architecture")?, text("weights").unwrap_or_default());
    let start = weights.get(..HASH_SHOWN).filter(|_| weights.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Some(match (names.get(weights), start) {
        (Some(name), _) => (*name).to_owned(),
        (None, Some(start)) => format!("{architecture} {start}"),
        (None, None) => architecture.to_owned(),
    })
}

fn row(record: &RunRecord, names: &BTreeMap<&str, &str>) -> Vec<String> {
    let setting = |path: &[&str]| {
        let first = record.protocol.get(path[0])?;
        path[1..].iter().try_fold(first, |value, name| value.get(name))
    };
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let accuracy = record.result.get("accuracy").and_then(Value::as_f64);
    vec![
        record.key.clone(),
        record.kind.clone(),
        record.protocol.get("model").and_then(|model| model_name(model, names)).unwrap_or_default(),
        text(setting(&["method", "settings", "method"])),
        record.data().map_or_else(|| text(setting(&["stream", "corruption"])), str::to_owned),
        text(record.result.get("images")),
        accuracy.map_or_else(String::new, |a| format!("{:.1}%", 100.0 * a)),
        utc(record.created),
        duration(Duration::try_from_secs_f64(record.seconds).unwrap_or_default()),
    ]
}

fn show(file: &Path, key: &str, json: bool) -> Result<()> {
    let records = Records::load(file)?;
    let record = find(&records, file, key)?;
    if json {
        return print(&(serde_json::to_string_pretty(record)? + "\n"));
    }
    let mut text = format!("key       {}\n", record.key);
    text += &format!("kind      {}\n", record.kind);
    if let Some(data) = record.data() {
        text += &format!("data      {data}\n");
    }
    text += &format!("created   {} UTC\n", utc(record.created));
    let time = Duration::try_from_secs_f64(record.seconds).unwrap_or_default();
    text += &format!("time      {}\n", duration(time));
    text += &format!("flipcast  {}\n", record.flipcast);
    if let Some(commit) = &record.commit {
        text += &format!("commit    {commit}\n");
    }
    text += "\nsettings\n";
    text += &table(&leaves(&Value::Object(record.protocol.fields().clone())));
    text += "\nresult\n";
    text += &table(&leaves(&record.result));
    print(&text)
}

fn compare(left: (&Path, &str), right: (&Path, &str), json: bool) -> Result<()> {
    let (one, other) = (Records::load(left.0)?, Records::load(right.0)?);
    let one = find(&one, left.0, left.1)?;
    let other = find(&other, right.0, right.1)?;
    let settings = diff(&one.protocol, &other.protocol);
    let results = diff(&as_protocol(&one.result)?, &as_protocol(&other.result)?);
    if json {
        let list = |differences: &[Difference]| -> Value {
            let entry = |d: &Difference| serde_json::json!({"path": d.path, "left": d.left, "right": d.right});
            differences.iter().map(entry).collect()
        };
        let report = serde_json::json!({
            "left": one.key,
            "right": other.key,
            "settings": list(&settings),
            "results": list(&results),
        });
        return print(&(report.to_string() + "\n"));
    }
    let mut text = String::new();
    for (what, differences) in [("settings", &settings), ("results", &results)] {
        if differences.is_empty() {
            text += &format!("no difference in {what}\n");
            continue;
        }
        let shown = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let rows: Vec<Vec<String>> =
            differences.iter().map(|d| vec![d.path.clone(), shown(&d.left), shown(&d.right)]).collect();
        text += &render(&[what, &one.key, &other.key], &rows);
    }
    print(&text)
}

/// The run whose key starts with `key`.
fn find<'a>(records: &'a Records, file: &Path, key: &str) -> Result<&'a RunRecord> {
    let mut keys: Vec<&str> =
        records.iter().map(|record| record.key.as_str()).filter(|known| known.starts_with(key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let problem = match keys.as_slice() {
        [one] => return Ok(records.get(one).expect("its key was listed")),
        [] => format!("`{}` holds no run with key `{key}`", file.display()),
        several => format!("{} runs of `{}` have keys that start with `{key}`", several.len(), file.display()),
    };
    Err(Advised { problem, hint: format!("`flipcast runs list {}` shows the keys", file.display()) }.into())
}

/// A result in the form that can be compared setting by setting.
fn as_protocol(result: &Value) -> Result<Protocol> {
    let fields = match result {
        Value::Object(_) => result.clone(),
        other => serde_json::json!({"result": other}),
    };
    Ok(serde_json::from_value(fields)?)
}

/// Every value of a tree with its path.
fn leaves(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(String::new(), value, &mut found);
    found
}

fn collect(path: String, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let below = match path.as_str() {
                    "" => name.clone(),
                    above => format!("{above}.{name}"),
                };
                collect(below, value, found);
            }
        }
        Value::String(text) => found.push((path, text.clone())),
        other => found.push((path, other.to_string())),
    }
}

fn table(leaves: &[(String, String)]) -> String {
    let width = leaves.iter().map(|(path, _)| path.chars().count()).max();
    let width = width.unwrap_or(0);
    let line = |(path, value): &(String, String)| format!("  {path:<width$}  {value}\n");
    leaves.iter().map(line).collect()
}
