use super::{Emulator, Place};
use crate::device::{DeviceSlice, bf16_bits};
use crate::launch::preprocess::{BatchSource, InputLayout, SOURCE_WORDS, channels_last, find_non_finite, spread_input};
use crate::precision::{Element, Precision};
use flipcast_tensor::{Batch, ByteScale, ImageSet};
use std::sync::Arc;

const IMAGES: usize = 7;

/// Where a batch lies, as kernels read it.
fn place(source: &BatchSource) -> Place {
    let mut place = Place::new(Element::I32, SOURCE_WORDS + IMAGES);
    let at = place.slice();
    let mut words = [0.0; SOURCE_WORDS + IMAGES];
    source.write(at, &mut words);
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    place.fill(&words);
    place
}

fn spread(emulator: &Emulator, images: usize, dims: [usize; 3], layout: InputLayout, source: &BatchSource) -> Vec<f32> {
    let element = crate::launch::Queue::precision(emulator).element();
    let mut to = Place::new(element, images * layout.len());
    let mut from = place(source);
    let (from, at) = (from.slice(), to.slice());
    spread_input(emulator, images, dims, layout, from, at).unwrap();
    to.values()
}

/// What the layout says, said simply.
fn expected(batch: &Batch, layout: InputLayout, precision: Precision) -> Vec<f32> {
    let [height, width, channels] = [batch.height(), batch.width(), batch.channels()];
    let [rows, columns] = layout.extents;
    let mut out = vec![0.0; batch.images() * layout.len()];
    for image in 0..batch.images() {
        for (at, value) in batch.image(image).iter().enumerate() {
            let (c, x, y) = (at % channels, at / channels % width, at / channels / width % height);
            let (r, q) = (y / layout.block + layout.before[0], x / layout.block + layout.before[1]);
            let inner = (y % layout.block) * layout.block + x % layout.block;
            let pixel = (image * rows + r) * columns + q;
            out[pixel * layout.channels + inner * channels + c] = match precision.element() {
                Element::Bf16 => f32::from_bits(u32::from(bf16_bits(*value)) << 16),
                _ => *value,
            };
        }
    }
    out
}

fn layouts() -> [([usize; 3], InputLayout); 3] {
    let layout = |block, extents, channels, before| InputLayout { block, extents, channels, before };
    [
        ([5, 6, 3], layout(1, [5, 6], 3, [0, 0])),
        ([6, 8, 3], layout(2, [6, 7], 16, [2, 1])),
        ([40, 41, 3], layout(1, [42, 43], 8, [1, 1])),
    ]
}

#[test]
fn batches_of_bytes_and_floats_are_gathered_normalised_and_laid_out() {
    for precision in [Precision::F32, Precision::Bf16] {
        let Some(emulator) = Emulator::new("preprocess.cu", precision) else {
            return;
        };
        for (dims, layout) in layouts() {
            let [height, width, channels] = dims;
            let extents = [IMAGES, height, width, channels];
            let len = extents.iter().product();
            let bytes: Vec<u8> = (0..len).map(|at: usize| (at * at % 251) as u8).collect();
            // Not dyadic, so that what is rounded twice shows.
            let value = |c: usize, byte: u8| (f32::from(byte) / 255.0 - 0.4) / (0.2 + 0.01 * c as f32);
            let scale = Arc::new(ByteScale::new(channels, value));
            let set = ImageSet::from_bytes(extents, bytes.clone(), scale.clone()).unwrap();
            let set = Arc::new(set);
            let positions = [6, 0, 3, 3];
            let all: Vec<u32> = (0..IMAGES as u32).collect();
            let mut table = Place::floats(scale.values());
            let mut raw = Place::raw(&bytes);
            let values = Batch::select(&set, all.clone(), Vec::new()).into_values();
            let mut floats = Place::floats(&values);
            for (positions, images) in [(Some(&positions[..]), 4), (None, IMAGES)] {
                let selected = positions.map_or_else(|| all.clone(), <[u32]>::to_vec);
                let batch = Batch::select(&set, selected, Vec::new());
                let expected = expected(&batch, layout, precision);
                let sources: [(DeviceSlice, Option<DeviceSlice>); 2] =
                    [(raw.slice(), Some(table.slice())), (floats.slice(), None)];
                for (pixels, scale) in sources {
                    let source = BatchSource { pixels, scale, positions, strides: channels_last(dims) };
                    let found = spread(&emulator, images, dims, layout, &source);
                    assert_eq!(found, expected, "{precision:?} {dims:?} {positions:?}");
                }
            }
        }
    }
}

#[test]
fn a_batch_that_is_nowhere_is_zeros() {
    let Some(emulator) = Emulator::new("preprocess.cu", Precision::F32) else {
        return;
    };
    let nowhere = DeviceSlice { address: 0, len: 0, element: Element::F32 };
    let (dims, layout) = layouts()[1];
    let source = BatchSource { pixels: nowhere, scale: None, positions: None, strides: channels_last(dims) };
    let found = spread(&emulator, 2, dims, layout, &source);
    assert!(found.iter().all(|&value| value == 0.0));
}

/// Values of a batch, channels in front and rows `gap` elements apart, and their strides.
fn channels_first(batch: &Batch, gap: usize) -> (Vec<f32>, [usize; 4]) {
    let [height, width, channels] = [batch.height(), batch.width(), batch.channels()];
    let row = width + gap;
    let strides = [channels * height * row, row, 1, height * row];
    let mut values = vec![f32::NAN; batch.images() * strides[0]];
    for image in 0..batch.images() {
        for (at, value) in batch.image(image).iter().enumerate() {
            let (c, x, y) = (at % channels, at / channels % width, at / channels / width);
            values[image * strides[0] + y * strides[1] + x + c * strides[3]] = *value;
        }
    }
    (values, strides)
}

fn pictures(dims: [usize; 3]) -> Batch {
    let extents = [IMAGES, dims[0], dims[1], dims[2]];
    let values = (0..extents.iter().product()).map(|at: usize| (at * at % 251) as f32 - 100.0).collect();
    Batch::new(extents, values).unwrap()
}

#[test]
fn batches_of_any_strides_are_laid_out_alike() {
    let Some(emulator) = Emulator::new("preprocess.cu", Precision::F32) else {
        return;
    };
    for (dims, layout) in layouts() {
        let batch = pictures(dims);
        let expected = expected(&batch, layout, Precision::F32);
        for gap in [0, 3] {
            let (values, strides) = channels_first(&batch, gap);
            let mut floats = Place::floats(&values);
            let source = BatchSource { pixels: floats.slice(), scale: None, positions: None, strides };
            assert_eq!(spread(&emulator, IMAGES, dims, layout, &source), expected, "{dims:?} {gap}");
        }
    }
}

#[test]
fn images_with_a_nan_or_an_infinity_are_found_and_what_lies_between_rows_is_not_looked_at() {
    let Some(emulator) = Emulator::new("preprocess.cu", Precision::F32) else {
        return;
    };
    let dims = layouts()[2].0;
    let len: usize = dims.iter().product();
    for (image, wrong) in [(0, f32::NAN), (IMAGES - 1, f32::INFINITY), (3, f32::NEG_INFINITY), (IMAGES, 0.0)] {
        let mut batch = pictures(dims);
        if image < IMAGES {
            batch.values_mut()[image * len + len - 1] = wrong;
        }
        let (values, strides) = channels_first(&batch, 2);
        let mut floats = Place::floats(&values);
        let mut from = place(&BatchSource { pixels: floats.slice(), scale: None, positions: None, strides });
        let mut bad = Place::integers(&[0; IMAGES]);
        let (at, found) = (from.slice(), bad.slice());
        find_non_finite(&emulator, IMAGES, dims, at, found).unwrap();
        let found = bad.bytes().as_chunks::<4>().0.iter().position(|word| *word != [0; 4]);
        assert_eq!(found, (image < IMAGES).then_some(image));
    }
}
