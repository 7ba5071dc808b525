//! The sink of KServe's payload logger.

use super::inference::{DEFAULT_STREAM, json_length, predict};
use super::read::{read_body, request_key, reserve};
use crate::ApiError;
use crate::engine::{Job, JobInput};
use crate::protocol::{CloudEvent, EventKind, InferRequest, logits_of_response};
use crate::server::App;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// Takes a logged request or response. Beside a network requests are counted, and their responses say nothing new; without one it is the other
/// way round. So every pair counts once.
pub async fn take(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Result<StatusCode, ApiError> {
    let event = CloudEvent::parse(&headers).map_err(|reason| {
        ApiError::bad_request(reason).with_hint(
            "`/` takes CloudEvents of KServe's logger; predictions are asked for at `/v2/models/MODEL/infer`",
        )
    })?;
    let json_length = json_length(&headers)?;
    let bad = |bad: crate::protocol::BadTensor| ApiError::bad_request(bad.to_string());
    match (event.kind, app.preparation.is_some()) {
        (EventKind::Request, true) => {
            let (body, _held) = read_body(&app, &headers, body).await?;
            let request = InferRequest::parse(&body, json_length).map_err(bad)?;
            let key = request_key(&event.id, &body);
            let stream = request.stream.or(event.service).unwrap_or_else(|| DEFAULT_STREAM.to_owned());
            predict(&app, stream, Some(key), request.images).await?;
        }
        (EventKind::Response, false) => {
            let (body, _held) = read_body(&app, &headers, body).await?;
            let (_, logits) = logits_of_response(&body, json_length, app.classes).map_err(bad)?;
            let permit = reserve(&app, 4 * logits.len())?;
            let key = request_key(&event.id, &body);
            let stream = event.service.unwrap_or_else(|| DEFAULT_STREAM.to_owned());
            app.submit(|reply| Job {
                permit: Some(permit),
                ..Job::new(stream, Some(key), JobInput::Logits(logits), reply)
            })
            .await?;
        }
        (EventKind::Request, false) | (EventKind::Response, true) => {}
    }
    Ok(StatusCode::ACCEPTED)
}
