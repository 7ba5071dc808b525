//! What a registry entry gets to work with.

use flipcast_images::Image;

use crate::frost_textures::FrostTextures;
use crate::rng::CounterRng;

/// One image to corrupt with one row of constants.
pub(crate) struct Job<'a> {
    /// The clean image, at least 1 x 1.
    pub image: &'a Image,
    /// The constants of the severity, in the order the corruption's file documents.
    pub row: &'a [f64],
    /// The stream of this image.
    pub rng: &'a mut CounterRng,
    /// Textures for `frost`.
    pub frost: &'a FrostTextures,
}
