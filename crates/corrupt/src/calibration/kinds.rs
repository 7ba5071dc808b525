//! The names of the family.

/// The kinds of [`CorruptionSet::Calibration`](crate::CorruptionSet::Calibration), in the order of the registry.
///
/// Each has severities 1 to 5 and is written as `rotate:3` or `calibration/rotate:3`.
pub const CALIBRATION_KINDS: &[&str] = &[
    "rotate",
    "shear",
    "zoom_out",
    "downscale",
    "median_blur",
    "ghost",
    "wavelet",
    "colour_depth",
    "hue_shift",
    "colour_cast",
    "desaturate",
    "solarize",
    "occlude",
    "vignette",
    "tile_shuffle",
    "sharpen",
    "banding",
    "film_grain",
];
