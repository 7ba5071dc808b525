use super::{Emulator, Place};
use crate::launch::corrupt::{Images, SLACK, Tables, corrupt};
use crate::precision::{Element, Precision};
use flipcast_corrupt::{CorruptionStep, Corruptor};
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_tensor::{ByteChange, ByteRecipe};
use std::sync::Arc;

/// By the file of their kernels: ImageNet-C's in `corrupt.cu`, C-bar's in `corrupt_bar.cu`.
const NOISES: [&str; 7] =
    ["gaussian_noise", "speckle_noise", "impulse_noise", "shot_noise", "contrast", "brightness", "saturate"];
const FIELDS: [&str; 4] = ["single_frequency_greyscale", "cocentric_sine_waves", "checkerboard_cutout", "perlin_noise"];

fn change(name: &str) -> Arc<dyn ByteChange> {
    let rule = Preprocess::normalise_only(Normalise::imagenet());
    let request = name.parse().expect("well formed");
    let corruptor = Arc::new(Corruptor::new(77));
    let config = CorruptionStep::join(LoaderConfig::new(rule), request, corruptor);
    config.change.expect("joined")
}

/// Images of all levels: colours, greys, black and white.
fn pictures(images: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let (image, pixel) = (at / len, at % len / 3);
        match pixel % 5 {
            0 => (37 * pixel + image) as u8,
            1 => [0, 255][pixel / 5 % 2],
            _ => (at * (at / 3 + 7 * image) % 256) as u8,
        }
    };
    (0..images * len).map(byte).collect()
}

/// The outcome and what is in doubt.
fn run(
    emulator: &Emulator,
    recipe: &ByteRecipe,
    bytes: &[u8],
    (extents, numbers): ([usize; 3], &[usize]),
    slack: f64,
) -> (Vec<u8>, Vec<u8>) {
    let words: Vec<f64> = numbers.iter().map(|&n| f64::from_bits(n as u64)).collect();
    let [mut doubles, mut integers, mut results] = match recipe {
        ByteRecipe::NormalNoise { ziggurat, .. } => [Some(Place::doubles(ziggurat)), None, None],
        ByteRecipe::Quantiles { starts, cumulative, results, .. } => {
            [Some(Place::doubles(cumulative)), Some(Place::integers(starts)), Some(Place::raw(results))]
        }
        _ => [None, None, None],
    };
    let (mut from, mut to) = (Place::raw(bytes), Place::new(Element::U8, bytes.len()));
    let mut numbered = Place::doubles(&words);
    let mut doubtful = Place::integers(&vec![0; numbers.len()]);
    let images = Images {
        from: from.slice(),
        to: to.slice(),
        numbers: numbered.slice(),
        doubtful: doubtful.slice(),
        count: numbers.len(),
        extents: [extents[0], extents[1]],
    };
    let tables = Tables {
        doubles: doubles.as_mut().map(Place::slice),
        integers: integers.as_mut().map(Place::slice),
        bytes: results.as_mut().map(Place::slice),
    };
    corrupt(emulator, recipe, tables, images, slack).unwrap();
    to.check();
    doubtful.check();
    (to.bytes().to_vec(), doubtful.bytes().to_vec())
}

#[test]
fn corruptions_are_those_of_the_host_byte_for_byte() {
    hold("corrupt.cu", "imagenet-c", &NOISES);
    hold("corrupt_bar.cu", "imagenet-c-bar", &FIELDS);
}

fn hold(file: &'static str, set: &str, names: &[&str]) {
    let Some(emulator) = Emulator::new(file, Precision::F32) else {
        return;
    };
    // Less than a chunk of draws, several with many rare draws, and a length that is no multiple of four.
    for (extents, images) in [([1, 1, 3], 3), ([9, 11, 3], 4), ([64, 65, 3], 3)] {
        let len: usize = extents.iter().product();
        let bytes = pictures(images, len);
        let numbers: Vec<usize> = (0..images).map(|at| at * at * 1_000_003).collect();
        for name in names {
            for severity in [1, 3, 5] {
                let what = format!("{set}/{name}:{severity}");
                let change = change(&what);
                let recipe = change.recipe(extents).expect("it acts on pixels");
                let (found, doubtful) = run(&emulator, &recipe, &bytes, (extents, &numbers), SLACK);
                for (at, image) in bytes.chunks(len).enumerate() {
                    let mut expected = image.to_vec();
                    change.change(numbers[at], extents, &mut expected).expect("small");
                    let found = &found[at * len..(at + 1) * len];
                    let differ = (0..len).find(|&i| found[i] != expected[i]);
                    assert_eq!(differ, None, "{what} of {extents:?}, image {at}");
                }
                assert!(doubtful.iter().all(|&byte| byte == 0), "{what}");
            }
        }
    }
}

#[test]
fn what_rounding_could_decide_is_doubted() {
    let Some(emulator) = Emulator::new("corrupt.cu", Precision::F32) else {
        return;
    };
    let extents = [64, 64, 3];
    let bytes = pictures(2, 64 * 64 * 3);
    let recipe = change("imagenet-c/gaussian_noise:3").recipe(extents);
    let recipe = recipe.expect("it acts on pixels");
    let (_, doubtful) = run(&emulator, &recipe, &bytes, (extents, &[5, 6]), 0.1);
    assert_eq!(doubtful, [1, 0, 0, 0, 1, 0, 0, 0]);
}
