//! The 19 corruptions of ImageNet-C, Tiny-ImageNet-C and CIFAR-10-C, one file each.
//!
//! Every file has the constants of one severity, the random field where there is one, `draw` (generator to field) and
//! `apply` (image, constants and field to image). Two callers that inject the same field get the same bytes.

pub mod brightness;
pub mod contrast;
pub mod defocus_blur;
pub mod elastic_transform;
pub mod fog;
pub mod frost;
pub mod gaussian_blur;
pub mod gaussian_noise;
pub mod glass_blur;
pub mod impulse_noise;
pub mod jpeg_compression;
pub mod motion_blur;
pub mod pixelate;
pub mod saturate;
pub mod shot_noise;
pub mod snow;
pub mod spatter;
pub mod speckle_noise;
pub mod zoom_blur;
