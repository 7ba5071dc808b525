//! Requests that nobody would send: valid ones with bytes changed, cut and doubled.
//!
//! `FLIPCAST_FUZZ=1000000 cargo test --release -p flipcast-serve --test serve fuzz -- --nocapture` makes many.

use crate::fixture::{CLASSES, call, config, logits, outputs_server, pixels, server};
use axum::http::{HeaderName, HeaderValue, Request, StatusCode};
use flipcast_ground::SplitMix64;
use flipcast_serve::{Limits, ServeConfig};
use serde_json::json;

/// A request to start from: path, headers, body.
type Seed = (&'static str, Vec<(&'static str, String)>, Vec<u8>);

fn seeds() -> Vec<Seed> {
    let (binary, length) = pixels(0, 2, "id");
    let head = |length: usize| vec![("inference-header-content-length", length.to_string())];
    let tensor = |datatype: &str, shape: &[usize], data: serde_json::Value| {
        json!({"id": "a", "parameters": {"stream": "s"}, "inputs": [{"name": "x", "datatype": datatype, "shape": shape, "data": data}],
               "outputs": [{"name": "logits", "parameters": {"binary_data": true}}]})
        .to_string()
        .into_bytes()
    };
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
    let event = |kind: &str| {
        let mut headers = vec![
            ("ce-specversion", "1.0".to_owned()),
            ("ce-id", "1".to_owned()),
            ("ce-inferenceservicename", "s".to_owned()),
        ];
        headers.push(("ce-type", format!("org.kubeflow.serving.inference.{kind}")));
        headers
    };
    let rows = logits(2, 1.0, 1).0;
    let response =
        json!({"id": "1", "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, CLASSES], "data": rows}]});
    let labels = json!({"stream": "s", "labels": [{"image": 0, "class": "left"}, {"image": 1, "right": true}]});
    let infer = "/v2/models/stripes/infer";
    let mut logged = event("request");
    logged.extend(head(length));
    let mut seeds = vec![
        (infer, head(length), binary.clone()),
        (infer, Vec::new(), tensor("BYTES", &[1], json!([png]))),
        (infer, Vec::new(), tensor("FP32", &[1, 3, 2, 2], json!([[1, 2, 3], [4, 5, 6], [0.5, 1e9, -1]]))),
        ("/", logged, binary),
        ("/", event("response"), response.to_string().into_bytes()),
        ("/labels", Vec::new(), labels.to_string().into_bytes()),
        ("/streams/s/reset", Vec::new(), Vec::new()),
    ];
    if cfg!(feature = "grpc") {
        let frame = [0, 0, 0, 0, 11, 10, 7, b's', b't', b'r', b'i', b'p', b'e', b's', 24, 1].to_vec();
        let headers = vec![("content-type", "application/grpc".to_owned())];
        seeds.push(("/inference.GRPCInferenceService/ModelInfer", headers, frame));
    }
    seeds
}

/// Changes a few bytes, cuts, or doubles a piece.
fn mutate(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    for _ in 0..random.below(4) {
        // Most of a body is pixels; what matters stands in front.
        let reach = if random.below(3) > 0 { bytes.len().min(300) } else { bytes.len() };
        let at = random.below(reach);
        match random.below(5) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
            2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            3 => bytes.insert(at, b"0919-[]{},\":"[random.below(12)]),
            _ => {
                let piece: Vec<u8> = bytes[at..bytes.len().min(at + 1 + random.below(20))].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

#[tokio::test]
async fn mutated_requests_are_answered_or_refused_and_nothing_panics() {
    let requests: usize = std::env::var("FLIPCAST_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(3000);
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { streams: 50, ..Limits::default() };
    let with = |name: &str| ServeConfig { limits, ..config(&folder.path().join(name)) };
    let routers = [server(with("network")).router(), outputs_server(with("outputs")).router()];
    let seeds = seeds();
    let mut random = SplitMix64::new(11);
    let mut statuses = std::collections::BTreeMap::new();
    for number in 0..requests {
        let (path, headers, body) = &seeds[random.below(seeds.len())];
        let (mut body, mut request) = (body.clone(), Request::post(*path));
        mutate(&mut body, &mut random);
        for (name, value) in headers {
            let mut value = value.clone().into_bytes();
            if random.below(10) == 0 {
                mutate(&mut value, &mut random);
            }
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                request = request.header(HeaderName::from_static(name), value);
            }
        }
        let answer = call(&routers[number % 2], request.body(body.into()).unwrap()).await;
        let is_fault = answer.status.is_server_error() && answer.status != StatusCode::INSUFFICIENT_STORAGE;
        assert!(!is_fault, "request {number} to {path}: {}", String::from_utf8_lossy(&answer.body));
        *statuses.entry(answer.status.as_u16()).or_insert(0) += 1;
    }
    println!("{requests} requests: {statuses:?}");
    assert!(statuses.len() > 2, "some are answered, some are refused: {statuses:?}");
}
