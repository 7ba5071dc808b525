//! Requests that nobody would send: valid ones with bytes changed, cut and doubled.
//!
//! `FLIPCAST_FUZZ=10000000 cargo test --release -p flipcast-serve --test serve fuzz -- --nocapture` makes many; `TMPDIR=/dev/shm` spares the disk.

use crate::fixture::{Answer, CLASSES, SIDE, call, config, logits, outputs_server, picture, pixels, server};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, StatusCode};
use base64::Engine;
use flipcast_ground::SplitMix64;
use flipcast_serve::{Limits, ServeConfig};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// Requests that are under way at the same time, so that one commit of the state serves many.
const AT_ONCE: usize = 64;
/// Requests after which a long run says where it stands.
const TOLD_EVERY: usize = 500_000;

/// A request to start from.
struct Seed {
    kind: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    /// JSON, or a message.
    head: Vec<u8>,
    /// Bytes of tensors behind it.
    tail: Vec<u8>,
    framing: Framing,
}

/// How the parts of a body are told apart.
#[derive(Clone, Copy, PartialEq)]
enum Framing {
    /// There is one part.
    Whole,
    /// A header has the length of the first part.
    Binary,
    /// A prefix has the length of the message.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "nothing is framed so without gRPC"))]
    Grpc,
}

fn seeds() -> Vec<Seed> {
    let infer = "/v2/models/stripes/infer";
    let whole = |kind, path, headers, body: serde_json::Value| {
        let (head, tail, framing) = (body.to_string().into_bytes(), Vec::new(), Framing::Whole);
        Seed { kind, path, headers, head, tail, framing }
    };
    let tensor = |datatype: &str, shape: &[usize], data: serde_json::Value| {
        json!({"id": "a", "parameters": {"stream": "s"}, "inputs": [{"name": "x", "datatype": datatype, "shape": shape, "data": data}],
               "outputs": [{"name": "logits", "parameters": {"binary_data": true}}]})
    };
    let event = |kind: &str| {
        let mut headers = vec![
            ("ce-specversion", "1.0".to_owned()),
            ("ce-id", "1".to_owned()),
            ("ce-inferenceservicename", "s".to_owned()),
        ];
        headers.push(("ce-type", format!("org.kubeflow.serving.inference.{kind}")));
        headers
    };
    let binary = |kind, path, headers, (body, length): (Vec<u8>, usize)| {
        let (head, tail) = (body[..length].to_vec(), body[length..].to_vec());
        Seed { kind, path, headers, head, tail, framing: Framing::Binary }
    };
    let file_tensor = |file: &[u8]| {
        let data = [&(file.len() as u32).to_le_bytes(), file].concat();
        let head = json!({"id": "f", "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": data.len()}}]});
        let head = head.to_string().into_bytes();
        let length = head.len();
        ([head, data].concat(), length)
    };
    let png = base64::engine::general_purpose::STANDARD.encode(png_file());
    let rows = logits(2, 1.0, 1).0;
    let response =
        json!({"id": "1", "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, CLASSES], "data": rows}]});
    let labels = json!({"stream": "s", "labels": [{"image": 0, "class": "left"}, {"image": 1, "right": true}]});
    let values = json!([[1, 2, 3], [4, 5, 6], [0.5, 1e9, -1]]);
    let mut seeds = vec![
        binary("binary tensors", infer, Vec::new(), pixels(0, 1, "id")),
        whole("JSON", infer, Vec::new(), tensor("BYTES", &[1], json!([png]))),
        whole("JSON", infer, Vec::new(), tensor("FP32", &[1, 3, 2, 2], values)),
        whole(
            "JSON",
            infer,
            Vec::new(),
            tensor("UINT8", &[1, 2, 2, 3], json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255])),
        ),
        binary("CloudEvents", "/", event("request"), pixels(0, 1, "id")),
        whole("CloudEvents", "/", event("response"), response),
        whole("labels", "/labels", Vec::new(), labels),
        whole("labels", "/streams/s/reset", Vec::new(), json!({})),
    ];
    for file in files() {
        seeds.push(binary("image files", infer, Vec::new(), file_tensor(&file)));
    }
    seeds.extend(grpc_seeds());
    seeds
}

/// Small image files of all formats, from the reference images.
fn files() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/preprocess");
    let names = [
        "edge/grey.jpg",
        "edge/rgb_progressive.jpg",
        "formats/lossy.webp",
        "formats/lossless.webp",
        "formats/indexed.gif",
    ];
    let more = ["formats/rgb.bmp", "tiff/rgb_lzw.tif"];
    let mut files: Vec<Vec<u8>> =
        names.iter().chain(&more).map(|name| std::fs::read(folder.join(name)).unwrap()).collect();
    files.push(png_file());
    files
}

/// A file that the network takes.
fn png_file() -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, SIDE as u32, SIDE as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(picture(0).rgb()).unwrap();
    file
}

#[cfg(feature = "grpc")]
fn grpc_seeds() -> Vec<Seed> {
    use crate::grpc::{field, infer};
    let model = [field(1, b"stripes"), field(2, b"1")].concat();
    let calls = [
        ("/inference.GRPCInferenceService/ModelInfer", infer("stripes", 1)),
        ("/inference.GRPCInferenceService/ModelInfer", [field(1, b"stripes"), vec![24, 1]].concat()),
        ("/inference.GRPCInferenceService/ModelMetadata", model.clone()),
        ("/inference.GRPCInferenceService/ModelReady", model),
        ("/inference.GRPCInferenceService/ServerMetadata", Vec::new()),
    ];
    let seed = |(path, head)| {
        let headers = vec![("content-type", "application/grpc".to_owned())];
        Seed { kind: "gRPC", path, headers, head, tail: Vec::new(), framing: Framing::Grpc }
    };
    calls.map(seed).into()
}

#[cfg(not(feature = "grpc"))]
fn grpc_seeds() -> Vec<Seed> {
    Vec::new()
}

impl Seed {
    /// The request with a few bytes changed. Lengths mostly fit what became of the parts, so that what reads them is reached.
    fn mutated(&self, random: &mut SplitMix64) -> Request<Body> {
        let (mut head, mut tail) = (self.head.clone(), self.tail.clone());
        match random.below(3) {
            0 => mutate(&mut head, random),
            1 if !tail.is_empty() => mutate(&mut tail, random),
            _ => {
                mutate(&mut head, random);
                mutate(&mut tail, random);
            }
        }
        let mut headers = self.headers.clone();
        let mut body = Vec::with_capacity(5 + head.len() + tail.len());
        match self.framing {
            Framing::Whole => {}
            Framing::Binary => headers.push(("inference-header-content-length", head.len().to_string())),
            Framing::Grpc => {
                body.push(u8::from(random.below(50) == 0));
                let wrong = if random.below(10) == 0 { random.below(300) } else { 0 };
                body.extend(((head.len() + wrong) as u32).to_be_bytes());
            }
        }
        body.extend([head, tail].concat());
        if self.framing != Framing::Grpc {
            // What waits is bounded by lengths; a request without one counts as the longest.
            headers.push(("content-length", body.len().to_string()));
        }
        let mut request = Request::post(self.path);
        for (name, value) in headers {
            let mut value = value.into_bytes();
            if random.below(10) == 0 && name != "content-length" {
                mutate(&mut value, random);
            }
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                request = request.header(HeaderName::from_static(name), value);
            }
        }
        request.body(body.into()).unwrap()
    }
}

/// Changes a few bytes, cuts, or doubles a piece; now and then nothing.
fn mutate(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    for _ in 0..random.below(4) {
        // Most of a body is pixels; what matters stands in front.
        let reach = if random.below(3) > 0 { bytes.len().min(300) } else { bytes.len() };
        let at = random.below(reach);
        match random.below(5) {
            0 if random.below(4) == 0 => bytes.truncate(at),
            0 | 1 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
            2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            3 => bytes.insert(at, b"0919-[]{},\":"[random.below(12)]),
            _ => {
                let piece: Vec<u8> = bytes[at..bytes.len().min(at + 1 + random.below(20))].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// Answers by kind of request and status; gRPC has its own.
type Statuses = BTreeMap<&'static str, BTreeMap<String, usize>>;

fn take(kind: &'static str, answer: &Answer, statuses: &mut Statuses) {
    let is_fault = answer.status.is_server_error() && answer.status != StatusCode::INSUFFICIENT_STORAGE;
    assert!(!is_fault, "{kind}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    let code = match answer.headers.get("grpc-status").and_then(|code| code.to_str().ok()) {
        // A code of its own choice, or that the message cannot be read; 2 would be a fault that nobody foresaw.
        Some(code) => {
            assert!(code != "2", "{kind}: {:?}", answer.headers);
            format!("grpc {code}")
        }
        None => answer.status.as_u16().to_string(),
    };
    *statuses.entry(kind).or_default().entry(code).or_default() += 1;
}

#[tokio::test]
async fn mutated_requests_are_answered_or_refused_and_nothing_panics() {
    let asked: Option<usize> = std::env::var("FLIPCAST_FUZZ").ok().and_then(|text| text.parse().ok());
    let requests = asked.unwrap_or(2000);
    let panics = Arc::new(AtomicUsize::new(0));
    if asked.is_some() {
        // Alone in its process: a panic anywhere counts, on threads that nobody joins too.
        let (panics, hook) = (panics.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| {
            panics.fetch_add(1, Ordering::Relaxed);
            hook(info);
        }));
    }
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { streams: 50, ..Limits::default() };
    let with = |name: &str| ServeConfig { limits, ..config(&folder.path().join(name)) };
    let routers = [server(with("network")).router(), outputs_server(with("outputs")).router()];
    let seeds = seeds();
    let mut random =
        SplitMix64::new(std::env::var("FLIPCAST_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(11));
    let mut statuses = Statuses::new();
    let (mut under_way, started) = (JoinSet::new(), Instant::now());
    for number in 1..=requests {
        let seed = &seeds[random.below(seeds.len())];
        let (kind, request, router) = (seed.kind, seed.mutated(&mut random), routers[number % 2].clone());
        under_way.spawn(async move { (kind, call(&router, request).await) });
        if under_way.len() >= AT_ONCE {
            let (kind, answer) = under_way.join_next().await.unwrap().unwrap();
            take(kind, &answer, &mut statuses);
        }
        if number % TOLD_EVERY == 0 {
            println!(
                "{number} requests, {:.0} s, {} panics",
                started.elapsed().as_secs_f64(),
                panics.load(Ordering::Relaxed)
            );
        }
    }
    while let Some(done) = under_way.join_next().await {
        let (kind, answer) = done.unwrap();
        take(kind, &answer, &mut statuses);
    }
    for (kind, statuses) in &statuses {
        println!("{kind}: {} requests, {statuses:?}", statuses.values().sum::<usize>());
    }
    println!("{requests} requests, {} panics", panics.load(Ordering::Relaxed));
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    assert!(statuses.values().all(|statuses| statuses.len() > 1), "some are answered, some are refused: {statuses:?}");
}
