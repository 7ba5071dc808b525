//! Connections: how many there may be at once, how long they may say nothing, and how they end.

use crate::Limits;
use axum::Router;
use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Answers requests until `stop` says so; then open ones are answered, and no more begin.
///
/// A connection that sends no whole head of a request in the time that a request may take is closed, so that those who say nothing do not keep
/// others out; beyond the limit, connections wait until one ends.
pub async fn serve_connections(
    mut listener: impl Listener,
    router: Router,
    stop: impl Future<Output = ()>,
    limits: Limits,
) {
    let silence = Duration::from_secs(limits.seconds);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(silence);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(silence)).keep_alive_timeout(silence);
    let places = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await.0, place)
        };
        let (stream, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let began = Arc::new(AtomicBool::new(false));
        let (router, seen) = (router.clone(), began.clone());
        let service = hyper::service::service_fn(move |request| {
            seen.store(true, Ordering::Relaxed);
            router.clone().oneshot(request)
        });
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
        tokio::spawn(async move {
            let _place = place;
            let mut connection = pin!(connection);
            // Until the first bytes tell which protocol it is, neither protocol's limit holds.
            tokio::select! {
                _ = &mut connection => return,
                () = tokio::time::sleep(silence) => {}
            }
            if began.load(Ordering::Relaxed) {
                // What goes wrong on a connection is its client's affair.
                let _ = connection.await;
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}
