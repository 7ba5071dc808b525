//! What the server says of itself: one JSON object per line on stderr.

use serde_json::{Map, Value};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where lines go.
#[derive(Clone)]
pub struct Log(Arc<Mutex<dyn Write + Send>>);

impl Log {
    /// To stderr.
    pub fn stderr() -> Self {
        Self::new(std::io::stderr())
    }

    /// To `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }

    /// Something worth knowing.
    pub fn info(&self, event: &str, fields: &[(&str, Value)]) {
        self.line("info", event, fields);
    }

    /// Something that went wrong.
    pub fn error(&self, event: &str, fields: &[(&str, Value)]) {
        self.line("error", event, fields);
    }

    fn line(&self, level: &str, event: &str, fields: &[(&str, Value)]) {
        let mut object = Map::new();
        object.insert("time".to_owned(), now().into());
        object.insert("level".to_owned(), level.into());
        object.insert("event".to_owned(), event.into());
        object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let line = format!("{}\n", Value::Object(object));
        // A log that cannot be written is no reason to stop.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
