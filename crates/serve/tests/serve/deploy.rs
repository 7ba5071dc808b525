//! Files for operators name metrics that exist.

use crate::fixture::{config, get, send, server};
use flipcast_adapt::MethodConfig;
use flipcast_serve::ServeConfig;
use serde_json::Value;
use std::collections::BTreeSet;

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter| !is_name(letter)).filter(|word| word.starts_with("flipcast_")).collect()
}

/// All texts under the key `expr`.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| match value.as_str() {
            Some(text) if key == "expr" => found.push(text.to_owned()),
            _ => expressions(value, found),
        }),
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn dashboards_and_alert_rules_name_metrics_that_exist() {
    let folder = tempfile::tempdir().unwrap();
    let adapt = MethodConfig::default_for("tent", crate::fixture::CLASSES).ok();
    let router = server(ServeConfig { adapt, ..config(folder.path()) }).router();
    send(&router, "a", 0, 65, "").await;
    let metrics = String::from_utf8(get(&router, "/metrics").await.body).unwrap();
    let known = names(&metrics);
    let read =
        |name: &str| std::fs::read_to_string(format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let mut texts = Vec::new();
    expressions(&dashboard, &mut texts);
    assert!(texts.len() >= 4 && dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 4), "{texts:?}");
    let rules = read("alerts.yml");
    texts.extend(rules.lines().filter_map(|line| Some(line.trim().strip_prefix("expr:")?.to_owned())));
    for text in &texts {
        for name in names(text) {
            assert!(known.contains(name), "`{name}` in `{text}` is none of {known:?}");
        }
    }
}
