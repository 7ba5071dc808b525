use super::{Block, Section};
use crate::Study;
use crate::html::escape;
use flipcast_record::RunRecord;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Longest value that is written in full.
const LONGEST: usize = 4000;
/// Longest value that is written beside its record.
const SHORT: usize = 24;

/// The protocol of every number: what all records of a kind share once, the rest record by record.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("protocols", "The protocol of every number");
    let mut kinds: BTreeMap<&str, Vec<&RunRecord>> = BTreeMap::new();
    for record in &study.records {
        kinds.entry(&record.kind).or_default().push(record);
    }
    if kinds.is_empty() {
        return section;
    }
    section.say(
        "A result is defined by its protocol, and its key is a hash of it. Settings that several records of a kind share are written once above \
         them. `flipcast runs show FILE KEY` prints a record in full.",
    );
    for (kind, records) in kinds {
        let count = records.len();
        let mut html = format!(
            "<details><summary>{}: {count} {}</summary>",
            escape(kind),
            if count == 1 { "record" } else { "records" }
        );
        let shared = shared(&records);
        html += &pre(&shared);
        for (settings, records) in groups(&records, &shared) {
            let own = |record: &RunRecord| -> Settings {
                let fields = record.protocol.fields().iter();
                fields
                    .filter(|(name, _)| !shared.contains_key(*name) && !settings.contains_key(*name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            };
            html += &pre(&settings);
            html += "<ul class=\"keys\">";
            for record in records {
                html +=
                    &format!("<li id=\"key-{0}\"><code>{0}</code>{1}</li>", escape(&record.key), inline(&own(record)));
            }
            html += "</ul>";
        }
        section.blocks.push(Block::Html(html + "</details>"));
    }
    section
}

/// Some settings by name.
type Settings = Map<String, Value>;

/// The settings that have one value in all records; of a single record, all.
fn shared(records: &[&RunRecord]) -> Settings {
    let Some((first, others)) = records.split_first() else {
        return Map::new();
    };
    let same = |name: &str, value: &Value| others.iter().all(|record| record.protocol.get(name) == Some(value));
    let fields = first.protocol.fields().iter();
    fields.filter(|(name, value)| same(name, value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Records with equal settings together, in the order of the first of each. Settings that tell most records apart, as
/// the name of the images does, and those that take no room are no reason for a group.
fn groups<'a>(records: &[&'a RunRecord], shared: &Settings) -> Vec<(Settings, Vec<&'a RunRecord>)> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for record in records {
        for (name, value) in record.protocol.fields() {
            if !shared.contains_key(name) {
                values.entry(name).or_default().insert(value.to_string());
            }
        }
    }
    let grouping = |name: &str| {
        let Some(values) = values.get(name) else {
            return false;
        };
        let longest = values.iter().map(String::len).max().unwrap_or(0);
        name != "data" && values.len() * 2 <= records.len() && longest > SHORT
    };
    let mut groups: Vec<(Settings, Vec<&RunRecord>)> = Vec::new();
    for record in records {
        let fields = record.protocol.fields().iter();
        let settings: Settings =
            fields.filter(|(name, _)| grouping(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
        match groups.iter_mut().find(|(known, _)| *known == settings) {
            Some((_, records)) => records.push(record),
            None => groups.push((settings, vec![record])),
        }
    }
    groups
}

/// Settings in one line, the images first; `data` needs no name.
fn inline(settings: &Settings) -> String {
    let data = settings.get("data").and_then(Value::as_str);
    let mut text = data.map_or_else(String::new, |data| format!(" {}", escape(data)));
    for (name, value) in settings.iter().filter(|(name, _)| *name != "data") {
        let value = match value {
            Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        text += &format!(" <b>{}</b> {}", escape(name), escape(&cut(&value)));
    }
    text
}

/// As much of a text as is written.
fn cut(text: &str) -> String {
    let length = text.chars().count();
    let shown: String = text.chars().take(LONGEST).collect();
    match length.saturating_sub(LONGEST) {
        0 => shown,
        rest => format!("{shown}\u{2026} ({rest} more characters)"),
    }
}

fn pre(fields: &Settings) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let mut lines = String::new();
    for (name, value) in fields {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        let text = if text.lines().all(|line| line.len() < 60) && text.len() < 400 {
            // Short values read better in one line.
            value.to_string()
        } else {
            text
        };
        lines += &format!("<b>{}</b>: {}\n", escape(name), escape(&cut(&text)));
    }
    format!("<pre tabindex=\"0\">{lines}</pre>")
}
