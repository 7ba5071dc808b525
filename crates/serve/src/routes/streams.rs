//! Streams as they stand.

use super::labels::class_name;
use crate::ApiError;
use crate::metrics::ServerGauges;
use crate::server::App;
use crate::streams::StreamError;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use flipcast_run::LooksAtImages;
use flipcast_run::monitor::{Monitor, Window, WindowKind};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::sync::Arc;

/// Streams of one answer, at most.
const MOST_STREAMS: usize = 500;
/// Windows of one answer, at most.
const MOST_WINDOWS: usize = 2000;

/// `?after=&limit=`.
#[derive(Deserialize)]
pub struct ListQuery {
    after: Option<String>,
    #[serde(default, deserialize_with = "count")]
    limit: Option<usize>,
}

/// `?kind=&limit=`.
#[derive(Deserialize)]
pub struct WindowQuery {
    kind: Option<WindowKind>,
    #[serde(default, deserialize_with = "count")]
    limit: Option<usize>,
}

pub async fn list(State(app): State<Arc<App>>, Query(query): Query<ListQuery>) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let limit = query.limit.unwrap_or(100).min(MOST_STREAMS);
        let stored = |error| StreamError::from(Box::new(error));
        let names = app.store.streams(query.after.as_deref().unwrap_or_default(), limit).map_err(stored)?;
        let count = app.store.count().map_err(stored)?;
        let mut streams = app.shared.lock();
        let mut rows = Vec::with_capacity(names.len());
        for name in &names {
            let row = streams.monitor(name).map(|monitor| summary(name, monitor));
            rows.push(row.unwrap_or_else(|error| json!({"stream": name, "error": error.to_string()})));
        }
        let next = (names.len() == limit).then(|| names.last().cloned()).flatten();
        Ok(json!({"count": count, "streams": rows, "next": next}))
    })
    .await
}

pub async fn show(State(app): State<Arc<App>>, Path(stream): Path<String>) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let (monitor, adapted) = {
            let mut streams = app.shared.lock();
            (streams.monitor(&stream)?.clone(), streams.adapted(&stream).cloned())
        };
        let report = monitor.report().map_err(StreamError::from)?;
        let mut value = serde_json::to_value(&report).unwrap_or_default();
        for windows in ["windows", "time_windows"] {
            value[windows].as_array_mut().into_iter().flatten().for_each(hide_sample);
        }
        hide_sample(&mut value["open"]);
        value["stream"] = stream.as_str().into();
        if let Some(adapted) = adapted {
            value["adapted"] = serde_json::to_value(adapted).unwrap_or_default();
        }
        Ok(value)
    })
    .await
}

pub async fn windows(
    State(app): State<Arc<App>>,
    Path(stream): Path<String>,
    Query(query): Query<WindowQuery>,
) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let windows = stored_windows(&app, &stream, &query)?;
        let windows = windows.iter().filter_map(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let mut windows: Vec<Value> = windows.collect();
        windows.iter_mut().for_each(hide_sample);
        Ok(json!({"stream": stream, "windows": windows}))
    })
    .await
}

/// Windows as records that `flipcast report` shows, one per line.
pub async fn records(
    State(app): State<Arc<App>>,
    Path(stream): Path<String>,
    Query(query): Query<WindowQuery>,
) -> Result<Response, ApiError> {
    let Json(lines) = blocking(move || {
        let level = app.config.monitor.level;
        let mut lines = String::new();
        for bytes in stored_windows(&app, &stream, &query)? {
            let Ok(window) = serde_json::from_slice::<Window>(&bytes) else { continue };
            let record = window.record(&stream, level).map_err(StreamError::from)?;
            lines += &serde_json::to_string(&record).unwrap_or_default();
            lines.push('\n');
        }
        Ok(Value::from(lines))
    })
    .await?;
    let lines = lines.as_str().unwrap_or_default().to_owned();
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

pub async fn settings(State(app): State<Arc<App>>) -> Json<Value> {
    let config = &app.config;
    let basis = app.shared.lock().basis().clone();
    let names: Vec<String> = (0..app.classes).map(|class| class_name(&app, class)).collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": config.model_name,
        "model_version": config.model_version,
        "predicts": app.preparation.is_some(),
        "classes": names,
        "clean_accuracy": basis.clean_accuracy(),
        "clean_shares": basis.clean_shares(),
        "monitor": config.monitor,
        "limits": config.limits,
        "keep_images_seconds": config.keep_images,
        "adapt": config.adapt,
        "estimates_gain": basis.estimates_gain(),
        "second_look": if basis.looks() == LooksAtImages::Twice { "batch_statistics" } else if basis.embedding_dims().is_some() { "recentred_embeddings" } else { "none" },
        "has_webhook": config.webhook.is_some(),
        "needs_token": {"read": config.tokens.read.is_some(), "write": config.tokens.write.is_some()},
    }))
}

/// Watched folders as they stand.
pub async fn watched(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"folders": app.watched.folders()}))
}

pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let Json(page) = blocking(move || {
        let count = app.store.count().map_err(|error| StreamError::from(Box::new(error)))?;
        let server = ServerGauges { stored: count, waiting: app.waiting(), files: app.watched.totals() };
        Ok(Value::from(app.shared.metrics.render(&app.shared.lock(), &server)))
    })
    .await?;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media_type)], page.as_str().unwrap_or_default().to_owned()).into_response())
}

fn summary(name: &str, monitor: &Monitor) -> Value {
    let state = monitor.state();
    let window = monitor.last_window(WindowKind::Count);
    let active: Vec<&str> =
        monitor.alarms().iter().filter(|alarm| alarm.active).map(|alarm| alarm.kind.name()).collect();
    let recent = monitor.windows_from(WindowKind::Count, 0).filter_map(|window| Some(window.best()?.accuracy));
    json!({
        "stream": name,
        "images": state.images(),
        "last_time": state.last_time(),
        "window": window.map(|window| window.number),
        "estimate": window.and_then(Window::best),
        "recent": recent.collect::<Vec<f64>>(),
        "labelled": window.is_some_and(|window| window.labelled.is_some()),
        "alarms": active,
    })
}

fn stored_windows(app: &App, stream: &str, query: &WindowQuery) -> Result<Vec<Vec<u8>>, StreamError> {
    app.shared.lock().monitor(stream)?;
    let kind = match query.kind.unwrap_or(WindowKind::Count) {
        WindowKind::Count => 0,
        WindowKind::Time => 1,
    };
    let limit = query.limit.unwrap_or(200).min(MOST_WINDOWS);
    app.store.windows(stream, kind, limit).map_err(|error| Box::new(error).into())
}

/// A number in an address.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = text.parse().ok().filter(|number| *number > 0);
    let found: String = text.chars().take(64).collect();
    number.map(Some).ok_or_else(|| D::Error::custom(format!("`{found}`, expected a whole number from 1 on")))
}

/// What only the monitor needs.
fn hide_sample(window: &mut Value) {
    if let Some(window) = window.as_object_mut() {
        window.remove("seen");
    }
}

/// Runs what waits for a lock or the disk where it may wait.
async fn blocking(work: impl FnOnce() -> Result<Value, StreamError> + Send + 'static) -> Result<Json<Value>, ApiError> {
    let stopping = |_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    Ok(Json(tokio::task::spawn_blocking(work).await.map_err(stopping)??))
}
