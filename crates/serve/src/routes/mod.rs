//! Routes, and what holds for all of them.

mod access;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(not(feature = "grpc"))]
#[path = "grpc_left_out.rs"]
mod grpc;
mod inference;
mod labels;
mod page;
mod read;
mod sink;
mod streams;

use crate::server::App;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use std::sync::Arc;

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::page).post(sink::take))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .route("/charts.js", get(page::charts))
        .route("/metrics", get(streams::metrics))
        .route("/settings", get(streams::settings))
        .route("/watched", get(streams::watched))
        .route("/streams", get(streams::list))
        .route("/streams/{stream}", get(streams::show))
        .route("/streams/{stream}/windows", get(streams::windows))
        .route("/streams/{stream}/records", get(streams::records))
        .route("/streams/{stream}/images/{image}", get(labels::image))
        .route("/streams/{stream}/ask", get(labels::ask))
        .route("/streams/{stream}/reset", post(labels::reset))
        .route("/labels", post(labels::label))
        .route("/v2", get(inference::server))
        .route("/v2/health/live", get(inference::live))
        .route("/v2/health/ready", get(inference::ready))
        .route("/v2/models/{model}", get(inference::model))
        .route("/v2/models/{model}/ready", get(inference::model_ready))
        .route("/v2/models/{model}/infer", post(inference::infer))
        .route("/v2/models/{model}/versions/{version}", get(inference::model_version))
        .route("/v2/models/{model}/versions/{version}/ready", get(inference::model_version_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(inference::infer_version))
        .merge(grpc::routes())
        .fallback(page::no_such_page)
        .method_not_allowed_fallback(page::no_such_method)
        .layer(from_fn_with_state(app.clone(), access::guard))
        .with_state(app)
}
