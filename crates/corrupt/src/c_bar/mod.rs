//! The corruptions of ImageNet-C-bar and CIFAR-10-C-bar, one file each.
//!
//! The constant of a severity is a number `s`; a strength with maximum `top` is `s * top / 10`. Work is on bytes, the
//! result is clipped and truncated. Shares of the side refer to the shorter side of images that are not square.
//! "cocentric" and "abberation" are the published names.

pub mod blue_noise_sample;
pub mod brownish_noise;
pub mod caustic_refraction;
pub mod checkerboard_cutout;
pub mod circular_motion_blur;
pub mod cocentric_sine_waves;
pub mod inverse_sparkles;
mod level;
pub mod lines;
pub mod perlin_noise;
pub mod pinch_and_twirl;
pub mod plasma_noise;
pub mod ripple;
pub mod single_frequency_greyscale;
pub mod sparkles;
pub mod transverse_chromatic_abberation;

pub use level::Level;
