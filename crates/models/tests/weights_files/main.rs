//! Weight files: good ones give the values of the library that wrote them, bad ones the error that says why.
#![forbid(unsafe_code)]

mod build;
mod golden;
mod malformed_pickle;
mod malformed_program;
mod malformed_safetensors;
mod malformed_torch;
mod malformed_zip;
