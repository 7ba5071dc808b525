//! flipcast's own family of 18 shifts to calibrate with, one file each.
//!
//! Estimates are fitted on labelled images under known shifts and then used under unknown ones. A handful of published
//! corruptions cannot stand for the world, and those of ImageNet-C and C-bar are what estimates are tested on. This family
//! holds none of those. The nearest relatives are `downscale` and `pixelate`, `desaturate` and `saturate`, `occlude` and
//! `checkerboard_cutout`, `tile_shuffle` and `glass_blur`; each pair differs in what is done to the pixels.
//!
//! | group | kinds |
//! |---|---|
//! | geometry | `rotate`, `shear`, `zoom_out` |
//! | resolution and blur | `downscale`, `median_blur`, `ghost` |
//! | compression | `wavelet`, `colour_depth` |
//! | colour | `hue_shift`, `colour_cast`, `desaturate`, `solarize` |
//! | occlusion | `occlude`, `vignette` |
//! | texture | `tile_shuffle`, `sharpen` |
//! | noise | `banding`, `film_grain` |
//!
//! Every length is a share of the image's shorter side, so that one row of constants serves 32, 64 and 224 pixels; only
//! `downscale` and `wavelet` know the pixel grid. Results
//! are rounded, not truncated, and there is no storage step. The constants were chosen so that severity 1 costs an
//! ordinary network little and severity 5 much. They were tuned on a few hundred clean images, of CIFAR-100 with a
//! ResNet-26 and of Tiny-ImageNet with a ResNet-18; no corruption of a test set was looked at.
//!
//! ```
//! use flipcast_corrupt::{CALIBRATION_KINDS, CorruptionRequest, Storage};
//!
//! assert!(CALIBRATION_KINDS.contains(&"rotate"));
//! let request: CorruptionRequest = "rotate:3".parse()?;
//! assert_eq!(request.resolve(224, 224)?.to_string(), "calibration/rotate:3");
//! assert_eq!(request.storage_at(224, 224)?, Storage::None);
//! # Ok::<(), flipcast_corrupt::CorruptError>(())
//! ```

pub(crate) mod banding;
pub(crate) mod colour_cast;
pub(crate) mod colour_depth;
mod colour_matrix;
pub(crate) mod desaturate;
pub(crate) mod downscale;
pub(crate) mod film_grain;
pub(crate) mod ghost;
pub(crate) mod hue_shift;
mod kinds;
pub(crate) mod median_blur;
pub(crate) mod occlude;
pub(crate) mod rotate;
pub(crate) mod sharpen;
pub(crate) mod shear;
mod signed;
pub(crate) mod solarize;
pub(crate) mod tile_shuffle;
pub(crate) mod vignette;
mod warp;
pub(crate) mod wavelet;
pub(crate) mod zoom_out;

pub use kinds::CALIBRATION_KINDS;

#[cfg(test)]
mod tests;
