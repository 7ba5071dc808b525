//! `occlude`: rectangles of random grey over the image. Objects in the way, stickers, missing data.
//!
//! Row: `[share]` of the image that they cover on average.

use flipcast_images::Image;

use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// How many there are.
const RECTANGLES: usize = 6;

struct Rectangle {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    grey: u8,
}

/// Draws rectangles inside the image, of equal areas and different shapes.
fn draw(rng: &mut CounterRng, image: &Image, share: f64) -> [Rectangle; RECTANGLES] {
    // Independent rectangles that each miss a point with probability p leave p^n of the image uncovered.
    let area = 1.0 - (1.0 - share).powf(1.0 / RECTANGLES as f64);
    std::array::from_fn(|_| {
        let stretch = rng.uniform_in(0.5, 2.0).sqrt();
        let side = |n: usize, stretch: f64| ((n as f64 * area.sqrt() * stretch).round() as usize).clamp(1, n);
        let (width, height) = (side(image.width(), stretch), side(image.height(), 1.0 / stretch));
        Rectangle {
            left: rng.index(image.width() - width + 1),
            top: rng.index(image.height() - height + 1),
            width,
            height,
            grey: rng.below(256) as u8,
        }
    })
}

fn apply(image: &Image, rectangles: &[Rectangle]) -> Image {
    let mut rgb = image.rgb().to_vec();
    for rectangle in rectangles {
        let rows = rgb.chunks_exact_mut(3 * image.width()).skip(rectangle.top).take(rectangle.height);
        for row in rows {
            row[3 * rectangle.left..3 * (rectangle.left + rectangle.width)].fill(rectangle.grey);
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let rectangles = draw(job.rng, job.image, job.row[0]);
    apply(job.image, &rectangles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::StreamKey;

    #[test]
    fn about_the_share_asked_for_is_covered() {
        // Grey rectangles leave no pixel of this image as it was.
        let image = Image::new(40, 30, [0, 255, 0].repeat(1200)).expect("40 x 30");
        let count = 200;
        for share in [0.1, 0.3, 0.5] {
            let mut covered = 0.0;
            for image_index in 0..count {
                let key = StreamKey { seed: 5, set: "", corruption: "", severity_hundredths: 100, image_index };
                let after = apply(&image, &draw(&mut CounterRng::new(&key), &image, share));
                let pixels = after.rgb().as_chunks::<3>().0;
                covered += pixels.iter().filter(|pixel| pixel[0] == pixel[1]).count() as f64 / 1200.0;
            }
            // Measured: 0.098, 0.285, 0.468. Rectangles gather in the middle, where they overlap more.
            let mean = covered / count as f64;
            assert!((0.85 * share..1.05 * share).contains(&mean), "{mean} covered, {share} asked for");
        }
    }
}
