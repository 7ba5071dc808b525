//! The program as a user meets it: arguments in; text, files and exit codes out.

mod corrupt;
mod data;
mod engine;
mod models;
mod run;
mod scratch;
mod stream;
