//! `elastic_transform`: a random affine warp, then a smooth random displacement of every pixel, single precision.
//!
//! The published ImageNet constants are multiples of 244 where 224 was meant. On images that are not square, the
//! anchor points of the affine part sit around the centre with arms of a third of the shorter side.

use flipcast_images::Image;

use crate::blocks::affine_warp::{Affine, warp_affine};
use crate::blocks::border::Border;
use crate::blocks::gaussian_filter::{Extent, GaussianKernel};
use crate::blocks::pixels::{finish_f32, to_unit_f32, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Scale of the displacement.
    pub alpha: f64,
    /// Smoothness of the displacement in pixels; 0 for none.
    pub sigma: f64,
    /// How far each anchor point of the affine part may move, in pixels.
    pub jitter: f64,
}

impl Constants {
    /// From a row of the registry: `[alpha, sigma, jitter]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self {
            alpha: row[0],
            sigma: row[1],
            jitter: row[2],
        }
    }
}

/// The movement of the anchor points and the raw displacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Movement of each anchor point, (x, y) in pixels.
    pub corners: [[f64; 2]; 3],
    /// -1 to 1 per pixel, columns right.
    pub dx: Vec<f64>,
    /// -1 to 1 per pixel, rows down.
    pub dy: Vec<f64>,
}

/// Draws the anchor points, then the columns' plane, then the rows' plane.
pub fn draw(rng: &mut CounterRng, image: &Image, constants: &Constants) -> Field {
    let jitter = constants.jitter;
    let corners = std::array::from_fn(|_| std::array::from_fn(|_| rng.uniform_in(-jitter, jitter)));
    let mut plane = || {
        (0..image.width() * image.height())
            .map(|_| rng.uniform_in(-1.0, 1.0))
            .collect()
    };
    Field {
        corners,
        dx: plane(),
        dy: plane(),
    }
}

/// The affine map that moves the three anchor points of a `width` x `height` image by `corners`.
pub fn affine_of(width: usize, height: usize, corners: &[[f64; 2]; 3]) -> Affine {
    let arm = (width.min(height) / 3) as f64;
    if arm == 0.0 {
        return Affine::IDENTITY;
    }
    let (mid_x, mid_y) = ((width / 2) as f64, (height / 2) as f64);
    let anchors = [
        [mid_x + arm, mid_y + arm],
        [mid_x + arm, mid_y - arm],
        [mid_x - arm, mid_y - arm],
    ];
    // Points are single precision in the published code.
    let moved: [[f64; 2]; 3] = std::array::from_fn(|i| {
        std::array::from_fn(|axis| f64::from(anchors[i][axis] as f32 + corners[i][axis] as f32))
    });
    Affine([0, 1].map(|axis| {
        let per_x = (moved[1][axis] - moved[2][axis]) / (2.0 * arm);
        let per_y = (moved[0][axis] - moved[1][axis]) / (2.0 * arm);
        [
            per_x,
            per_y,
            moved[2][axis] - per_x * anchors[2][0] - per_y * anchors[2][1],
        ]
    }))
}

/// Warps the image.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let (width, height) = (image.width(), image.height());
    let warped = warp_affine(
        &to_unit_f32(image),
        width,
        height,
        &affine_of(width, height, &field.corners),
    );
    let dx = smooth(&field.dx, width, height, constants);
    let dy = smooth(&field.dy, width, height, constants);
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for y in 0..height {
        for x in 0..width {
            let place = y * width + x;
            let (row, column) = (
                y as f64 + f64::from(dy[place]),
                x as f64 + f64::from(dx[place]),
            );
            let (top, left) = (row.floor(), column.floor());
            let (fy, fx) = (row - top, column - left);
            let rows = [0, 1].map(|i| 3 * width * Border::HalfMirror.map(top as isize + i, height));
            let columns = [0, 1].map(|i| 3 * Border::HalfMirror.map(left as isize + i, width));
            let weights = [
                (1.0 - fy) * (1.0 - fx),
                (1.0 - fy) * fx,
                fy * (1.0 - fx),
                fy * fx,
            ];
            for channel in 0..3 {
                let at = |row: usize, column: usize| {
                    f64::from(warped[rows[row] + columns[column] + channel])
                };
                let value = at(0, 0) * weights[0]
                    + at(0, 1) * weights[1]
                    + at(1, 0) * weights[2]
                    + at(1, 1) * weights[3];
                rgb.push(finish_f32(value as f32));
            }
        }
    }
    with_size_of(image, rgb)
}

/// The displacement of one axis in pixels.
fn smooth(plane: &[f64], width: usize, height: usize, constants: &Constants) -> Vec<f32> {
    let scaled = |values: &[f64]| {
        values
            .iter()
            .map(|v| (v * constants.alpha) as f32)
            .collect()
    };
    if constants.sigma <= 0.0 {
        return scaled(plane);
    }
    let extent = Extent {
        height,
        width,
        channels: 1,
    };
    let kernel = GaussianKernel::new(constants.sigma, 3.0);
    if kernel.radius() >= width.max(height) {
        scaled(&kernel.filter_folded(plane, height, width))
    } else {
        scaled(&kernel.filter(plane, extent, Border::HalfMirror))
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let constants = Constants::from_row(job.row);
    let field = draw(job.rng, job.image, &constants);
    apply(job.image, &constants, &field)
}
