//! `frost`: a piece of a frost photograph laid over the image, `clip(a * pixel + b * frost)`, truncated.
//!
//! See [`crate::frost_textures`] for where the textures come from. An image larger than the texture sees it mirrored.

use flipcast_images::Image;

use crate::blocks::border::Border;
use crate::blocks::pixels::with_size_of;
use crate::frost_textures::FrostTextures;
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Weight of the image.
    pub image_weight: f64,
    /// Weight of the frost.
    pub frost_weight: f64,
}

impl Constants {
    /// From a row of the registry: `[image_weight, frost_weight]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { image_weight: row[0], frost_weight: row[1] }
    }
}

/// Which piece of which texture is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// The texture, already at the scale of the image.
    pub texture: &'a Image,
    /// First row of the piece.
    pub row: usize,
    /// First column of the piece.
    pub column: usize,
}

/// Draws the texture and the place.
pub fn draw<'a>(rng: &mut CounterRng, image: &Image, textures: &'a FrostTextures) -> Field<'a> {
    let choices = textures.at_scale_of(image);
    let texture = &choices[rng.index(choices.len())];
    let mut place = |texture: usize, image: usize| rng.index(texture.saturating_sub(image).max(1));
    let row = place(texture.height(), image.height());
    let column = place(texture.width(), image.width());
    Field { texture, row, column }
}

/// Lays the frost over the image.
pub fn apply(image: &Image, constants: &Constants, field: &Field<'_>) -> Image {
    let texture = field.texture;
    let scaled = |weight: f64| -> Vec<f64> { (0..256).map(|byte| weight * f64::from(byte)).collect() };
    let (image_part, frost_part) = (scaled(constants.image_weight), scaled(constants.frost_weight));
    let columns: Vec<usize> =
        (0..image.width()).map(|x| 3 * Border::HalfMirror.map((field.column + x) as isize, texture.width())).collect();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        let from = Border::HalfMirror.map((field.row + y) as isize, texture.height());
        let frost = &texture.rgb()[3 * from * texture.width()..][..3 * texture.width()];
        for (pixel, &column) in row.chunks_exact(3).zip(&columns) {
            for (&byte, &frost) in pixel.iter().zip(&frost[column..column + 3]) {
                rgb.push((image_part[usize::from(byte)] + frost_part[usize::from(frost)]) as u8);
            }
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image, (job.frost)());
    apply(job.image, &Constants::from_row(job.row), &field)
}
