//! A build without gRPC.

use crate::server::App;
use axum::Router;
use std::sync::Arc;

/// No routes.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
}
