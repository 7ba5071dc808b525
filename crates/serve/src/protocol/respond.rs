//! Responses of the Open Inference Protocol.

use super::infer::WantedOutput;
use flipcast_ground::argmax;
use serde_json::{Value, json};

/// Predictions to answer with.
pub struct InferResponse<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Its version.
    pub version: &'a str,
    /// What the sender called the request.
    pub id: Option<&'a str>,
    /// The stream.
    pub stream: &'a str,
    /// The number of the first image; nothing where the request was counted before.
    pub first_image: Option<u64>,
    /// Number of classes.
    pub classes: usize,
    /// Logits, row after row.
    pub logits: &'a [f32],
    /// The adapted network's classes, where there are any; nothing where no network adapts.
    pub adapted: Option<&'a [Option<usize>]>,
}

impl InferResponse<'_> {
    /// Names of the outputs that can be asked for, those that come unasked first.
    pub fn outputs(adapts: bool) -> &'static [&'static str] {
        if adapts { &["logits", "class", "adapted_class"] } else { &["logits", "class"] }
    }

    /// Classes as the source model has them, or as the adapted network does where it says something.
    pub fn classes(&self, adapted: bool) -> Vec<i64> {
        let own = self.logits.chunks_exact(self.classes).map(argmax);
        let adapted = self.adapted.filter(|_| adapted).unwrap_or_default();
        own.enumerate().map(|(at, class)| adapted.get(at).copied().flatten().unwrap_or(class) as i64).collect()
    }

    /// Images that the adapted network says something of.
    pub fn adapted_images(&self) -> Option<usize> {
        self.adapted.map(|adapted| adapted.iter().flatten().count())
    }
}

/// An output to answer with, and whether it comes as bytes.
pub type ChosenOutput = (&'static str, bool);

/// The outputs that are wanted, or why there is no such. This is known before anything is predicted and counted.
pub fn choose_outputs(wanted: &[WantedOutput], binary: bool, adapts: bool) -> Result<Vec<ChosenOutput>, String> {
    let names = InferResponse::outputs(adapts);
    if wanted.is_empty() {
        return Ok(names.iter().take(2).map(|name| (*name, binary)).collect());
    }
    let known = |output: &WantedOutput| {
        let name = names.iter().find(|name| **name == output.name);
        let name = name.ok_or_else(|| {
            format!(
                "there is no output `{}`, expected {}",
                output.name.chars().take(64).collect::<String>(),
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
            )
        })?;
        Ok((*name, output.binary.unwrap_or(binary)))
    };
    wanted.iter().map(known).collect()
}

/// The body, and how long its JSON is where bytes follow it.
pub fn respond(response: &InferResponse, chosen: &[ChosenOutput]) -> (Vec<u8>, Option<usize>) {
    let images = response.logits.len() / response.classes.max(1);
    let (mut outputs, mut binary) = (Vec::new(), Vec::new());
    for (name, as_bytes) in chosen {
        let is_logits = *name == "logits";
        let classes = response.classes(*name == "adapted_class");
        let (datatype, shape) =
            if is_logits { ("FP32", json!([images, response.classes])) } else { ("INT64", json!([images])) };
        let mut output = json!({"name": name, "datatype": datatype, "shape": shape});
        if *as_bytes {
            let before = binary.len();
            if is_logits {
                binary.extend(response.logits.iter().flat_map(|value| value.to_le_bytes()));
            } else {
                binary.extend(classes.iter().flat_map(|value| value.to_le_bytes()));
            }
            output["parameters"] = json!({"binary_data_size": binary.len() - before});
        } else {
            output["data"] = if is_logits { json!(response.logits) } else { json!(classes) };
        }
        outputs.push(output);
    }
    let mut body = json!({
        "model_name": response.model,
        "model_version": response.version,
        "parameters": {"stream": response.stream, "counted": response.first_image.is_some()},
        "outputs": outputs,
    });
    if let Some(images) = response.adapted_images() {
        body["parameters"]["adapted_images"] = images.into();
    }
    if let Some(id) = response.id {
        body["id"] = Value::from(id);
    }
    if let Some(first) = response.first_image {
        body["parameters"]["first_image"] = first.into();
    }
    let mut bytes = body.to_string().into_bytes();
    let json_length = (!binary.is_empty()).then_some(bytes.len());
    bytes.extend(binary);
    (bytes, json_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_come_as_they_were_asked_for() {
        let response = InferResponse {
            model: "m",
            version: "1",
            id: Some("a"),
            stream: "s",
            first_image: Some(4),
            classes: 2,
            logits: &[0.5, 1.5, 2.0, 0.0],
            adapted: None,
        };
        let respond = |response: &InferResponse, wanted: &[WantedOutput]| {
            let outputs = choose_outputs(wanted, false, response.adapted.is_some());
            super::respond(response, &outputs.unwrap())
        };
        let (body, length) = respond(&response, &[]);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((length, &body["outputs"][1]["data"]), (None, &json!([1, 0])));
        assert_eq!(body["parameters"], json!({"stream": "s", "counted": true, "first_image": 4}));
        let wanted = [WantedOutput { name: "class".to_owned(), binary: Some(true) }];
        let (body, length) = respond(&response, &wanted);
        assert_eq!(body[length.unwrap()..], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let unknown = [WantedOutput { name: "boxes".to_owned(), binary: None }];
        assert!(choose_outputs(&unknown, false, false).unwrap_err().contains("`boxes`, expected `logits` or `class`"));
        let adapted = InferResponse { adapted: Some(&[None, Some(1)]), ..response };
        let wanted = ["class", "adapted_class"].map(|name| WantedOutput { name: name.to_owned(), binary: None });
        let body: Value = serde_json::from_slice(&respond(&adapted, &wanted).0).unwrap();
        assert_eq!((&body["outputs"][0]["data"], &body["outputs"][1]["data"]), (&json!([1, 0]), &json!([1, 1])));
        assert_eq!(body["parameters"]["adapted_images"], 1);
    }
}
