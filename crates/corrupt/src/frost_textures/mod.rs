//! The pictures that the `frost` corruption lays over an image.
//!
//! The published generator ships six photographs without a licence and uses five of them, two of which hold the same
//! pixels. They are not part of this crate: [`FrostTextures::procedural`] makes textures with the same sizes, mean
//! colours and spreads, and [`FrostTextures::from_folder`] reads the originals where somebody has them.

mod folder;
mod procedural;
mod scale;

pub use folder::{FROST_FILES, FrostError};
pub use scale::FrostTextures;
