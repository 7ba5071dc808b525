//! The table itself: one line per corruption and set, constants of severities 1 to 5.
//!
//! ImageNet-C, Tiny-ImageNet-C and CIFAR-10-C follow the generators of Hendrycks and Dietterich (2019), the C-bar sets
//! those of Mintun, Kirillov and Xie (2021), whose single constant is a severity number. The ImageNet elastic constants
//! are multiples of 244 as published, the Tiny-ImageNet ones of 64, the CIFAR ones of 32.

use flipcast_images::Image;

use super::lookup::Entry;
use crate::c_bar::*;
use crate::imagenet_c::*;
use crate::job::Job;
use crate::set::CorruptionSet::{self, CifarC, CifarCBar, ImageNetC, ImageNetCBar, TinyImageNetC};

const fn entry(
    set: CorruptionSet,
    name: &'static str,
    run: fn(&mut Job<'_>) -> Image,
    rows: [&'static [f64]; 5],
) -> Entry {
    Entry { set, name, rows, run }
}

#[rustfmt::skip]
pub const TABLE: [Entry; 77] = [
    entry(ImageNetC, "gaussian_noise", gaussian_noise::run, [&[0.08], &[0.12], &[0.18], &[0.26], &[0.38]]),
    entry(ImageNetC, "shot_noise", shot_noise::run, [&[60.0], &[25.0], &[12.0], &[5.0], &[3.0]]),
    entry(ImageNetC, "impulse_noise", impulse_noise::run, [&[0.03], &[0.06], &[0.09], &[0.17], &[0.27]]),
    entry(ImageNetC, "defocus_blur", defocus_blur::run, [&[3.0, 0.1], &[4.0, 0.5], &[6.0, 0.5], &[8.0, 0.5], &[10.0, 0.5]]),
    entry(ImageNetC, "glass_blur", glass_blur::run, [&[0.7, 1.0, 2.0], &[0.9, 2.0, 1.0], &[1.0, 2.0, 3.0], &[1.1, 3.0, 2.0], &[1.5, 4.0, 2.0]]),
    entry(ImageNetC, "motion_blur", motion_blur::run, [&[10.0, 3.0], &[15.0, 5.0], &[15.0, 8.0], &[15.0, 12.0], &[20.0, 15.0]]),
    entry(ImageNetC, "zoom_blur", zoom_blur::run, [&[1.0, 1.11, 0.01], &[1.0, 1.16, 0.01], &[1.0, 1.21, 0.02], &[1.0, 1.26, 0.02], &[1.0, 1.31, 0.03]]),
    entry(ImageNetC, "snow", snow::run, [&[0.1, 0.3, 3.0, 0.5, 10.0, 4.0, 0.8], &[0.2, 0.3, 2.0, 0.5, 12.0, 4.0, 0.7], &[0.55, 0.3, 4.0, 0.9, 12.0, 8.0, 0.7], &[0.55, 0.3, 4.5, 0.85, 12.0, 8.0, 0.65], &[0.55, 0.3, 2.5, 0.85, 12.0, 12.0, 0.55]]),
    entry(ImageNetC, "frost", frost::run, [&[1.0, 0.4], &[0.8, 0.6], &[0.7, 0.7], &[0.65, 0.7], &[0.6, 0.75]]),
    entry(ImageNetC, "fog", fog::run, [&[1.5, 2.0], &[2.0, 2.0], &[2.5, 1.7], &[2.5, 1.5], &[3.0, 1.4]]),
    entry(ImageNetC, "brightness", brightness::run, [&[0.1], &[0.2], &[0.3], &[0.4], &[0.5]]),
    entry(ImageNetC, "contrast", contrast::run, [&[0.4], &[0.3], &[0.2], &[0.1], &[0.05]]),
    entry(ImageNetC, "elastic_transform", elastic_transform::run, [&[488.0, 170.79999999999998, 24.400000000000002], &[488.0, 19.52, 48.800000000000004], &[12.200000000000001, 2.44, 4.88], &[17.080000000000002, 2.44, 4.88], &[29.279999999999998, 2.44, 4.88]]),
    entry(ImageNetC, "pixelate", pixelate::run, [&[0.6], &[0.5], &[0.4], &[0.3], &[0.25]]),
    entry(ImageNetC, "jpeg_compression", jpeg_compression::run, [&[25.0], &[18.0], &[15.0], &[10.0], &[7.0]]),
    entry(ImageNetC, "speckle_noise", speckle_noise::run, [&[0.15], &[0.2], &[0.35], &[0.45], &[0.6]]),
    entry(ImageNetC, "gaussian_blur", gaussian_blur::run, [&[1.0], &[2.0], &[3.0], &[4.0], &[6.0]]),
    entry(ImageNetC, "spatter", spatter::run, [&[0.65, 0.3, 4.0, 0.69, 0.6, 0.0], &[0.65, 0.3, 3.0, 0.68, 0.6, 0.0], &[0.65, 0.3, 2.0, 0.68, 0.5, 0.0], &[0.65, 0.3, 1.0, 0.65, 1.5, 1.0], &[0.67, 0.4, 1.0, 0.65, 1.5, 1.0]]),
    entry(ImageNetC, "saturate", saturate::run, [&[0.3, 0.0], &[0.1, 0.0], &[2.0, 0.0], &[5.0, 0.1], &[20.0, 0.2]]),
    entry(TinyImageNetC, "gaussian_noise", gaussian_noise::run, [&[0.04], &[0.08], &[0.12], &[0.15], &[0.18]]),
    entry(TinyImageNetC, "shot_noise", shot_noise::run, [&[250.0], &[100.0], &[50.0], &[30.0], &[15.0]]),
    entry(TinyImageNetC, "impulse_noise", impulse_noise::run, [&[0.01], &[0.02], &[0.05], &[0.08], &[0.14]]),
    entry(TinyImageNetC, "defocus_blur", defocus_blur::run, [&[0.5, 0.6], &[1.0, 0.1], &[1.5, 0.1], &[2.5, 0.01], &[3.0, 0.1]]),
    entry(TinyImageNetC, "glass_blur", glass_blur::run, [&[0.1, 1.0, 1.0], &[0.5, 1.0, 1.0], &[0.6, 1.0, 2.0], &[0.7, 2.0, 1.0], &[0.9, 2.0, 2.0]]),
    entry(TinyImageNetC, "motion_blur", motion_blur::run, [&[10.0, 1.0], &[10.0, 1.5], &[10.0, 2.0], &[10.0, 2.5], &[12.0, 3.0]]),
    entry(TinyImageNetC, "zoom_blur", zoom_blur::run, [&[1.0, 1.06, 0.01], &[1.0, 1.11, 0.01], &[1.0, 1.16, 0.01], &[1.0, 1.21, 0.01], &[1.0, 1.26, 0.01]]),
    entry(TinyImageNetC, "snow", snow::run, [&[0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.8], &[0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.8], &[0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.7], &[0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.65], &[0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.6]]),
    entry(TinyImageNetC, "frost", frost::run, [&[1.0, 0.3], &[0.9, 0.4], &[0.8, 0.45], &[0.75, 0.5], &[0.7, 0.55]]),
    entry(TinyImageNetC, "fog", fog::run, [&[0.4, 3.0], &[0.7, 3.0], &[1.0, 2.5], &[1.5, 2.0], &[2.0, 1.75]]),
    entry(TinyImageNetC, "brightness", brightness::run, [&[0.1], &[0.2], &[0.3], &[0.4], &[0.5]]),
    entry(TinyImageNetC, "contrast", contrast::run, [&[0.4], &[0.3], &[0.2], &[0.1], &[0.05]]),
    entry(TinyImageNetC, "elastic_transform", elastic_transform::run, [&[0.0, 0.0, 5.12], &[3.2, 19.2, 3.84], &[6.4, 5.12, 3.84], &[6.4, 1.92, 1.92], &[10.24, 1.92, 1.28]]),
    entry(TinyImageNetC, "pixelate", pixelate::run, [&[0.9], &[0.8], &[0.7], &[0.6], &[0.5]]),
    entry(TinyImageNetC, "jpeg_compression", jpeg_compression::run, [&[65.0], &[58.0], &[50.0], &[40.0], &[25.0]]),
    entry(TinyImageNetC, "speckle_noise", speckle_noise::run, [&[0.15], &[0.2], &[0.25], &[0.3], &[0.35]]),
    entry(TinyImageNetC, "gaussian_blur", gaussian_blur::run, [&[0.5], &[0.75], &[1.0], &[1.25], &[1.5]]),
    entry(TinyImageNetC, "spatter", spatter::run, [&[0.62, 0.1, 0.7, 0.7, 0.6, 0.0], &[0.65, 0.1, 0.8, 0.7, 0.6, 0.0], &[0.65, 0.3, 1.0, 0.69, 0.6, 0.0], &[0.65, 0.1, 0.7, 0.68, 0.6, 1.0], &[0.65, 0.1, 0.5, 0.67, 0.6, 1.0]]),
    entry(TinyImageNetC, "saturate", saturate::run, [&[0.3, 0.0], &[0.1, 0.0], &[2.0, 0.0], &[5.0, 0.1], &[30.0, 0.2]]),
    entry(CifarC, "gaussian_noise", gaussian_noise::run, [&[0.04], &[0.06], &[0.08], &[0.09], &[0.1]]),
    entry(CifarC, "shot_noise", shot_noise::run, [&[500.0], &[250.0], &[100.0], &[75.0], &[50.0]]),
    entry(CifarC, "impulse_noise", impulse_noise::run, [&[0.01], &[0.02], &[0.03], &[0.05], &[0.07]]),
    entry(CifarC, "defocus_blur", defocus_blur::run, [&[0.3, 0.4], &[0.4, 0.5], &[0.5, 0.6], &[1.0, 0.2], &[1.5, 0.1]]),
    entry(CifarC, "glass_blur", glass_blur::run, [&[0.05, 1.0, 1.0], &[0.25, 1.0, 1.0], &[0.4, 1.0, 1.0], &[0.25, 1.0, 2.0], &[0.4, 1.0, 2.0]]),
    entry(CifarC, "motion_blur", motion_blur::run, [&[6.0, 1.0], &[6.0, 1.5], &[6.0, 2.0], &[8.0, 2.0], &[9.0, 2.5]]),
    entry(CifarC, "zoom_blur", zoom_blur::run, [&[1.0, 1.06, 0.01], &[1.0, 1.11, 0.01], &[1.0, 1.16, 0.01], &[1.0, 1.21, 0.01], &[1.0, 1.26, 0.01]]),
    entry(CifarC, "snow", snow::run, [&[0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.95], &[0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.9], &[0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.9], &[0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.85], &[0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.8]]),
    entry(CifarC, "frost", frost::run, [&[1.0, 0.2], &[1.0, 0.3], &[0.9, 0.4], &[0.85, 0.4], &[0.75, 0.45]]),
    entry(CifarC, "fog", fog::run, [&[0.2, 3.0], &[0.5, 3.0], &[0.75, 2.5], &[1.0, 2.0], &[1.5, 1.75]]),
    entry(CifarC, "brightness", brightness::run, [&[0.05], &[0.1], &[0.15], &[0.2], &[0.3]]),
    entry(CifarC, "contrast", contrast::run, [&[0.75], &[0.5], &[0.4], &[0.3], &[0.15]]),
    entry(CifarC, "elastic_transform", elastic_transform::run, [&[0.0, 0.0, 2.56], &[1.6, 6.4, 2.24], &[2.56, 1.92, 1.92], &[3.2, 1.28, 1.6], &[3.2, 0.96, 0.96]]),
    entry(CifarC, "pixelate", pixelate::run, [&[0.95], &[0.9], &[0.85], &[0.75], &[0.65]]),
    entry(CifarC, "jpeg_compression", jpeg_compression::run, [&[80.0], &[65.0], &[58.0], &[50.0], &[40.0]]),
    entry(CifarC, "speckle_noise", speckle_noise::run, [&[0.06], &[0.1], &[0.12], &[0.16], &[0.2]]),
    entry(CifarC, "gaussian_blur", gaussian_blur::run, [&[0.4], &[0.6], &[0.7], &[0.8], &[1.0]]),
    entry(CifarC, "spatter", spatter::run, [&[0.62, 0.1, 0.7, 0.7, 0.5, 0.0], &[0.65, 0.1, 0.8, 0.7, 0.5, 0.0], &[0.65, 0.3, 1.0, 0.69, 0.5, 0.0], &[0.65, 0.1, 0.7, 0.69, 0.6, 1.0], &[0.65, 0.1, 0.5, 0.68, 0.6, 1.0]]),
    entry(CifarC, "saturate", saturate::run, [&[0.3, 0.0], &[0.1, 0.0], &[1.5, 0.0], &[2.0, 0.1], &[2.5, 0.2]]),
    entry(ImageNetCBar, "blue_noise_sample", blue_noise_sample::run, [&[0.8], &[1.6], &[2.4], &[4.0], &[5.6]]),
    entry(ImageNetCBar, "plasma_noise", plasma_noise::run, [&[4.75], &[7.0], &[8.5], &[9.25], &[10.0]]),
    entry(ImageNetCBar, "checkerboard_cutout", checkerboard_cutout::run, [&[2.0], &[3.0], &[4.0], &[5.0], &[6.0]]),
    entry(ImageNetCBar, "cocentric_sine_waves", cocentric_sine_waves::run, [&[3.0], &[5.0], &[8.0], &[9.0], &[10.0]]),
    entry(ImageNetCBar, "single_frequency_greyscale", single_frequency_greyscale::run, [&[1.0], &[1.5], &[2.0], &[4.5], &[5.0]]),
    entry(ImageNetCBar, "brownish_noise", brownish_noise::run, [&[1.0], &[2.0], &[3.0], &[4.0], &[5.0]]),
    entry(ImageNetCBar, "perlin_noise", perlin_noise::run, [&[4.6], &[5.2], &[5.8], &[7.6], &[8.8]]),
    entry(ImageNetCBar, "sparkles", sparkles::run, [&[1.0], &[2.0], &[3.0], &[5.0], &[6.0]]),
    entry(ImageNetCBar, "inverse_sparkles", inverse_sparkles::run, [&[1.0], &[2.0], &[4.0], &[9.0], &[10.0]]),
    entry(ImageNetCBar, "caustic_refraction", caustic_refraction::run, [&[2.35], &[3.2], &[4.9], &[6.6], &[9.15]]),
    entry(CifarCBar, "blue_noise_sample", blue_noise_sample::run, [&[0.7], &[1.4], &[2.1], &[3.5], &[4.2]]),
    entry(CifarCBar, "checkerboard_cutout", checkerboard_cutout::run, [&[1.0], &[2.0], &[3.0], &[4.0], &[5.0]]),
    entry(CifarCBar, "inverse_sparkles", inverse_sparkles::run, [&[1.0], &[1.5], &[2.5], &[4.5], &[5.0]]),
    entry(CifarCBar, "pinch_and_twirl", pinch_and_twirl::run, [&[5.5], &[6.0], &[6.5], &[8.5], &[10.0]]),
    entry(CifarCBar, "ripple", ripple::run, [&[5.5], &[6.0], &[6.5], &[7.5], &[8.0]]),
    entry(CifarCBar, "brownish_noise", brownish_noise::run, [&[2.5], &[4.0], &[5.5], &[6.5], &[7.0]]),
    entry(CifarCBar, "circular_motion_blur", circular_motion_blur::run, [&[2.8], &[3.6], &[4.4], &[5.2], &[6.0]]),
    entry(CifarCBar, "lines", lines::run, [&[0.5], &[1.0], &[1.5], &[2.0], &[2.5]]),
    entry(CifarCBar, "sparkles", sparkles::run, [&[0.7], &[3.5], &[5.6], &[6.3], &[7.0]]),
    entry(CifarCBar, "transverse_chromatic_abberation", transverse_chromatic_abberation::run, [&[1.0], &[2.0], &[5.0], &[9.0], &[10.0]]),
];
