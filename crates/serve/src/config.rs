//! Settings of the server.

use crate::ServeError;
use flipcast_adapt::MethodConfig;
use flipcast_run::monitor::MonitorConfig;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A request that takes longer than a day is none.
const LONGEST_SECONDS: u64 = 86_400;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The folder of the state.
    pub state: PathBuf,
    /// The model's name in requests.
    pub model_name: String,
    /// Its version.
    pub model_version: String,
    /// Names of the classes; numbers where there are none.
    pub class_names: Vec<String>,
    /// How streams are watched.
    pub monitor: MonitorConfig,
    /// Who may do what.
    pub tokens: Tokens,
    /// What is refused.
    pub limits: Limits,
    /// Seconds for which images are kept, so that they can be shown to those who label them; nothing for not at all.
    pub keep_images: Option<u64>,
    /// Where alarms are sent.
    pub webhook: Option<Webhook>,
    /// Folders whose images are counted as they come.
    pub watch: Vec<WatchedFolder>,
    /// How the network adapts to every stream, if it does.
    pub adapt: Option<MethodConfig>,
    /// Certificate and key, for connections that are encrypted.
    pub tls: Option<TlsFiles>,
}

/// A folder whose images are counted as they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFolder {
    /// The folder.
    pub path: PathBuf,
    /// The stream that its images belong to.
    pub stream: String,
}

impl WatchedFolder {
    /// Reads `DIR` or `DIR=STREAM`; without one, the stream is called as the folder is.
    pub fn parse(text: &str) -> Self {
        let (path, stream) = match text.rsplit_once('=') {
            Some((path, stream)) => (PathBuf::from(path), Some(stream.to_owned())),
            None => (PathBuf::from(text), None),
        };
        let own_name = || path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stream = stream.unwrap_or_else(own_name);
        Self { path, stream }
    }
}

/// Files that encrypted connections need, as PEM. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Tokens that requests must carry; where there is none, anybody may.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// For reading.
    pub read: Option<String>,
    /// For reading and writing.
    pub write: Option<String>,
}

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Images of a request.
    pub request_images: usize,
    /// Pixels of an image.
    pub image_pixels: u64,
    /// Bytes of requests and images that wait, of all requests together. Beyond this, requests are told to come again.
    pub queue_bytes: usize,
    /// Seconds for which a request may arrive, be decoded, and wait for its answer.
    pub seconds: u64,
    /// Connections at the same time.
    pub connections: usize,
    /// Streams, idle ones included.
    pub streams: u64,
    /// Streams in memory.
    pub streams_in_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            request_images: 1024,
            image_pixels: 50_000_000,
            queue_bytes: 512 << 20,
            seconds: 30,
            connections: 4096,
            streams: 100_000,
            streams_in_memory: 2_000,
        }
    }
}

/// An address that takes alarms as JSON over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Host and port.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

impl Webhook {
    /// Reads `http://host[:port]/path`. Encrypted addresses need a relay beside the monitor.
    pub fn parse(url: &str) -> Result<Self, ServeError> {
        let refused = || ServeError::Setting {
            setting: "the address for alarms",
            found: url.to_owned(),
            expected: "http://host[:port]/path, without encryption",
        };
        let rest = url.strip_prefix("http://").ok_or_else(refused)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let fits = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || !fits(rest) {
            return Err(refused());
        }
        let authority = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
        Ok(Self { authority, path: if path.is_empty() { "/".to_owned() } else { path.to_owned() } })
    }
}

impl ServeConfig {
    /// Refuses settings that contradict each other or lie outside their range.
    pub fn check(&self) -> Result<(), ServeError> {
        self.monitor.check()?;
        if !self.listen.ip().is_loopback() && self.tokens.write.is_none() {
            return Err(ServeError::Unprotected { address: self.listen.to_string() });
        }
        if let Some(read) = &self.tokens.read {
            let refused = |found: &str, expected| {
                Err(ServeError::Setting { setting: "the token for writing", found: found.to_owned(), expected })
            };
            match &self.tokens.write {
                None => return refused("none", "one wherever reading needs one"),
                Some(write) if write == read => return refused("that for reading", "another one"),
                Some(_) => {}
            }
        }
        let limits = &self.limits;
        for (setting, found, least, expected) in [
            ("the limit of a body in bytes", limits.body_bytes as u64, 1024, "at least 1024"),
            ("the limit of images of a request", limits.request_images as u64, 1, "at least 1"),
            ("the limit of pixels of an image", limits.image_pixels, 1, "at least 1"),
            (
                "the limit of bytes that wait",
                limits.queue_bytes as u64,
                limits.body_bytes as u64,
                "at least that of a body",
            ),
            ("the limit of connections", limits.connections as u64, 1, "at least 1"),
            ("the limit of streams", limits.streams, 1, "at least 1"),
            ("the limit of streams in memory", limits.streams_in_memory as u64, 1, "at least 1"),
        ] {
            if found < least {
                return Err(ServeError::Setting { setting, found: found.to_string(), expected });
            }
        }
        if limits.seconds == 0 || limits.seconds > LONGEST_SECONDS {
            let (setting, found) = ("the limit of seconds", limits.seconds.to_string());
            return Err(ServeError::Setting { setting, found, expected: "1 to 86400" });
        }
        let is_name =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        for (setting, found) in [("the model's name", &self.model_name), ("the model's version", &self.model_version)] {
            if !is_name(found) {
                let expected = "letters, digits and . _ -";
                return Err(ServeError::Setting { setting, found: found.clone(), expected });
            }
        }
        Ok(())
    }
}
