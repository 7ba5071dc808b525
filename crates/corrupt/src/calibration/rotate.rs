//! `rotate`: the image turned about its centre, the corners filled by mirroring. A camera held askew.
//!
//! Row: `[degrees]`, the largest angle; the angle drawn is at least 0.8 times as large, in either direction.

use flipcast_images::Image;

use super::signed::draw_signed;
use super::warp::warp_about_centre;
use crate::job::Job;

/// Turns the image clockwise.
fn apply(image: &Image, degrees: f64) -> Image {
    let (sin, cos) = degrees.to_radians().sin_cos();
    warp_about_centre(image, [[cos, -sin], [sin, cos]])
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let degrees = draw_signed(job.rng, job.row[0]);
    apply(job.image, degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_moves_the_left_column_to_the_top_row() {
        let rgb = (0..27).map(|i| (9 * i) as u8).collect();
        let image = Image::new(3, 3, rgb).expect("3 x 3");
        let turned = apply(&image, 90.0);
        for row in 0..3 {
            for column in 0..3 {
                // Clockwise: row `r` of the result is column `r` of the source, read upwards.
                let (to, from) = (3 * (3 * row + column), 3 * (3 * (2 - column) + row));
                assert_eq!(turned.rgb()[to..to + 3], image.rgb()[from..from + 3]);
            }
        }
        assert_eq!(apply(&image, 0.0), image);
    }

    #[test]
    fn an_eighth_turn_keeps_the_centre_and_mixes_the_corners() {
        let mut rgb = vec![0; 27];
        rgb[12..15].fill(200);
        let image = Image::new(3, 3, rgb).expect("3 x 3");
        let turned = apply(&image, 45.0);
        assert_eq!(turned.rgb()[12..15], [200; 3]);
        // The middle of the upper edge comes from 1/sqrt(2) up and to the left: 23/32 of a pixel each way after rounding.
        let weight = (1.0 - 23.0 / 32.0) * (1.0 - 23.0 / 32.0);
        assert_eq!(f64::from(turned.rgb()[3]), (200.0_f64 * weight).round());
    }
}
