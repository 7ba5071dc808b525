use super::{Block, Section};
use crate::Study;
use crate::html::escape;
use flipcast_record::RunRecord;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Longest value that is written in full.
const LONGEST: usize = 4000;

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
        "A result is defined by its protocol, and its key is a hash of it. Settings that all records of a kind share are written once. \
         `flipcast runs show FILE KEY` prints a record in full.",
    );
    for (kind, records) in kinds {
        let shared = shared(&records);
        let mut html = format!(
            "<details><summary>{}: {} {}</summary>",
            escape(kind),
            records.len(),
            if records.len() == 1 {
                "record"
            } else {
                "records"
            }
        );
        html += &pre(&Value::Object(shared.clone()));
        for record in records {
            let own: Map<String, Value> = record
                .protocol
                .fields()
                .iter()
                .filter(|(name, _)| !shared.contains_key(*name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let named = own.get("data").and_then(Value::as_str).unwrap_or_default();
            html += &format!(
                "<details id=\"key-{0}\"><summary><code>{0}</code> {1}</summary>{2}</details>",
                escape(&record.key),
                escape(named),
                pre(&Value::Object(own))
            );
        }
        section.blocks.push(Block::Html(html + "</details>"));
    }
    section
}

/// The settings that have one value in all records; of a single record, all.
fn shared(records: &[&RunRecord]) -> Map<String, Value> {
    let Some((first, others)) = records.split_first() else {
        return Map::new();
    };
    let same = |name: &str, value: &Value| {
        others
            .iter()
            .all(|record| record.protocol.get(name) == Some(value))
    };
    let fields = first.protocol.fields().iter();
    fields
        .filter(|(name, value)| same(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn pre(value: &Value) -> String {
    let Value::Object(fields) = value else {
        return String::new();
    };
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
        let length = text.chars().count();
        let shown: String = text.chars().take(LONGEST).collect();
        let rest = length.saturating_sub(LONGEST);
        let cut = if rest > 0 {
            format!("\u{2026} ({rest} more characters)")
        } else {
            String::new()
        };
        lines += &format!("<b>{}</b>: {}{cut}\n", escape(name), escape(&shown));
    }
    format!("<pre tabindex=\"0\">{lines}</pre>")
}
