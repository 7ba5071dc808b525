//! `transverse_chromatic_abberation`: enlarges the channels by different factors.
//!
//! Sampling is a cubic B-spline without prefilter, so that even factor 1 smooths, as published.

use flipcast_images::Image;

use super::level::Level;
use crate::blocks::cubic_spline::{centred_zoom_positions, sample};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// Which of the three factors each channel gets, 0 the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// A permutation of 0, 1, 2.
    pub order: [usize; 3],
}

/// Draws the order.
pub fn draw(rng: &mut CounterRng) -> Field {
    let mut order = [0, 1, 2];
    for i in [2, 1] {
        order.swap(i, rng.index(i + 1));
    }
    Field { order }
}

/// Enlarges the channels.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let (width, height) = (image.width(), image.height());
    let extra = level.of(0.5);
    let factors = [1.0, 1.0 + extra / 2.0, 1.0 + extra];
    let mut rgb = vec![0; image.rgb().len()];
    for (channel, &which) in field.order.iter().enumerate() {
        let plane: Vec<f64> = image.rgb().iter().skip(channel).step_by(3).map(|&byte| f64::from(byte)).collect();
        let rows = centred_zoom_positions(height, factors[which]);
        let columns = centred_zoom_positions(width, factors[which]);
        let places = rows.iter().flat_map(|&y| columns.iter().map(move |&x| (y, x)));
        for (byte, (y, x)) in rgb.iter_mut().skip(channel).step_by(3).zip(places) {
            *byte = (sample(&plane, width, height, y, x) + 0.5) as u8;
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng);
    apply(job.image, Level::from_row(job.row), &field)
}
