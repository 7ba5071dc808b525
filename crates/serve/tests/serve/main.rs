//! The server as its clients see it.

mod access;
mod adapted;
mod browser;
mod deploy;
mod fixture;
mod fuzz;
#[cfg(feature = "grpc")]
mod grpc;
mod inference;
mod labels;
mod limits;
mod logged;
mod port;
mod prometheus;
mod recentred;
mod state;
#[cfg(feature = "tls")]
mod tls;
mod watch;
mod webhook;
