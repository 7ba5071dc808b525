//! The Open Inference Protocol v2 over HTTP.

use super::read::{read_body, request_key, reserve};
use crate::ApiError;
use crate::engine::{Answer, Job, JobInput};
use crate::feeder::png_file;
use crate::prepared::{KeptFile, RawImages, Unprepared, shown_file};
use crate::protocol::{InferRequest, InferResponse, choose_outputs, respond};
use crate::server::App;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Says how long the JSON in front of binary tensors is.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
/// The stream of requests that name none.
pub const DEFAULT_STREAM: &str = "default";

/// `?stream=`.
#[derive(Deserialize)]
pub struct StreamQuery {
    stream: Option<String>,
}

pub async fn server() -> Json<Value> {
    let extensions = ["binary_tensor_data", "parameters"];
    Json(json!({"name": "flipcast", "version": env!("CARGO_PKG_VERSION"), "extensions": extensions}))
}

pub async fn live(State(app): State<Arc<App>>) -> Response {
    told("live", app.is_alive())
}

pub async fn ready(State(app): State<Arc<App>>) -> Response {
    told("ready", app.is_ready())
}

fn told(what: &str, is_so: bool) -> Response {
    let status = if is_so { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({what: is_so}))).into_response()
}

pub async fn model(State(app): State<Arc<App>>, Path(model): Path<String>) -> Result<Json<Value>, ApiError> {
    describe(&app, &model, None)
}

pub async fn model_version(
    State(app): State<Arc<App>>,
    Path((model, version)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    describe(&app, &model, Some(&version))
}

pub async fn model_ready(State(app): State<Arc<App>>, Path(model): Path<String>) -> Result<Response, ApiError> {
    check_model(&app, &model, None)?;
    Ok(ready(State(app)).await)
}

pub async fn model_version_ready(
    State(app): State<Arc<App>>,
    Path((model, version)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    check_model(&app, &model, Some(&version))?;
    Ok(ready(State(app)).await)
}

pub async fn infer(
    State(app): State<Arc<App>>,
    Path(model): Path<String>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    check_model(&app, &model, None)?;
    answer(&app, query.stream, &headers, body).await
}

pub async fn infer_version(
    State(app): State<Arc<App>>,
    Path((model, version)): Path<(String, String)>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    check_model(&app, &model, Some(&version))?;
    answer(&app, query.stream, &headers, body).await
}

/// The length that the header of binary tensors gives.
pub fn json_length(headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
    let Some(value) = headers.get(JSON_LENGTH) else { return Ok(None) };
    let length = value.to_str().ok().and_then(|text| text.parse().ok());
    length.map(Some).ok_or_else(|| {
        let found = shortened(&String::from_utf8_lossy(value.as_bytes()));
        ApiError::bad_request(format!("`Inference-Header-Content-Length` is `{found}`, expected a number of bytes"))
    })
}

/// Predicts images, counts them and waits until that is on disk.
pub async fn predict(app: &Arc<App>, stream: String, key: Option<u64>, images: RawImages) -> Result<Answer, ApiError> {
    let Some(preparation) = app.preparation.clone() else {
        return Err(ApiError::bad_request("there is no network here: send what another server predicted"));
    };
    let count = images.len();
    let limit = app.config.limits.request_images;
    if count == 0 || count > limit {
        return Err(ApiError::bad_request(format!("there are {count} images, expected 1 to {limit}")));
    }
    let permit = reserve(app, count.saturating_mul(preparation.image_bytes()))?;
    let keeps = app.config.keep_images.is_some();
    let stopped = |_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    let seconds = app.config.limits.seconds;
    let until = Instant::now() + Duration::from_secs(seconds);
    // Decoding takes memory of its own, so that only a few images are decoded at a time.
    let turn = timeout(Duration::from_secs(seconds), app.decoders.clone().acquire_owned()).await;
    let turn = turn.map_err(|_| ApiError::busy())?;
    let prepared = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let files: Vec<Option<KeptFile>> = match &images {
            _ if !keeps => Vec::new(),
            RawImages::Encoded(files) => files.iter().map(|file| shown_file(file)).collect(),
            RawImages::Pixels(tensor) => tensor.each().map(|image| image.as_ref().map(png_file)).collect(),
            RawImages::Values(_) => Vec::new(),
        };
        Ok::<_, Unprepared>((preparation.prepare(images, until)?, files))
    });
    let (prepared, files) = prepared.await.map_err(stopped)?.map_err(|refused| match refused {
        Unprepared::Unusable(reason) => ApiError::bad_request(reason),
        Unprepared::TooLate => {
            let message = format!("the {count} images were not decoded in {seconds} seconds");
            ApiError::new(StatusCode::REQUEST_TIMEOUT, message).with_hint("send fewer or smaller images at a time")
        }
    })?;
    app.submit(|reply| Job { files, permit: Some(permit), ..Job::new(stream, key, JobInput::Images(prepared), reply) })
        .await
}

async fn answer(app: &Arc<App>, stream: Option<String>, headers: &HeaderMap, body: Body) -> Result<Response, ApiError> {
    let json_length = json_length(headers)?;
    let (body, _held) = read_body(app, headers, body).await?;
    let request = InferRequest::parse(&body, json_length).map_err(|bad| ApiError::bad_request(bad.to_string()))?;
    let outputs = choose_outputs(&request.outputs, request.binary_outputs, app.config.adapt.is_some());
    let outputs = outputs.map_err(ApiError::bad_request)?;
    let key = request.id.as_deref().map(|id| request_key(id, &body));
    drop(body);
    let stream = stream.or(request.stream).unwrap_or_else(|| DEFAULT_STREAM.to_owned());
    let Answer { logits, first_image, adapted } = predict(app, stream.clone(), key, request.images).await?;
    let response = InferResponse {
        model: &app.config.model_name,
        version: &app.config.model_version,
        id: request.id.as_deref(),
        stream: &stream,
        first_image,
        classes: app.classes,
        logits: &logits,
        adapted: app.config.adapt.is_some().then_some(&adapted[..]),
    };
    let (body, json_length) = respond(&response, &outputs);
    let media_type = if json_length.is_some() { "application/octet-stream" } else { "application/json" };
    let mut response = ([(header::CONTENT_TYPE, media_type)], body).into_response();
    if let Some(length) = json_length {
        response.headers_mut().insert(JSON_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

pub fn describe(app: &App, model: &str, version: Option<&str>) -> Result<Json<Value>, ApiError> {
    check_model(app, model, version)?;
    let inputs = match &app.preparation {
        Some(preparation) => {
            let size = preparation.size();
            json!([
                {"name": "image", "datatype": "BYTES", "shape": [-1]},
                {"name": "pixels", "datatype": "UINT8", "shape": [-1, -1, -1, 3]},
                {"name": "values", "datatype": "FP32", "shape": [-1, 3, size.height, size.width]},
            ])
        }
        None => json!([]),
    };
    let mut outputs = vec![
        json!({"name": "logits", "datatype": "FP32", "shape": [-1, app.classes]}),
        json!({"name": "class", "datatype": "INT64", "shape": [-1]}),
    ];
    if app.config.adapt.is_some() {
        outputs.push(json!({"name": "adapted_class", "datatype": "INT64", "shape": [-1]}));
    }
    Ok(Json(json!({
        "name": app.config.model_name,
        "versions": [app.config.model_version],
        "platform": "flipcast",
        "inputs": inputs,
        "outputs": outputs,
    })))
}

/// The start of a text that somebody sent, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

pub fn check_model(app: &App, model: &str, version: Option<&str>) -> Result<(), ApiError> {
    if model != app.config.model_name {
        let (found, known) = (shortened(model), &app.config.model_name);
        return Err(ApiError::new(StatusCode::NOT_FOUND, format!("there is no model `{found}`, expected `{known}`")));
    }
    match version.filter(|version| *version != app.config.model_version) {
        Some(version) => {
            let (found, known) = (shortened(version), &app.config.model_version);
            Err(ApiError::new(StatusCode::NOT_FOUND, format!("there is no version `{found}`, expected `{known}`")))
        }
        None => Ok(()),
    }
}
