//! Corruptions equal the reference implementation on the same random fields (`golden/corruptions`).

mod bank;
mod cases;
mod ccc;
mod jpeg_files;
mod stages;
mod statistics;
