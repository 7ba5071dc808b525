//! Predictions of the adapted network.

use crate::fixture::{CLASSES, advised, call, config, get, network, outputs_calibration, pixels, server};
use axum::Router;
use axum::http::{Request, StatusCode};
use flipcast_adapt::{MethodConfig, OptimizerConfig};
use flipcast_serve::{Log, ServeConfig, ServeError, Server, Subject};
use serde_json::{Value, json};
use std::path::Path;

fn adapting(state: &Path, method: &str) -> ServeConfig {
    let method = MethodConfig::default_for(method, CLASSES).unwrap().with_optimizer(OptimizerConfig::adam(0.02));
    ServeConfig { adapt: Some(method), ..config(state) }
}

/// Sends pictures and gives the answer, with both kinds of classes.
async fn send(router: &Router, stream: &str, first: usize, count: usize) -> Value {
    let (body, length) = pixels(first, count, "");
    let mut head: Value = serde_json::from_slice(&body[..length]).unwrap();
    head["outputs"] = json!([{"name": "class"}, {"name": "adapted_class"}]);
    let head = head.to_string();
    let length = head.len();
    let body = [head.as_bytes(), &body[body.len() - (count * 3 * 32 * 32)..]].concat();
    let request = Request::post(format!("/v2/models/stripes/infer?stream={stream}"))
        .header("inference-header-content-length", length)
        .header("content-length", body.len());
    let answer = call(router, request.body(body.into()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

#[tokio::test]
async fn whole_batches_are_predicted_by_both_and_counted_for_both() {
    let folder = tempfile::tempdir().unwrap();
    let router = server(adapting(folder.path(), "tent")).router();
    let answer = send(&router, "a", 0, 40).await;
    assert_eq!(answer["parameters"]["adapted_images"], 0, "no batch is complete");
    assert_eq!(answer["outputs"][0]["data"], answer["outputs"][1]["data"], "so the source model's classes stand in");
    let answer = send(&router, "a", 40, 100).await;
    let told = answer["parameters"]["adapted_images"].as_u64().unwrap();
    assert!([0, 24, 64, 88].contains(&told), "{told}: the last 12 images wait, and the guard may object to a batch");
    let stream = get(&router, "/streams/a").await.json();
    assert_eq!((&stream["images"], &stream["adapted"]["images"]), (&140.into(), &128.into()));
    let metrics = String::from_utf8(get(&router, "/metrics").await.body).unwrap();
    assert!(metrics.contains("flipcast_adapted_images{stream=\"a\"} 128"), "{metrics}");
    let outputs = get(&router, "/v2/models/stripes").await.json()["outputs"].clone();
    assert_eq!(outputs[2]["name"], "adapted_class");
}

#[tokio::test]
async fn streams_adapt_apart_and_go_on_after_a_restart() {
    let sent = async |router: &Router, first: usize| {
        let mut answers = Vec::new();
        for stream in ["a", "b"] {
            let shift = if stream == "b" { 7000 } else { 0 };
            answers.push(send(router, stream, shift + first, 64).await["outputs"][1]["data"].clone());
        }
        answers
    };
    let whole = tempfile::tempdir().unwrap();
    let router = server(adapting(whole.path(), "eta")).router();
    let mut expected = Vec::new();
    for batch in 0..4 {
        expected.push(sent(&router, 64 * batch).await);
    }
    let stopped = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for batch in 0..4 {
        let server = server(adapting(stopped.path(), "eta"));
        let router = server.router();
        found.push(sent(&router, 64 * batch).await);
        drop((server, router));
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    assert_eq!(found, expected);
    let server = server(adapting(stopped.path(), "eta"));
    let counts = |router: Router| async move { get(&router, "/streams/b").await.json()["adapted"].clone() };
    let (again, before) = (counts(server.router()).await, counts(router).await);
    assert_eq!((&again["images"], &again), (&256.into(), &before));
}

#[tokio::test]
async fn windows_have_the_adapted_network_s_accuracy_where_the_calibration_knows_what_adapting_gains() {
    let (model, calibration) = network();
    let advised = advised(calibration);
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let subject = Subject::Network { model, calibration: &advised, device: flipcast_run::Device::cpu(1) };
        Server::new(subject, adapting(folder.path(), "tent"), Log::new(std::io::sink())).unwrap()
    };
    let server = open();
    let router = server.router();
    send(&router, "a", 0, 129).await;
    let before = get(&router, "/streams/a").await.json()["windows"].clone();
    let told = &before[1]["adapted"];
    assert_eq!(told["images"], 64, "{before}");
    let number = |value: &Value| value.as_f64().unwrap();
    let estimate = &told["estimate"];
    assert!(number(&estimate["low"]) <= number(&estimate["accuracy"]), "{told}");
    assert!(number(&told["low"]) <= number(&told["gain"]) && number(&told["gain"]) <= number(&told["high"]), "{told}");
    let metrics = String::from_utf8(get(&router, "/metrics").await.body).unwrap();
    assert!(
        metrics.contains("kind=\"adapted\"") && metrics.contains("flipcast_estimated_gain_ratio{stream=\"a\"}"),
        "{metrics}"
    );
    assert_eq!(get(&router, "/settings").await.json()["estimates_gain"], true);
    drop((server, router));
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(get(&open().router(), "/streams/a").await.json()["windows"], before, "after a restart");

    let other = tempfile::tempdir().unwrap();
    let router = crate::fixture::server(adapting(other.path(), "tent")).router();
    send(&router, "a", 0, 65).await;
    assert_eq!(get(&router, "/streams/a").await.json()["windows"][0]["adapted"], Value::Null);
    assert_eq!(get(&router, "/settings").await.json()["estimates_gain"], false);
}

#[test]
fn methods_that_cannot_be_kept_with_a_stream_are_refused() {
    let (model, calibration) = network();
    for (method, outputs) in [("sar", false), ("tent", true)] {
        let folder = tempfile::tempdir().unwrap();
        let subject = match outputs {
            true => Subject::Outputs(outputs_calibration()),
            false => Subject::Network { model, calibration, device: flipcast_run::Device::cpu(1) },
        };
        let refused = Server::new(subject, adapting(folder.path(), method), Log::new(std::io::sink()));
        assert!(matches!(refused.err(), Some(ServeError::Setting { setting: "the method of adaptation", .. })));
    }
}
