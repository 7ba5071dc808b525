//! Corruptions of whole sets of byte images.

use super::{Queue, blocks, double, expect_len};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use flipcast_tensor::ByteRecipe;

/// By how much a logarithm, an exponential or a sine may be off without any difference, for an image to be taken as it is. Host
/// and device promise results within 2e-16 times a few of the true ones, so that an image is hardly ever doubted.
pub(crate) const SLACK: f64 = 1e-14;

/// A set to change, and where the outcome goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images {
    pub from: DeviceSlice,
    pub to: DeviceSlice,
    /// The number that each image has in the random draws, 64 bits.
    pub numbers: DeviceSlice,
    /// An integer per image, set where rounding may have decided.
    pub doubtful: DeviceSlice,
    /// Images, and height and width of each; they have three channels.
    pub count: usize,
    pub extents: [usize; 2],
}

impl Images {
    /// Bytes of an image.
    fn len(&self) -> usize {
        3 * self.extents[0] * self.extents[1]
    }
}

/// What a recipe looks up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tables {
    pub doubles: Option<DeviceSlice>,
    pub integers: Option<DeviceSlice>,
    pub bytes: Option<DeviceSlice>,
}

/// Queues the change that `recipe` tells.
pub(crate) fn corrupt(
    queue: &dyn Queue,
    recipe: &ByteRecipe,
    tables: Tables,
    images: Images,
    slack: f64,
) -> Result<(), CudaError> {
    let (count, len) = (images.count, images.len());
    for (what, slice) in [("the set", images.from), ("the result", images.to)] {
        expect_len("corrupt", what, slice, count * len)?;
    }
    expect_len("corrupt", "the numbers", images.numbers, count)?;
    expect_len("corrupt", "the doubts", images.doubtful, count)?;
    let word = |word: u64| Arg::I64(word.cast_signed());
    let (from, to) = (Arg::Slice(images.from), Arg::Slice(images.to));
    let drawn = |[first, second]: [u64; 2]| {
        vec![from, to, Arg::Slice(images.numbers), Arg::count(count), Arg::count(len), word(first), word(second)]
    };
    let rows = [blocks(queue, len.div_ceil(4)), count.min(1 << 15) as u32, 1];
    let colour = |saturate: bool, [factor, offset, added]: [f64; 3]| {
        let pixels = count * len / 3;
        let args = [
            from,
            to,
            Arg::I64(pixels as i64),
            Arg::I32(saturate.into()),
            double(factor),
            double(offset),
            double(added),
        ];
        let grid = [blocks(queue, pixels), 1, 1];
        queue.launch("corrupt_colour", grid, [256, 1, 1], 0, &args)
    };
    let field = |kernel: &str, grid: [u32; 3], stream: [u64; 2], strength: f64| {
        let mut args = drawn(stream);
        args.splice(4..5, images.extents.map(Arg::count));
        args.extend([double(strength), double(slack), Arg::Slice(images.doubtful)]);
        queue.launch(kernel, grid, [256, 1, 1], 0, &args)
    };
    let each = [count as u32, 1, 1];
    match recipe {
        ByteRecipe::ImpulseNoise { stream, limit } => {
            let mut args = drawn(*stream);
            args.push(word(*limit));
            queue.launch("corrupt_impulse", rows, [256, 1, 1], 0, &args)?;
        }
        ByteRecipe::Quantiles { stream, .. } => {
            let mut args = drawn(*stream);
            args.extend([tables.integers, tables.doubles, tables.bytes].map(Arg::optional));
            queue.launch("corrupt_quantiles", rows, [256, 1, 1], 0, &args)?;
        }
        ByteRecipe::NormalNoise { stream, std, in_proportion, .. } => {
            let mut args = drawn(*stream);
            // One block per image, which needs no count.
            args.remove(3);
            args.extend([
                double(*std),
                Arg::I32((*in_proportion).into()),
                Arg::optional(tables.doubles),
                double(slack),
                Arg::Slice(images.doubtful),
            ]);
            queue.launch("corrupt_normal", each, [256, 1, 1], 0, &args)?;
        }
        ByteRecipe::Contrast { factor } => {
            let args = [from, to, Arg::count(len), double(*factor)];
            queue.launch("corrupt_contrast", each, [256, 1, 1], 0, &args)?;
        }
        ByteRecipe::Brightness { added } => colour(false, [1.0, 0.0, *added])?,
        ByteRecipe::Saturation { factor, offset } => colour(true, [*factor, *offset, 0.0])?,
        ByteRecipe::PlaneWave { stream, strength } => {
            field("corrupt_wave", rows, *stream, *strength)?;
        }
        ByteRecipe::Rings { stream, strength } => {
            field("corrupt_rings", rows, *stream, *strength)?;
        }
        ByteRecipe::Checkerboard { stream, open } => {
            field("corrupt_board", rows, *stream, *open)?;
        }
        ByteRecipe::Haze { stream, share } => field("corrupt_haze", each, *stream, *share)?,
    }
    Ok(())
}
