//! Connections of a build without encryption.

use crate::connections::serve_connections;
use crate::{Limits, Log, ServeError, TlsFiles};
use axum::Router;
use std::future::Future;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Refuses any.
pub fn check_tls(files: Option<&TlsFiles>) -> Result<(), ServeError> {
    if files.is_some() { Err(ServeError::NoTls) } else { Ok(()) }
}

/// Answers requests until `stop` says so; whether there are files was asked before.
pub fn spawn_serving(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
    files: Option<TlsFiles>,
    limits: Limits,
    _: &Log,
) -> Result<JoinHandle<()>, ServeError> {
    check_tls(files.as_ref())?;
    Ok(tokio::spawn(serve_connections(listener, router, stop, limits)))
}
