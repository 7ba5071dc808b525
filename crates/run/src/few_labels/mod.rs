//! What can be said of images one by one, and what a few labels add.
//!
//! Takes a request's images and a temperature; gives which images to label ([`ImageGuesses::choose_images`]), what a
//! [`LabelFile`] says about the accuracy ([`ImageGuesses::with_labels`]), and what is expected of every class
//! ([`ImageGuesses::by_class`]). Guarantee: labels are used where they are asked for, and nowhere else.

mod answers;
mod error;
mod file;
mod guesses;
mod names;
#[cfg(test)]
mod tests;

pub use error::LabelFileError;
pub use file::{AskedImage, LabelFile, write_asked};
pub use guesses::{ImageGuesses, LabelSource, estimate_classes};
