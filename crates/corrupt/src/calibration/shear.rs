//! `shear`: rows pushed along, or columns, in proportion to their distance from the centre. A surface seen from the side.
//!
//! Row: `[slope]`, the largest push in pixels per pixel; the push drawn is at least 0.8 times as large, in either direction.

use flipcast_images::Image;

use super::signed::draw_signed;
use super::warp::warp_about_centre;
use crate::job::Job;

/// What is pushed along.
#[derive(Clone, Copy)]
enum Axis {
    Rows,
    Columns,
}

fn apply(image: &Image, slope: f64, axis: Axis) -> Image {
    warp_about_centre(
        image,
        match axis {
            Axis::Rows => [[1.0, slope], [0.0, 1.0]],
            Axis::Columns => [[1.0, 0.0], [slope, 1.0]],
        },
    )
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let slope = draw_signed(job.rng, job.row[0]);
    let axis = if job.rng.below(2) == 0 { Axis::Rows } else { Axis::Columns };
    apply(job.image, slope, axis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_move_by_their_distance_from_the_centre() {
        let rgb = (0..3 * 5 * 3).map(|i| (5 * i) as u8).collect();
        let image = Image::new(5, 3, rgb).expect("5 x 3");
        let pushed = apply(&image, 1.0, Axis::Rows);
        let row = |image: &Image, y: usize| image.rgb()[15 * y..15 * y + 15].to_vec();
        assert_eq!(row(&pushed, 1), row(&image, 1));
        assert_eq!(row(&pushed, 0)[..12], row(&image, 0)[3..]);
        assert_eq!(row(&pushed, 2)[3..], row(&image, 2)[..12]);
    }
}
