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
    /// Gives the textures for `frost`. Making them by formula takes long, so a process that needs none makes none.
    pub frost: &'a dyn Fn() -> &'a FrostTextures,
}
