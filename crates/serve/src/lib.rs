//! Edge: the monitor beside a running classifier. Requests come in, predictions go out, and every stream of images is watched.
//!
//! Takes a model and its calibration, or a calibration of outputs alone; speaks the Open Inference Protocol v2 over HTTP and gRPC, takes
//! KServe's logged CloudEvents, and serves a page, metrics and an interface for labels. No number is computed here: predictions
//! come from the network, everything else from [`flipcast_run::monitor`].
//!
//! Guarantees: an image is on disk before its request is answered, and a request that is sent again with its id is counted
//! once; whatever moment the process is killed at, the state is that of the answered requests, perhaps with some whose answers were
//! lost. Memory is bounded by the limits, whatever comes.
//!
//! ```text
//! request -> decode (limited) -> queue (bounded) -> engine thread: batches across streams, second looks
//!         -> streams (in memory, idle ones on disk) -> writer thread: one transaction for all that waits -> answer
//! ```
#![forbid(unsafe_code)]

mod adaptation;
mod api_error;
mod config;
mod connections;
mod engine;
mod error;
mod event;
mod feeder;
mod log;
mod metrics;
mod network;
mod prepared;
mod protocol;
mod routes;
mod server;
mod store;
mod streams;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_left_out.rs"]
mod tls;
mod watch;
mod webhook;
mod writer;

pub use config::{Limits, ServeConfig, TlsFiles, Tokens, WatchedFolder, Webhook};
pub use error::ServeError;
pub use feeder::Feeder;
pub use log::Log;
pub use server::{Server, Subject};

use api_error::ApiError;
use writer::Writer;
