//! The server as its clients see it.

mod access;
mod browser;
mod fixture;
mod inference;
mod labels;
mod limits;
mod logged;
mod port;
mod state;
