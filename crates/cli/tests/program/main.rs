//! The program as a user meets it: arguments in; text, files and exit codes out.

mod adapt;
mod advising;
mod agreeing;
mod analysing;
mod calibrating;
mod corrupt;
mod data;
mod engine;
mod estimating;
mod labelling;
mod manners;
mod models;
mod outputs_alone;
mod report;
mod run;
mod runs;
mod scratch;
#[cfg(feature = "serve")]
mod serving;
mod stream;
mod study;
mod tiny_model;
