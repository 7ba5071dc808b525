//! Bodies: bounded in size, in time, and in what all of them together take.

use crate::ApiError;
use crate::server::App;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// How long a refused client may go on sending.
const DRAIN: Duration = Duration::from_secs(5);

/// Reads a body, and takes its part of the queue. Where the queue is full, nothing of the body is kept.
pub async fn read_body(
    app: &Arc<App>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, OwnedSemaphorePermit), ApiError> {
    let limits = &app.config.limits;
    let too_large = |found: String| {
        let message = format!("the body has {found} bytes, expected at most {}", limits.body_bytes);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
            .with_hint("send fewer images at a time, or start the server with a larger `--max-body`")
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    // A body of unknown length may turn out to be as large as any.
    let length = length.unwrap_or(limits.body_bytes);
    if length > limits.body_bytes {
        return Err(too_large(length.to_string()));
    }
    let permit = match reserve(app, length) {
        Ok(permit) => permit,
        Err(busy) => {
            drain(body).await;
            return Err(busy);
        }
    };
    let bytes = timeout(Duration::from_secs(limits.seconds), to_bytes(body, limits.body_bytes)).await;
    let slow = |_| {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive in {} seconds", limits.seconds))
    };
    Ok((bytes.map_err(slow)?.map_err(|_| too_large("more".to_owned()))?, permit))
}

/// Takes a body and throws it away piece by piece: a client that is still sending would not see the answer.
async fn drain(mut body: Body) {
    let all = async { while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {} };
    let _ = timeout(DRAIN, all).await;
}

/// Takes `bytes` of the queue, if they are free.
pub fn reserve(app: &Arc<App>, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
    let kib = u32::try_from(bytes.div_ceil(1024)).map_err(|_| ApiError::busy())?;
    app.queue.clone().try_acquire_many_owned(kib).map_err(|_| ApiError::busy())
}

/// What tells a request apart from others: its id and its content. A sender that gives all its requests one id is still understood.
pub fn request_key(id: &str, body: &[u8]) -> u64 {
    // FNV-1a over both, as everywhere in flipcast.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = id.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    body.iter().fold(step(hash, &0xff), step)
}
