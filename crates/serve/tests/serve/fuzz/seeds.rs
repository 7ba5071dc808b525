//! Requests to start from, and how they are changed.

use crate::fixture::{CLASSES, SIDE, logits, picture, pixels};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};
use base64::Engine;
use flipcast_ground::SplitMix64;
use serde_json::json;

/// What is read, with names and numbers in the address.
const ADDRESSES: [&str; 6] = [
    "/streams?after=a%2Fb&limit=20",
    "/streams/s?x=1",
    "/streams/s/windows?kind=count&limit=100",
    "/streams/s/records?kind=time",
    "/streams/s/ask?n=20",
    "/streams/s/images/18446744073709551615",
];

/// A request to start from.
pub struct Seed {
    /// What kind of request it is.
    pub kind: &'static str,
    method: Method,
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

/// Requests of every kind to start from.
pub fn seeds() -> Vec<Seed> {
    let infer = "/v2/models/stripes/infer";
    let whole = |kind, path, headers, body: serde_json::Value| {
        let (head, tail, framing) = (body.to_string().into_bytes(), Vec::new(), Framing::Whole);
        Seed { kind, method: Method::POST, path, headers, head, tail, framing }
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
        Seed { kind, method: Method::POST, path, headers, head, tail, framing: Framing::Binary }
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
    let empty = || (Vec::new(), Vec::new(), Vec::new());
    for path in ADDRESSES {
        let (headers, head, tail) = empty();
        seeds.push(Seed { kind: "addresses", method: Method::GET, path, headers, head, tail, framing: Framing::Whole });
    }
    seeds
}

/// Small image files of all formats, from the reference images. They are part of the program, so that it runs where there is no checkout.
fn files() -> Vec<Vec<u8>> {
    macro_rules! reference {
        ($name:literal) => {
            include_bytes!(concat!("../../../../../golden/preprocess/", $name)).to_vec()
        };
    }
    vec![
        reference!("edge/grey.jpg"),
        reference!("edge/rgb_progressive.jpg"),
        reference!("formats/lossy.webp"),
        reference!("formats/lossless.webp"),
        reference!("formats/indexed.gif"),
        reference!("formats/rgb.bmp"),
        reference!("tiff/rgb_lzw.tif"),
        png_file(),
    ]
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
        Seed { kind: "gRPC", method: Method::POST, path, headers, head, tail: Vec::new(), framing: Framing::Grpc }
    };
    calls.map(seed).into()
}

#[cfg(not(feature = "grpc"))]
fn grpc_seeds() -> Vec<Seed> {
    Vec::new()
}

impl Seed {
    /// The request with a few bytes changed. Lengths mostly fit what became of the parts, so that what reads them is reached.
    pub fn mutated(&self, random: &mut SplitMix64) -> Request<Body> {
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
        let mut request = Request::builder().method(self.method.clone()).uri(self.address(random));
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

    /// The path, for addresses changed as bodies are; one that no connection would let through is left as it was.
    fn address(&self, random: &mut SplitMix64) -> Uri {
        let mut bytes = self.path.as_bytes().to_vec();
        if self.method == Method::GET {
            mutate(&mut bytes, random);
        }
        Uri::try_from(bytes).ok().filter(|uri| uri.path().starts_with('/')).unwrap_or(Uri::from_static(self.path))
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
