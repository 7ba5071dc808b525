use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

/// Why an image could not be changed.
pub type ChangeError = Box<dyn Error + Send + Sync>;

/// A change of the bytes of images that have their final size. What comes out depends on the image and its number alone.
pub trait ByteChange: Debug + Send + Sync {
    /// Changes image number `index`, whose `bytes` fill `[height, width, channels]`.
    fn change(&self, index: usize, extents: [usize; 3], bytes: &mut Vec<u8>) -> Result<(), ChangeError>;

    /// How somebody else can make the same change, byte for byte; `None` where only [`ByteChange::change`] can. Images of
    /// these extents are never refused where there is one.
    fn recipe(&self, extents: [usize; 3]) -> Option<ByteRecipe>;

    /// The name of the lossy storage step that ends the change, for records; `None` where there is no such step.
    fn storage(&self) -> Option<&'static str> {
        None
    }
}

/// A change of bytes, told in full, so that a device can make it where the images lie.
///
/// A sample `x` is a byte divided by 255, and a result `y` becomes the byte `255 * clip(y, 0, 1)`, truncated; all in double
/// precision, every operation rounded. Random draws are 64-bit words of Philox 4 x 64 with 7 rounds under the key `stream`:
/// word `i` of image number `n` is word `i % 4` of the counter `[i / 4, n, 0, 0]`.
#[derive(Clone, Debug, PartialEq)]
pub enum ByteRecipe {
    /// `x + std * normal`, or `x + x * (std * normal)`. A normal draw takes as many words as its ziggurat needs.
    NormalNoise {
        /// The key of the draws.
        stream: [u64; 2],
        /// Size of the noise.
        std: f64,
        /// Whether it is in proportion to the sample.
        in_proportion: bool,
        /// Edges of the 256 layers and 0, then the densities there, 257 each. The tail starts at the second edge.
        ziggurat: Arc<[f64]>,
    },
    /// A sample becomes white or black if the upper half of its word is at most `limit`: white if the highest bit of the
    /// lower half is 0.
    ImpulseNoise {
        /// The key of the draws.
        stream: [u64; 2],
        /// What the upper half is compared with.
        limit: u64,
    },
    /// A sample of byte `b` becomes the result of the first entry of `b` whose cumulative probability exceeds the sample's
    /// draw, the upper 53 bits of its word as a fraction; or of the last entry.
    Quantiles {
        /// The key of the draws.
        stream: [u64; 2],
        /// Where the entries of each byte start, and the end of the last one's.
        starts: Arc<[i32]>,
        /// Cumulative probabilities, rising within a byte.
        cumulative: Arc<[f64]>,
        /// The byte that belongs to each.
        results: Arc<[u8]>,
    },
    /// `(x - mean) * factor + mean`, with the mean of the image's channel: its sum of bytes, divided by 255, then by the
    /// number of pixels.
    Contrast {
        /// What remains of the distance to the mean.
        factor: f64,
    },
    /// The value of every pixel in hue, saturation and value becomes `clip(value + added, 0, 1)`.
    Brightness {
        /// What is added.
        added: f64,
    },
    /// The saturation of every pixel becomes `clip(saturation * factor + offset, 0, 1)`.
    Saturation {
        /// What it is multiplied with.
        factor: f64,
        /// What is added then.
        offset: f64,
    },
    /// `strength * sin(x * across + y * down + phase)` is added to the bytes of every pixel. Drawn are a frequency of -pi..pi, a
    /// smaller one either way, which of them runs across, and a phase of a turn.
    PlaneWave {
        /// The key of the draws.
        stream: [u64; 2],
        /// Height of the wave.
        strength: f64,
    },
    /// A sawtooth of bent rings is added to the bytes of every pixel. Drawn are column and row of the centre, bends per turn up
    /// to 10, their size and the width of a ring, both up to a tenth of the shorter side.
    Rings {
        /// The key of the draws.
        stream: [u64; 2],
        /// Height of the sawtooth.
        strength: f64,
    },
    /// Cells of a turned checkerboard become grey where their draw is below `open`. Drawn are the angle, the side of a cell, 0.1 to
    /// 0.25 of the shorter side and at least 1, and then the cells, row by row.
    Checkerboard {
        /// The key of the draws.
        stream: [u64; 2],
        /// Share of the cells.
        open: f64,
    },
    /// Haze of gradient noise at five scales is blended in. Drawn are 256 gradients, then a permutation.
    Haze {
        /// The key of the draws.
        stream: [u64; 2],
        /// Share of the haze.
        share: f64,
    },
}
