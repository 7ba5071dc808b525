use super::{Block, Section};
use crate::Study;
use crate::html::{escape, prose};
use crate::table::{Table, TableCell};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where the numbers come from.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("provenance", "Where the numbers come from");
    let mut kinds: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    let mut makers: BTreeSet<String> = BTreeSet::new();
    let mut weights: BTreeMap<(String, String), usize> = BTreeMap::new();
    for record in &study.records {
        let (count, seconds) = kinds.entry(&record.kind).or_default();
        *count += 1;
        *seconds += record.seconds.max(0.0);
        let commit = record.commit.as_ref().map(|commit| format!(" ({commit})"));
        makers.insert(format!("flipcast {}{}", record.flipcast, commit.unwrap_or_default()));
        let model = record.protocol.get("model");
        let field = |name: &str| model.and_then(|m| m.get(name)).and_then(Value::as_str);
        if let Some(name) = field("name") {
            let hash = field("weights_sha256").unwrap_or("unknown");
            *weights.entry((name.to_owned(), hash.to_owned())).or_default() += 1;
        }
    }
    if kinds.is_empty() {
        return section;
    }
    let makers: Vec<String> = makers.iter().map(|maker| escape(maker)).collect();
    section.blocks.push(Block::Html(format!("<p>Written by {}.</p>", makers.join(", "))));
    let mut table = Table::new("records", "Records read", &["kind", ">records", ">hours of computing"]);
    for (kind, (count, seconds)) in kinds {
        table.rows.push(vec![
            TableCell::text(kind),
            TableCell::count(count),
            TableCell::number(Some(seconds / 3600.0), 2),
        ]);
    }
    section.add(table);
    let mut table = Table::new("weights", "Weights", &["model", "SHA-256 of the weights", ">records"]);
    for ((name, hash), count) in weights {
        table.rows.push(vec![TableCell::text(&name), TableCell::text(&hash), TableCell::count(count)]);
    }
    section.add(table);
    let notes = study.notes();
    if !notes.is_empty() {
        let items: String = notes.iter().map(|note| format!("<li>{}</li>", prose(note))).collect();
        section.blocks.push(Block::Html(format!("<p>Read but not shown:</p><ul>{items}</ul>")));
    }
    section
}
