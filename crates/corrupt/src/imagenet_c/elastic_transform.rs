//! `elastic_transform`: a random affine warp, then a smooth random displacement of every pixel, single precision.
//!
//! The published ImageNet constants are multiples of 244 where 224 was meant. On images that are not square, the
//! anchor points of the affine part sit around the centre with arms of a third of the shorter side.

use flipcast_images::Image;
use multiversion::multiversion;

use crate::blocks::affine_warp::{Affine, warp_affine};
use crate::blocks::border::Border;
use crate::blocks::gaussian_filter::{Extent, GaussianKernel};
use crate::blocks::pixels::{finish_f32, unit_table_f32, with_size_of};
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
        Self { alpha: row[0], sigma: row[1], jitter: row[2] }
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
    let mut plane = || (0..image.width() * image.height()).map(|_| rng.uniform_in(-1.0, 1.0)).collect();
    Field { corners, dx: plane(), dy: plane() }
}

/// The affine map that moves the three anchor points of a `width` x `height` image by `corners`.
pub fn affine_of(width: usize, height: usize, corners: &[[f64; 2]; 3]) -> Affine {
    let arm = (width.min(height) / 3) as f64;
    if arm == 0.0 {
        return Affine::IDENTITY;
    }
    let (mid_x, mid_y) = ((width / 2) as f64, (height / 2) as f64);
    let anchors = [[mid_x + arm, mid_y + arm], [mid_x + arm, mid_y - arm], [mid_x - arm, mid_y - arm]];
    // Points are single precision in the published code.
    let moved: [[f64; 2]; 3] = std::array::from_fn(|i| {
        std::array::from_fn(|axis| f64::from(anchors[i][axis] as f32 + corners[i][axis] as f32))
    });
    Affine([0, 1].map(|axis| {
        let per_x = (moved[1][axis] - moved[2][axis]) / (2.0 * arm);
        let per_y = (moved[0][axis] - moved[1][axis]) / (2.0 * arm);
        [per_x, per_y, moved[2][axis] - per_x * anchors[2][0] - per_y * anchors[2][1]]
    }))
}

/// Warps the image.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let (width, height) = (image.width(), image.height());
    let warped = warp_affine(&to_pixels(image), width, height, &affine_of(width, height, &field.corners));
    let [dx, dy] = smooth([&field.dx, &field.dy], width, height, constants);
    let mut rgb = vec![0; image.rgb().len()];
    for (y, out) in rgb.chunks_exact_mut(3 * width).enumerate() {
        let line = y * width..(y + 1) * width;
        displace_row(&warped, y, &dx[line.clone()], &dy[line], out);
    }
    with_size_of(image, rgb)
}

/// Unit-scale RGB with a fourth sample, so that a pixel is read at once.
fn to_pixels(image: &Image) -> Vec<[f32; 4]> {
    let unit = unit_table_f32();
    let pixels = image.rgb().as_chunks::<3>().0.iter();
    pixels.map(|&[r, g, b]| [unit[usize::from(r)], unit[usize::from(g)], unit[usize::from(b)], 0.0]).collect()
}

/// Row `y` of the picture whose pixels come from `dx`, `dy` away.
#[multiversion(targets("x86_64+avx2+fma"))]
fn displace_row(source: &[[f32; 4]], y: usize, dx: &[f32], dy: &[f32], out: &mut [u8]) {
    let width = dx.len();
    let height = source.len() / width;
    let shifts = dx.iter().zip(dy);
    for ((x, (&dx, &dy)), out) in shifts.enumerate().zip(out.as_chunks_mut::<3>().0) {
        let (row, column) = (y as f64 + f64::from(dy), x as f64 + f64::from(dx));
        let (top, left) = (row.floor(), column.floor());
        let (fy, fx) = (row - top, column - left);
        let (top, left) = (top as isize, left as isize);
        let upper = width * Border::HalfMirror.map(top, height);
        let lower = width * Border::HalfMirror.map(top + 1, height);
        let near = Border::HalfMirror.map(left, width);
        let far = Border::HalfMirror.map(left + 1, width);
        let (p, q) = (source[upper + near], source[upper + far]);
        let (r, s) = (source[lower + near], source[lower + far]);
        let mut value = [0.0; 4];
        for k in 0..4 {
            value[k] = (f64::from(p[k]) * ((1.0 - fy) * (1.0 - fx))
                + f64::from(q[k]) * ((1.0 - fy) * fx)
                + f64::from(r[k]) * (fy * (1.0 - fx))
                + f64::from(s[k]) * (fy * fx)) as f32;
        }
        out[0] = finish_f32(value[0]);
        out[1] = finish_f32(value[1]);
        out[2] = finish_f32(value[2]);
    }
}

/// The displacements of the two axes in pixels.
fn smooth(planes: [&[f64]; 2], width: usize, height: usize, constants: &Constants) -> [Vec<f32>; 2] {
    let scaled = |values: &[f64]| -> Vec<f32> { values.iter().map(|v| (v * constants.alpha) as f32).collect() };
    if constants.sigma <= 0.0 {
        return planes.map(scaled);
    }
    let kernel = GaussianKernel::new(constants.sigma, 3.0);
    if kernel.radius() >= width.max(height) {
        let folded = kernel.fold(height, width);
        return planes.map(|plane| scaled(&folded.filter(plane)));
    }
    let extent = Extent { height, width, channels: 1 };
    planes.map(|plane| scaled(&kernel.filter(plane, extent, Border::HalfMirror)))
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let constants = Constants::from_row(job.row);
    let field = draw(job.rng, job.image, &constants);
    apply(job.image, &constants, &field)
}
