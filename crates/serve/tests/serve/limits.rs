//! Bounds on what requests take.

use crate::fixture::{call, config, get, log_response, logits, outputs_server, send, server};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use flipcast_serve::{Limits, ServeConfig};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

#[tokio::test]
async fn bodies_and_requests_beyond_the_limits_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { body_bytes: 64 << 10, request_images: 4, streams: 2, ..Limits::default() };
    let router = server(ServeConfig { limits, ..config(folder.path()) }).router();
    assert_eq!(send(&router, "a", 0, 4, "").await.status, StatusCode::OK);
    assert_eq!(send(&router, "a", 0, 5, "").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(send(&router, "a", 0, 40, "").await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(send(&router, "b", 0, 1, "").await.status, StatusCode::OK);
    assert_eq!(send(&router, "c", 0, 1, "").await.status, StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(get(&router, "/streams").await.json()["count"], 2);
}

#[tokio::test]
async fn a_full_queue_says_come_again_once_the_sender_has_sent() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { body_bytes: 8 << 20, queue_bytes: 8 << 20, seconds: 1, ..Limits::default() };
    let router = server(ServeConfig { limits, ..config(folder.path()) }).router();
    // A sender that announces much and sends nothing holds its part of the queue for a second.
    let slow = Body::from_stream(futures_forever());
    let request = Request::post("/v2/models/stripes/infer").header("content-length", 8 << 20).body(slow).unwrap();
    let slow = tokio::spawn({
        let router = router.clone();
        async move { call(&router, request).await.status }
    });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let refused = send(&router, "a", 0, 1, "").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    // A client that still sends when it is answered sees a broken connection instead of the answer.
    let taken = Arc::new(AtomicUsize::new(0));
    let body = Body::from_stream(Pieces(5, taken.clone()));
    let request = Request::post("/v2/models/stripes/infer").header("content-length", 5).body(body).unwrap();
    assert_eq!(call(&router, request).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(taken.load(Ordering::SeqCst), 5);
    assert_eq!(slow.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(send(&router, "a", 0, 1, "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn idle_streams_go_to_disk_and_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { streams_in_memory: 5, ..Limits::default() };
    let router = outputs_server(ServeConfig { limits, ..config(folder.path()) }).router();
    for round in 0..3 {
        for stream in 0..20 {
            let (rows, _) = logits(30, 1.0, 100 * round + stream);
            let answer = log_response(&router, &format!("s{stream}"), &rows, &round.to_string()).await;
            assert_eq!(answer.status, StatusCode::ACCEPTED);
        }
    }
    let text = String::from_utf8(get(&router, "/metrics").await.body).unwrap();
    let in_memory = text.lines().find_map(|line| line.strip_prefix("flipcast_streams_in_memory ")).unwrap();
    assert!(in_memory.parse::<f64>().unwrap() <= 6.0, "{in_memory}");
    for stream in 0..20 {
        assert_eq!(get(&router, &format!("/streams/s{stream}")).await.json()["images"], 90);
    }
}

/// A body in so many pieces, which counts those that were taken.
struct Pieces(usize, Arc<AtomicUsize>);

impl futures_core::Stream for Pieces {
    type Item = Result<axum::body::Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.0 == 0 {
            return Poll::Ready(None);
        }
        self.0 -= 1;
        self.1.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(axum::body::Bytes::from_static(b"x"))))
    }
}

/// A body of which nothing ever comes.
fn futures_forever() -> impl futures_core::Stream<Item = Result<axum::body::Bytes, std::io::Error>> {
    struct Never;
    impl futures_core::Stream for Never {
        type Item = Result<axum::body::Bytes, std::io::Error>;
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Pending
        }
    }
    Never
}
