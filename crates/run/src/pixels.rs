use flipcast_adapt::PixelSpace;
use flipcast_images::preprocess::{Normalise, Preprocess};

/// How the values of a network with this preprocessing relate to pixels, for methods that augment images
/// ([`MethodConfig::with_pixels`](flipcast_adapt::MethodConfig::with_pixels)).
pub fn pixel_space(preprocess: &Preprocess) -> PixelSpace {
    match preprocess.normalise {
        Normalise::MeanStd { mean, std } => PixelSpace::Normalised { mean, std },
        _ => PixelSpace::AsIs,
    }
}
