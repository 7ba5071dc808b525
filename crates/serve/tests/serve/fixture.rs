//! Servers of small classifiers, and requests to them.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use flipcast_estimate::{GainFit, GainSample, GainSignals, Outputs};
use flipcast_ground::SplitMix64;
use flipcast_images::dataset::InMemory;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::advise::AdviceFit;
use flipcast_run::monitor::MonitorConfig;
use flipcast_run::open::OpenedData;
use flipcast_run::{
    Calibration, CalibrationJob, Device, FlipProtocol, LabelledOutputs, Ledger, OutputsCalibration, ScoreOptions,
    Setting, Unwatched, calibrate,
};
use flipcast_serve::{Limits, Log, ServeConfig, Server, Subject, Tokens};
use serde_json::Value;
use std::path::Path;
use std::sync::OnceLock;
use tower::ServiceExt;

pub const CLASSES: usize = 3;
pub const SIDE: usize = 32;

/// Pictures whose stripes lean to one of three sides, with noise.
pub fn picture(index: usize) -> Image {
    let mut random = SplitMix64::new(index as u64);
    let class = index % CLASSES;
    let mut rgb = Vec::with_capacity(3 * SIDE * SIDE);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let place = [x, y, x + y][class];
            for channel in 0..3 {
                rgb.push((((place / 3 + channel) % 2) * 120) as u8 + random.below(100) as u8);
            }
        }
    }
    Image::new(SIDE, SIDE, rgb).unwrap()
}

/// A small random network and its calibration.
pub fn network() -> &'static (Model, Calibration) {
    static MADE: OnceLock<(Model, Calibration)> = OnceLock::new();
    MADE.get_or_init(|| calibrated("cifar_resnet8_w4", "statistics"))
}

/// A random network that takes pictures, and its calibration.
pub fn calibrated(architecture: &str, protocol: &str) -> (Model, Calibration) {
    let model = Model::random(architecture, CLASSES, 3).unwrap();
    let model = model.with_preprocess(Preprocess::normalise_only(Normalise::half()));
    let data = OpenedData::new("clean", pictures(0..192), &model).unwrap();
    let protocol = one_look(protocol, &model);
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let mut job = CalibrationJob::new(setting, data.request());
    job.shifts.truncate(6);
    let calibration = calibrate(&job, &mut Ledger::default(), &mut Unwatched).unwrap();
    (model, calibration)
}

/// A calibration that learned what adapting gains.
pub fn advised(calibration: &Calibration) -> Calibration {
    let mut random = SplitMix64::new(7);
    let mut sample = |kind| {
        let (flips, confidence) = (0.1 + 0.5 * random.uniform(), 0.5 + 0.4 * random.uniform());
        let signals = GainSignals { images: 512, flips, source_confidence: 0.7, confidence, ..Default::default() };
        GainSample { gain: confidence - 0.7, signals, kind }
    };
    let fit = GainFit::fit_alone(&(0..100).map(|i| sample(i % 10)).collect::<Vec<_>>()).unwrap();
    let (screening, whole, alone) = (fit.clone(), fit.clone(), fit);
    let advice = AdviceFit {
        candidates: Vec::new(),
        anchors: None,
        screening,
        whole,
        alone,
        standby: None,
        arbiters: Default::default(),
    };
    Calibration { advice: Some(advice), ..calibration.clone() }
}

/// Pictures with their labels.
pub fn pictures(indices: std::ops::Range<usize>) -> InMemory {
    InMemory::new(indices.map(|i| (picture(i), Label::Class((i % CLASSES) as u32))))
}

/// A protocol without steps.
pub fn one_look(name: &str, model: &Model) -> FlipProtocol {
    let protocol = FlipProtocol::for_network(name, model.graph()).unwrap();
    FlipProtocol { stops: vec![0], ..protocol }
}

/// Logits of a classifier that is right less often the noisier it is.
pub fn logits(images: usize, noise: f32, seed: u64) -> (Vec<f32>, Vec<usize>) {
    let mut random = SplitMix64::new(seed);
    let labels: Vec<usize> = (0..images).map(|_| random.below(CLASSES)).collect();
    let mut rows = Vec::new();
    for label in &labels {
        rows.extend((0..CLASSES).map(|k| if k == *label { 3.0 } else { 0.0 } + noise * random.normal() as f32));
    }
    (rows, labels)
}

/// A calibration of outputs alone.
pub fn outputs_calibration() -> &'static OutputsCalibration {
    static MADE: OnceLock<OutputsCalibration> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = |noise, seed| {
            let (rows, labels) = logits(1500, noise, seed);
            (Outputs::new(rows, CLASSES).unwrap(), labels)
        };
        let (outputs, labels) = made(1.0, 1);
        let clean = LabelledOutputs::clean(outputs, labels).unwrap();
        let shifted: Vec<LabelledOutputs> = (0..5)
            .map(|i| {
                let (outputs, labels) = made(1.4 + 0.6 * i as f32, 2 + i);
                LabelledOutputs::shifted(&format!("noise{i}:1"), outputs, labels).unwrap()
            })
            .collect();
        OutputsCalibration::fit(&clean, &shifted, ScoreOptions::default(), 0, &mut Unwatched).unwrap()
    })
}

pub fn config(state: &Path) -> ServeConfig {
    ServeConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        state: state.to_owned(),
        model_name: "stripes".to_owned(),
        model_version: "1".to_owned(),
        class_names: ["left", "up", "right"].map(str::to_owned).to_vec(),
        monitor: MonitorConfig { window_images: 64, ..Default::default() },
        tokens: Tokens::default(),
        limits: Limits::default(),
        keep_images: None,
        webhook: None,
        watch: Vec::new(),
        adapt: None,
        tls: None,
    }
}

/// A server of the small network.
pub fn server(config: ServeConfig) -> Server {
    let (model, calibration) = network();
    let subject = Subject::Network { model, calibration, device: Device::cpu(1) };
    Server::new(subject, config, Log::new(std::io::sink())).unwrap()
}

/// A server that watches what another predicts.
pub fn outputs_server(config: ServeConfig) -> Server {
    Server::new(Subject::Outputs(outputs_calibration()), config, Log::new(std::io::sink())).unwrap()
}

/// An answer.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }
}

pub async fn call(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    Answer { status: head.status, headers: head.headers, body: to_bytes(body, usize::MAX).await.unwrap().to_vec() }
}

pub async fn get(router: &Router, path: &str) -> Answer {
    call(router, Request::get(path).body(Body::empty()).unwrap()).await
}

pub async fn post(router: &Router, path: &str, body: impl Into<Body>) -> Answer {
    call(router, Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()).await
}

/// A request for predictions of pictures from `first` on, as binary pixels behind JSON.
pub fn pixels(first: usize, count: usize, id: &str) -> (Vec<u8>, usize) {
    let data: Vec<u8> = (first..first + count).flat_map(|i| picture(i).into_rgb()).collect();
    let head = serde_json::json!({
        "id": id,
        "inputs": [{"name": "pixels", "datatype": "UINT8", "shape": [count, SIDE, SIDE, 3], "parameters": {"binary_data_size": data.len()}}],
    });
    let head = head.to_string();
    let length = head.len();
    ([head.into_bytes(), data].concat(), length)
}

/// Sends pictures to a stream.
pub async fn send(router: &Router, stream: &str, first: usize, count: usize, id: &str) -> Answer {
    let (body, length) = pixels(first, count, id);
    let request = Request::post(format!("/v2/models/stripes/infer?stream={stream}"))
        .header("inference-header-content-length", length)
        .header("content-length", body.len());
    call(router, request.body(body.into()).unwrap()).await
}

/// Sends logits to a stream, as KServe's logger does.
pub async fn log_response(router: &Router, service: &str, rows: &[f32], id: &str) -> Answer {
    let body = serde_json::json!({
        "model_name": "x", "id": id,
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [rows.len() / CLASSES, CLASSES], "data": rows}],
    });
    let request = Request::post("/")
        .header("ce-specversion", "1.0")
        .header("ce-type", "org.kubeflow.serving.inference.response")
        .header("ce-source", "test")
        .header("ce-id", id)
        .header("ce-inferenceservicename", service)
        .header("content-type", "application/json");
    call(router, request.body(body.to_string().into()).unwrap()).await
}
