//! The image operations that several corruptions share, one file each.
//!
//! Every operation reproduces the library call the published generators make, border rule, rounding and
//! summation order included, because a truncation to bytes turns the smallest difference into a whole level.
//!
//! Hot loops are plain Rust that `multiversion` compiles a second time for AVX2 and chooses at run time. Both builds give
//! the same bytes: sums keep their order, and the compiler never fuses a product into a sum. Closures inside such a
//! function belong to one build and keep library adaptors from being inlined, so helpers there are loops or
//! `#[inline(always)]` functions.

pub mod affine_warp;
pub mod bilinear;
pub mod border;
pub mod canny;
pub mod chamfer;
pub mod cubic_spline;
pub mod directional_blur;
pub mod disk_kernel;
pub mod fourier_noise;
pub mod gaussian_filter;
pub mod hsv;
pub mod jpeg;
pub mod pillow_resize;
pub mod pixels;
pub mod plasma;
pub mod rays;
pub mod summation;
pub mod zoom;
