//! The Open Inference Protocol over gRPC: the six calls of KServe and Triton, on the port of everything else.

mod messages;

use super::inference::{DEFAULT_STREAM, check_model, describe, predict};
use super::read::{request_key, reserve};
use crate::ApiError;
use crate::engine::Answer;
use crate::protocol::{BadTensor, InferResponse as InferResponseBody, RequestTensor};
use crate::server::App;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use messages::{
    Contents, Empty, InferRequest, InferResponse, Live, ModelMetadata, NamedModel, ServerMetadata, Tensor, Value,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

/// Routes of all calls.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/inference.GRPCInferenceService/ServerLive", post(server_live))
        .route("/inference.GRPCInferenceService/ServerReady", post(server_ready))
        .route("/inference.GRPCInferenceService/ModelReady", post(model_ready))
        .route("/inference.GRPCInferenceService/ServerMetadata", post(server_metadata))
        .route("/inference.GRPCInferenceService/ModelMetadata", post(model_metadata))
        .route("/inference.GRPCInferenceService/ModelInfer", post(model_infer))
}

async fn server_live(State(app): State<Arc<App>>, request: Request) -> Response {
    let is_so = app.is_alive();
    unary(&app, request, async move |_: Empty| Ok(Live { is_so })).await
}

async fn server_ready(State(app): State<Arc<App>>, request: Request) -> Response {
    let is_so = app.is_ready();
    unary(&app, request, async move |_: Empty| Ok(Live { is_so })).await
}

async fn model_ready(State(app): State<Arc<App>>, request: Request) -> Response {
    let own = app.clone();
    let act = async move |model: NamedModel| {
        check_model(&own, &model.name, version(&model.version))?;
        Ok(Live { is_so: own.is_ready() })
    };
    unary(&app, request, act).await
}

async fn server_metadata(State(app): State<Arc<App>>, request: Request) -> Response {
    let act = async |_: Empty| {
        let (name, version) = ("flipcast".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Ok(ServerMetadata { name, version, extensions: Vec::new() })
    };
    unary(&app, request, act).await
}

async fn model_metadata(State(app): State<Arc<App>>, request: Request) -> Response {
    let own = app.clone();
    let act = async move |model: NamedModel| {
        let described = describe(&own, &model.name, version(&model.version))?.0;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let tensor = |value: &serde_json::Value| Tensor {
            name: text(&value["name"]),
            datatype: text(&value["datatype"]),
            shape: value["shape"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_i64).collect(),
            contents: None,
        };
        let tensors = |name: &str| described[name].as_array().into_iter().flatten().map(tensor).collect();
        Ok(ModelMetadata {
            name: text(&described["name"]),
            versions: vec![text(&described["versions"][0])],
            platform: text(&described["platform"]),
            inputs: tensors("inputs"),
            outputs: tensors("outputs"),
        })
    };
    unary(&app, request, act).await
}

async fn model_infer(State(app): State<Arc<App>>, request: Request) -> Response {
    // Nothing tells how long a message will be, so that only a few are read at a time.
    let seconds = Duration::from_secs(app.config.limits.seconds);
    let Ok(Ok(turn)) = timeout(seconds, app.unknown_bodies.clone().acquire_owned()).await else {
        return unary(&app, request, async |_: Empty| Err::<InferResponse, _>(ApiError::busy())).await;
    };
    let own = app.clone();
    let act = async move |request: InferRequest| {
        let size: usize = request.raw.iter().map(Bytes::len).sum();
        let _held = reserve(&own, size)?;
        drop(turn);
        infer(&own, request).await
    };
    match timeout(2 * seconds, unary(&app, request, act)).await {
        Ok(response) => response,
        Err(_) => Status::deadline_exceeded("the request took too long").into_http(),
    }
}

async fn infer(app: &Arc<App>, request: InferRequest) -> Result<InferResponse, ApiError> {
    check_model(app, &request.model_name, version(&request.model_version))?;
    let bad = |BadTensor(reason): BadTensor| ApiError::bad_request(reason);
    let [input] = &request.inputs[..] else {
        let found = request.inputs.len();
        return Err(ApiError::bad_request(format!("there are {found} inputs, expected one with the images")));
    };
    let mut raw = match (&request.raw[..], &input.contents) {
        ([raw], None) => raw.clone(),
        ([], Some(contents)) => contents.to_raw().map_err(bad)?,
        _ => return Err(ApiError::bad_request("the images come either in the tensor or raw, expected one of both")),
    };
    let extent = |extent: &i64| usize::try_from(*extent).map_err(|_| ApiError::bad_request("an extent is negative"));
    let shape = input.shape.iter().map(extent).collect::<Result<Vec<usize>, _>>()?;
    let tensor = RequestTensor::of_bytes(input.name.clone(), shape, input.datatype.clone(), raw.len());
    let key = Some(&request.id).filter(|id| !id.is_empty()).map(|id| request_key(id, &raw));
    let images = tensor.images(&mut raw).map_err(bad)?;
    drop(raw);
    let stream = match request.parameters.get("stream").map(|parameter| &parameter.value) {
        None => DEFAULT_STREAM.to_owned(),
        Some(Some(Value::Text(name))) => name.clone(),
        Some(_) => return Err(ApiError::bad_request("the parameter `stream` is no text, expected a `string_param`")),
    };
    let wanted: Vec<&str> = match &request.outputs[..] {
        [] => vec!["logits", "class"],
        outputs => outputs.iter().map(|output| output.name.as_str()).collect(),
    };
    let known = InferResponseBody::outputs(app.config.adapt.is_some());
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        let name: String = unknown.chars().take(64).collect();
        return Err(ApiError::bad_request(format!(
            "there is no output `{name}`, expected one of {}",
            known.join(", ")
        )));
    }
    let Answer { logits, first_image, adapted } = predict(app, stream.clone(), key, images).await?;
    let answer = InferResponseBody {
        model: &app.config.model_name,
        version: &app.config.model_version,
        id: None,
        stream: &stream,
        first_image,
        classes: app.classes,
        logits: &logits,
        adapted: app.config.adapt.is_some().then_some(&adapted[..]),
    };
    let images = (logits.len() / app.classes) as i64;
    let (mut outputs, mut raw) = (Vec::new(), Vec::new());
    for name in wanted {
        let (datatype, shape, bytes): (_, _, Vec<u8>) = if name == "logits" {
            let bytes = logits.iter().flat_map(|value| value.to_le_bytes()).collect();
            ("FP32", vec![images, app.classes as i64], bytes)
        } else {
            let classes = answer.classes(name == "adapted_class");
            ("INT64", vec![images], classes.into_iter().flat_map(i64::to_le_bytes).collect())
        };
        outputs.push(Tensor { name: name.to_owned(), datatype: datatype.to_owned(), shape, contents: None });
        raw.push(bytes.into());
    }
    let adapted_images = answer.adapted_images();
    let counted = ("counted".to_owned(), Value::Bool(first_image.is_some()).into());
    let mut parameters = [counted, ("stream".to_owned(), Value::Text(stream).into())]
        .into_iter()
        .collect::<std::collections::HashMap<_, _>>();
    if let Some(first) = first_image.and_then(|first| i64::try_from(first).ok()) {
        parameters.insert("first_image".to_owned(), Value::Int(first).into());
    }
    if let Some(images) = adapted_images {
        parameters.insert("adapted_images".to_owned(), Value::Int(images as i64).into());
    }
    Ok(InferResponse {
        model_name: app.config.model_name.clone(),
        model_version: app.config.model_version.clone(),
        id: request.id,
        parameters,
        outputs,
        raw,
    })
}

impl Contents {
    /// The elements as raw tensors have them.
    fn to_raw(&self) -> Result<Bytes, BadTensor> {
        let byte = |number: &u32| u8::try_from(*number).map_err(|_| BadTensor(format!("{number} is no byte")));
        let mut raw = self.numbers.iter().map(byte).collect::<Result<Vec<u8>, _>>()?;
        raw.extend(self.floats.iter().flat_map(|value| value.to_le_bytes()));
        for file in &self.files {
            raw.extend((file.len() as u32).to_le_bytes());
            raw.extend_from_slice(file);
        }
        Ok(raw.into())
    }
}

/// A version, where one is named.
fn version(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Answers one call.
async fn unary<Asked, Told, Answering>(
    app: &App,
    request: Request,
    act: impl FnOnce(Asked) -> Answering + Send + Sync + 'static,
) -> Response
where
    Asked: prost::Message + Default + 'static,
    Told: prost::Message + Default + 'static,
    Answering: Future<Output = Result<Told, ApiError>> + Send + 'static,
{
    let codec = ProstCodec::<Told, Asked>::default();
    let mut grpc = tonic::server::Grpc::new(codec).max_decoding_message_size(app.config.limits.body_bytes);
    let mut act = Some(act);
    let service = tower::service_fn(move |request: tonic::Request<Asked>| {
        let answering = act.take().map(|act| act(request.into_inner()));
        async move {
            let answering = answering.ok_or_else(|| Status::internal("a call was made twice"))?;
            answering.await.map(tonic::Response::new).map_err(status)
        }
    });
    grpc.unary(service, request).await.map(Body::new)
}

/// The same refusal in gRPC's terms.
fn status(error: ApiError) -> Status {
    let (status, message) = error.into_parts();
    let code = match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Code::InvalidArgument,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::INSUFFICIENT_STORAGE => Code::ResourceExhausted,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::CONFLICT => Code::FailedPrecondition,
        _ => Code::Internal,
    };
    Status::new(code, message)
}
