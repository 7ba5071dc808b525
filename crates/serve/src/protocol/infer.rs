//! Requests of the Open Inference Protocol.

use super::tensor::{BadTensor, RequestTensor};
use crate::prepared::RawImages;
use axum::body::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A request for predictions.
#[derive(Debug)]
pub struct InferRequest {
    /// What the sender calls it.
    pub id: Option<String>,
    /// The stream it belongs to, if it says so.
    pub stream: Option<String>,
    /// Its images.
    pub images: RawImages,
    /// The outputs it wants; all of them if none is named.
    pub outputs: Vec<WantedOutput>,
    /// Whether outputs come as bytes unless they say otherwise.
    pub binary_outputs: bool,
}

/// An output that a request wants.
#[derive(Debug, PartialEq, Eq)]
pub struct WantedOutput {
    /// Its name.
    pub name: String,
    /// Whether it comes as bytes.
    pub binary: Option<bool>,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    parameters: Map<String, Value>,
    inputs: Vec<RequestTensor>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Map<String, Value>,
}

/// What a response of another server says; everything else in it is of no interest here.
#[derive(Deserialize)]
struct ResponseBody {
    #[serde(default)]
    id: Option<String>,
    outputs: Vec<RequestTensor>,
}

/// The JSON at the start of a body and the bytes behind it.
fn split(body: &Bytes, json_length: Option<usize>) -> Result<(Bytes, Bytes), BadTensor> {
    let length = json_length.unwrap_or(body.len());
    if length > body.len() {
        let found = body.len();
        return Err(BadTensor(format!("the JSON has {length} bytes by its header, but the body has {found}")));
    }
    Ok((body.slice(..length), body.slice(length..)))
}

impl InferRequest {
    /// Reads a body; `json_length` is what the header `Inference-Header-Content-Length` says.
    pub fn parse(body: &Bytes, json_length: Option<usize>) -> Result<Self, BadTensor> {
        let (json, mut binary) = split(body, json_length)?;
        if json.is_empty() {
            return Err(BadTensor("the body is empty, expected JSON with `inputs`".to_owned()));
        }
        let body: Body =
            serde_json::from_slice(&json).map_err(|error| BadTensor(format!("the body is no request: {error}")))?;
        let [input] = &body.inputs[..] else {
            return Err(BadTensor(format!("there are {} inputs, expected one with the images", body.inputs.len())));
        };
        let images = input.images(&mut binary)?;
        if !binary.is_empty() {
            return Err(BadTensor(format!("{} bytes are left behind the tensors", binary.len())));
        }
        let outputs = body.outputs.into_iter().map(|output| WantedOutput {
            name: output.name,
            binary: output.parameters.get("binary_data").and_then(Value::as_bool),
        });
        // A stream that is no text would otherwise be counted as another.
        let stream = match body.parameters.get("stream") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(other) => {
                let found: String = other.to_string().chars().take(64).collect();
                return Err(BadTensor(format!("`parameters.stream` is {found}, expected a text")));
            }
        };
        Ok(Self {
            id: body.id.filter(|id| !id.is_empty()),
            stream,
            images,
            outputs: outputs.collect(),
            binary_outputs: body.parameters.get("binary_data_output").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

/// The id and the logits of a response that another server gave: its first `FP32` output with rows of `classes` values.
pub fn logits_of_response(
    body: &Bytes,
    json_length: Option<usize>,
    classes: usize,
) -> Result<(Option<String>, Vec<f32>), BadTensor> {
    let (json, mut binary) = split(body, json_length)?;
    let body: ResponseBody =
        serde_json::from_slice(&json).map_err(|error| BadTensor(format!("the body is no response: {error}")))?;
    let is_logits = |output: &&RequestTensor| output.datatype == "FP32" && output.shape.last() == Some(&classes);
    let output = body.outputs.iter().find(is_logits);
    let output =
        output.ok_or_else(|| BadTensor(format!("there is no FP32 output with {classes} values for an image")))?;
    let logits = output.floats(&mut binary)?;
    if logits.is_empty() || logits.iter().any(|value| !value.is_finite()) {
        return Err(BadTensor("the logits are empty or hold a value that is not finite".to_owned()));
    }
    Ok((body.id.filter(|id| !id.is_empty()), logits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::Layout;
    use serde_json::json;

    fn parse(value: &Value) -> Result<InferRequest, BadTensor> {
        InferRequest::parse(&value.to_string().into(), None)
    }

    #[test]
    fn json_and_bytes_mean_the_same() {
        let shape = [1, 1, 2, 3];
        let request = json!({
            "id": "7", "parameters": {"stream": "cam", "binary_data_output": true},
            "inputs": [{"name": "x", "shape": shape, "datatype": "UINT8", "data": [[[[1, 2, 3], [4, 5, 6]]]]}],
            "outputs": [{"name": "logits", "parameters": {"binary_data": true}}],
        });
        let from_json = parse(&request).unwrap();
        assert_eq!((from_json.id.as_deref(), from_json.stream.as_deref()), (Some("7"), Some("cam")));
        assert_eq!(from_json.outputs, [WantedOutput { name: "logits".to_owned(), binary: Some(true) }]);
        assert!(from_json.binary_outputs);
        let head = json!({"inputs": [{"name": "x", "shape": shape, "datatype": "UINT8", "parameters": {"binary_data_size": 6}}]});
        let head = head.to_string();
        let body: Bytes = [head.as_bytes(), &[1, 2, 3, 4, 5, 6]].concat().into();
        let from_bytes = InferRequest::parse(&body, Some(head.len())).unwrap();
        for request in [from_json, from_bytes] {
            let RawImages::Pixels(tensor) = request.images else { panic!("pixels") };
            assert_eq!((tensor.images, tensor.size.width, tensor.layout), (1, 2, Layout::ChannelsLast));
            assert_eq!(&tensor.data[..], [1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn files_come_with_their_lengths_or_in_base64() {
        let head = json!({"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 11}}]});
        let head = head.to_string();
        let body: Bytes = [head.as_bytes(), &[2, 0, 0, 0, 9, 8, 1, 0, 0, 0, 7]].concat().into();
        let from_bytes = InferRequest::parse(&body, Some(head.len())).unwrap();
        let from_json =
            parse(&json!({"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES", "data": ["CQg=", "Bw=="]}]}))
                .unwrap();
        for request in [from_bytes, from_json] {
            let RawImages::Encoded(files) = request.images else { panic!("files") };
            assert_eq!(files.iter().map(|file| file.to_vec()).collect::<Vec<_>>(), [vec![9, 8], vec![7]]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        let input = |shape: Value, datatype: &str, data: Value| json!({"inputs": [{"name": "x", "shape": shape, "datatype": datatype, "data": data}]});
        for (request, reason) in [
            (json!({}), "no request"),
            (
                json!({"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["Bw=="]}], "parameters": {"stream": 5}}),
                "`parameters.stream` is 5, expected a text",
            ),
            (json!({"inputs": []}), "there are 0 inputs"),
            (input(json!([1, 1, 1, 3]), "UINT8", json!([1, 2])), "it has 2 elements, but its shape says 3"),
            (input(json!([1, 1, 1, 3]), "UINT8", json!([1, 2, 300])), "not a whole number from 0 to 255"),
            (input(json!([1, 1, 1, 3]), "INT64", json!([1, 2, 3])), "its datatype is `INT64`"),
            (input(json!([3]), "FP32", json!([1, 2, 3])), "its shape is [3], expected [images, 3, height, width]"),
            (input(json!([1]), "BYTES", json!(["%"])), "not a file in base64"),
            (input(json!([9999999999999u64, 3, 9999999999999u64, 1]), "UINT8", json!([])), "too large"),
            (json!({"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES"}]}), "neither `data` nor"),
        ] {
            let text = parse(&request).unwrap_err().to_string();
            assert!(text.contains(reason), "{text}: {reason}");
        }
        let body: Bytes =
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":9}}]}"#.into();
        assert!(InferRequest::parse(&body, None).unwrap_err().to_string().contains("more than what follows"));
        assert!(InferRequest::parse(&body, Some(9999)).unwrap_err().to_string().contains("by its header"));
        assert!(InferRequest::parse(&Bytes::new(), None).unwrap_err().to_string().contains("the body is empty"));
    }
}
