//! Questions, labels and alarms that are taken back.

use super::read::read_body;
use super::streams::count;
use crate::ApiError;
use crate::event::Event;
use crate::server::App;
use crate::streams::StreamError;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flipcast_ground::nearest_quoted;
use flipcast_run::monitor::{MonitorQuestion, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Labels of one request, at most.
const MOST_LABELS: usize = 1000;

/// `?n=`.
#[derive(Deserialize)]
pub struct AskQuery {
    #[serde(default, deserialize_with = "count")]
    n: Option<usize>,
}

pub async fn ask(
    State(app): State<Arc<App>>,
    Path(stream): Path<String>,
    Query(query): Query<AskQuery>,
) -> Result<Json<Value>, ApiError> {
    let asked = record(&app, stream.clone(), vec![Event::Asked { questions: query.n.unwrap_or(20) }]).await?;
    let keeps = app.config.keep_images.is_some();
    let question = |question: &MonitorQuestion| {
        json!({
            "image": question.image,
            "predicted": question.predicted,
            "predicted_name": class_name(&app, question.predicted),
            "guess": question.guess,
            "is_kept": keeps && matches!(app.store.image(&stream, question.image), Ok(Some(_))),
        })
    };
    Ok(Json(json!({"stream": stream, "questions": asked.iter().map(question).collect::<Vec<_>>()})))
}

/// What `POST /labels` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    stream: String,
    labels: Vec<Label>,
}

/// A class by number or by name, or whether the prediction is right.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    image: u64,
    #[serde(default)]
    class: Option<Value>,
    #[serde(default)]
    right: Option<bool>,
}

pub async fn label(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Result<Json<Value>, ApiError> {
    let (body, _held) = read_body(&app, &headers, body).await?;
    let labels: Labels = serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("the body holds no labels: {error}")))?;
    if labels.labels.is_empty() || labels.labels.len() > MOST_LABELS {
        let found = labels.labels.len();
        return Err(ApiError::bad_request(format!("there are {found} labels, expected 1 to {MOST_LABELS}")));
    }
    let mut events = Vec::with_capacity(labels.labels.len());
    for label in &labels.labels {
        let verdict = match (&label.class, label.right) {
            (None, Some(right)) => Verdict::Right(right),
            (Some(class), None) => Verdict::Class(class_number(&app, class)?),
            (class, _) => {
                let found = if class.is_some() { "both `class` and `right`" } else { "neither `class` nor `right`" };
                let message = format!("the label of image {} has {found}, expected one of them", label.image);
                return Err(ApiError::bad_request(message));
            }
        };
        events.push(Event::Label { image: label.image, verdict });
    }
    let counted = events.len();
    record(&app, labels.stream, events).await?;
    Ok(Json(json!({"counted": counted})))
}

pub async fn reset(State(app): State<Arc<App>>, Path(stream): Path<String>) -> Result<Json<Value>, ApiError> {
    record(&app, stream, vec![Event::Reset]).await?;
    Ok(Json(json!({"reset": true})))
}

pub async fn image(
    State(app): State<Arc<App>>,
    Path((stream, image)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let number: u64 = image.parse().map_err(|_| {
        let found: String = image.chars().take(64).collect();
        ApiError::bad_request(format!("the image is `{found}`, expected its number in the stream"))
    })?;
    let found = tokio::task::spawn_blocking({
        let app = app.clone();
        move || {
            let found = app.store.image(&stream, number).map_err(|error| StreamError::from(Box::new(error)))?;
            if found.is_none() {
                app.shared.lock().monitor(&stream)?;
            }
            Ok::<_, StreamError>(found)
        }
    });
    let stopping = |_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    let missing = || {
        let hint = match app.config.keep_images {
            Some(seconds) => format!("images are kept for {} hours", seconds as f64 / 3600.0),
            None => "images are kept where `--keep-images` says for how long".to_owned(),
        };
        ApiError::new(StatusCode::NOT_FOUND, format!("image {number} is not kept")).with_hint(hint)
    };
    let (media_type, bytes) = found.await.map_err(stopping)??.ok_or_else(missing)?;
    let headers =
        [(header::CONTENT_TYPE, media_type), (header::CONTENT_SECURITY_POLICY, "default-src 'none'".to_owned())];
    Ok((headers, bytes).into_response())
}

/// Applies events to a stream that exists, and waits until they are on disk. Of several, none is kept where one is refused.
async fn record(app: &Arc<App>, stream: String, events: Vec<Event>) -> Result<Vec<MonitorQuestion>, ApiError> {
    let (written, done) = oneshot::channel();
    let app = app.clone();
    let work = tokio::task::spawn_blocking(move || {
        let mut streams = app.shared.lock();
        let monitor = streams.monitor(&stream)?;
        // Tried on a copy first: a stream takes all events or none.
        let mut trial = monitor.clone();
        for event in &events {
            match event {
                Event::Label { image, verdict } => trial.label(*image, *verdict).map_err(StreamError::from)?,
                Event::Asked { questions } => drop(trial.ask(*questions).map_err(StreamError::from)?),
                Event::Reset
                | Event::Images { .. }
                | Event::SecondLook { .. }
                | Event::EarlyLook { .. }
                | Event::Adapted { .. }
                | Event::AdaptedLook { .. }
                | Event::Embedded { .. } => {}
            }
        }
        let mut writes = Vec::new();
        let mut applied = streams.apply(&stream, events, &mut writes)?;
        let questions = std::mem::take(&mut applied.questions);
        streams.take_raised().into_iter().for_each(|alarm| drop(app.shared.alarms.send(alarm)));
        streams.commit(writes, vec![applied], |is_written| {
            let _ = written.send(is_written);
        });
        Ok::<_, StreamError>(questions)
    });
    let stopping = |_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    let questions = work.await.map_err(stopping)??;
    match done.await {
        Ok(true) => Ok(questions),
        _ => Err(ApiError::unavailable()),
    }
}

/// A class as people call it.
pub fn class_name(app: &App, class: usize) -> String {
    app.config.class_names.get(class).cloned().unwrap_or_else(|| class.to_string())
}

fn class_number(app: &App, class: &Value) -> Result<usize, ApiError> {
    let by_name = |name: &str| app.config.class_names.iter().position(|known| known == name);
    let number = match class {
        Value::String(name) => by_name(name),
        number => {
            number.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|number| *number < app.classes)
        }
    };
    number.ok_or_else(|| {
        let class: String = class.to_string().chars().take(64).collect();
        let near = nearest_quoted(&class, app.config.class_names.iter().map(String::as_str));
        let names =
            if app.config.class_names.is_empty() { String::new() } else { format!(" or a name such as {near}") };
        ApiError::bad_request(format!("there is no class {class}, expected a number below {}{names}", app.classes))
    })
}
