//! Refusals as clients see them.

use crate::engine::Refusal;
use crate::streams::StreamError;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flipcast_ground::{Hint, with_causes};
use flipcast_run::monitor::MonitorError;
use serde_json::json;

/// Why a request is refused.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    hint: Option<String>,
}

impl ApiError {
    /// The status and the reason.
    #[cfg(feature = "grpc")]
    pub fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.message)
    }

    /// With a status and a reason.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), hint: None }
    }

    /// The request is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// With advice.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Too much is waiting.
    pub fn busy() -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too many images are waiting; come again in a second")
    }

    /// The state cannot be written or read.
    pub fn unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the state cannot be written, so that nothing was counted")
    }
}

impl From<StreamError> for ApiError {
    fn from(error: StreamError) -> Self {
        let status = match &error {
            StreamError::Name { .. } => StatusCode::BAD_REQUEST,
            StreamError::Unknown { .. } => StatusCode::NOT_FOUND,
            StreamError::TooMany { .. } => StatusCode::INSUFFICIENT_STORAGE,
            StreamError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            StreamError::State(_) => StatusCode::INTERNAL_SERVER_ERROR,
            StreamError::Monitor(MonitorError::NotAsked { .. }) => StatusCode::CONFLICT,
            StreamError::Monitor(_) => StatusCode::BAD_REQUEST,
        };
        let hint = match &error {
            StreamError::Monitor(source) => source.hint(),
            StreamError::Unknown { .. } => Some("`GET /streams` names those that there are".to_owned()),
            StreamError::TooMany { .. } => Some("`--max-streams` allows more".to_owned()),
            StreamError::Name { .. } | StreamError::Store(_) | StreamError::State(_) => None,
        };
        Self { status, message: with_causes(&error), hint }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Stream(error) => error.into(),
            Refusal::Values(image) => Self::bad_request(format!(
                "the values of image {image} of the request are too large: the network's logits of them are not finite"
            ))
            .with_hint("send values as the preprocessing makes them, or pixels as UINT8"),
            Refusal::Network(reason) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the network cannot run: {reason}"))
            }
            Refusal::NotWritten => Self::unavailable(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.message});
        if let Some(hint) = self.hint {
            body["hint"] = hint.into();
        }
        let mut response = (self.status, Json(body)).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
