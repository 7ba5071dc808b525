//! Decoding and preprocessing against Pillow, torchvision's rules and PyTorch; tolerances as `golden/preprocess/README.md`.

use std::path::PathBuf;

use flipcast_images::Image;
use flipcast_images::decode::{DecodeOptions, Rotation, decode, decode_with};
use flipcast_images::preprocess::{Interpolation, Normalise, PassOrder, Preprocess, Resize, Size, resize};
use flipcast_tensor::Tolerance;
use serde_json::Value;

/// A file or folder of the goldens.
pub fn golden_path(rel: &str) -> PathBuf {
    let root = std::env::var_os("FLIPCAST_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
    root.join("preprocess").join(rel)
}

fn golden(rel: &str) -> Vec<u8> {
    let path = golden_path(rel);
    std::fs::read(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}

fn manifest(name: &str, part: &str) -> Vec<Value> {
    let json: Value = serde_json::from_slice(&golden(name)).unwrap();
    json[part].as_array().unwrap().clone()
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap()
}

fn size(entry: &Value, key: &str) -> Size {
    let side = |i: usize| entry[key][i].as_u64().unwrap() as usize;
    Size { width: side(0), height: side(1) }
}

fn picture(rel: &str) -> Image {
    decode(&golden(rel)).unwrap_or_else(|e| panic!("{rel}: {e}"))
}

/// The values of a version 1 `.npy` file of little-endian `f32`.
fn floats(rel: &str) -> Vec<f32> {
    let bytes = golden(rel);
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let values = bytes[header..].chunks_exact(4);
    values.map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect()
}

/// Channels-first to channels-last.
fn channels_last(values: &[f32], pixels: usize) -> Vec<f32> {
    (0..pixels).flat_map(|p| [values[p], values[pixels + p], values[2 * pixels + p]]).collect()
}

/// Largest and mean difference of two sequences of equal length.
fn distance(found: impl Iterator<Item = f32>, expected: impl Iterator<Item = f32>) -> (f32, f32) {
    let differences: Vec<f32> = found.zip(expected).map(|(a, b)| (a - b).abs()).collect();
    let worst = differences.iter().copied().fold(0.0, f32::max);
    (worst, differences.iter().sum::<f32>() / differences.len() as f32)
}

fn byte_distance(found: &Image, expected: &Image) -> (f32, f32) {
    assert_eq!((found.width(), found.height()), (expected.width(), expected.height()));
    let bytes = |image: &Image| image.rgb().to_vec().into_iter().map(f32::from);
    distance(bytes(found), bytes(expected))
}

/// The bound for a JPEG decoder that is not libjpeg.
fn assert_jpeg_close(what: &str, found: &Image, expected: &Image) {
    let (worst, mean) = byte_distance(found, expected);
    println!("{what}: bytes differ by at most {worst}, mean {mean:.4}");
    assert!(worst <= 6.0 && mean <= 0.5, "{what}: at most {worst}, mean {mean}");
}

#[test]
fn awkward_files_decode_as_pillow_converts_them() {
    let entries = manifest("manifest.json", "edge");
    assert_eq!(entries.len(), 15);
    for entry in entries {
        let name = text(&entry, "input");
        let found = picture(name);
        let expected = picture(text(&entry, "rgb_png"));
        match text(&entry, "rule") {
            "exact" => assert!(found == expected, "{name} differs"),
            _ => assert_jpeg_close(name, &found, &expected),
        }
    }
}

#[test]
fn further_formats_and_depths_decode_as_pillow_converts_them() {
    let entries = manifest("extra.json", "formats");
    assert_eq!(entries.len(), 23);
    for entry in entries {
        let name = text(&entry, "input");
        assert!(picture(name) == picture(text(&entry, "rgb_png")), "{name} differs");
    }
}

#[test]
fn tiff_files_decode_as_pillow_converts_them() {
    let entries = manifest("tiff/manifest.json", "tiff");
    assert_eq!(entries.len(), 10);
    for entry in entries {
        let name = text(&entry, "input");
        assert!(picture(name) == picture(text(&entry, "rgb_png")), "{name} differs");
    }
}

#[test]
fn rotation_is_applied_only_on_request() {
    let bytes = golden("edge/exif_orientation6.jpg");
    let plain = decode(&bytes).unwrap();
    assert_eq!((plain.width(), plain.height()), (97, 65));
    let options = DecodeOptions { rotation: Rotation::Apply, ..DecodeOptions::default() };
    let turned = decode_with(&bytes, &options).unwrap();
    assert_eq!((turned.width(), turned.height()), (65, 97));
    // A quarter turn clockwise: the top left corner moves to the top right.
    assert_eq!(turned.rgb()[3 * 64..3 * 65], plain.rgb()[..3]);
}

#[test]
fn every_filter_equals_pillow() {
    let input = picture("resample/input.png");
    let entries = manifest("extra.json", "resample");
    assert_eq!(entries.len(), 25);
    for entry in entries {
        let filter: Interpolation = serde_json::from_value(entry["interpolation"].clone()).unwrap();
        let found = resize(&input, size(&entry, "size_wh"), filter, PassOrder::Pillow13).unwrap();
        let name = text(&entry, "rgb_png");
        assert!(found == picture(name), "{name} differs");
    }
}

#[test]
fn tall_images_that_lose_height_equal_pillow() {
    let input = picture("tall/input.png");
    let entries = manifest("tall/manifest.json", "tall");
    assert_eq!(entries.len(), 25);
    let mut rows_first_differs = 0;
    for entry in entries {
        let filter: Interpolation = serde_json::from_value(entry["interpolation"].clone()).unwrap();
        let to = size(&entry, "size_wh");
        let strip = picture(&format!("tall/{}", text(&entry, "strip")));
        let top = entry["top"].as_u64().unwrap() as usize;
        let rows = strip.rgb().chunks_exact(3 * strip.width()).skip(top).take(to.height);
        let expected: Vec<u8> = rows.flat_map(|row| row[..3 * to.width].iter().copied()).collect();
        let found = resize(&input, to, filter, PassOrder::Pillow13).unwrap();
        assert!(found.rgb() == expected, "{filter:?} to {to:?} differs");
        let rows_first = resize(&input, to, filter, PassOrder::RowsFirst).unwrap();
        rows_first_differs += usize::from(rows_first.rgb() != expected);
    }
    assert!(rows_first_differs > 0, "the goldens would not notice the order of the passes");
}

#[test]
fn resize_and_crop_equal_pillow_from_the_same_pixels() {
    for entry in manifest("manifest.json", "pipeline") {
        let source = entry["decoded_png"].as_str().unwrap_or(text(&entry, "input"));
        let rule = rule_of(&entry);
        let found = rule.crop_bytes(&picture(source)).unwrap();
        let name = text(&entry, "rgb_png");
        assert!(found == picture(name), "{name} differs");
        let (_, values) = rule.apply_to_vec(&picture(source)).unwrap();
        let expected = channels_last(&floats(text(&entry, "normalised_npy")), 224 * 224);
        Tolerance::Absolute(2e-6).check(name, &values, &expected);
    }
}

#[test]
fn the_whole_pipeline_from_jpeg_stays_within_the_decoder_bound() {
    for entry in manifest("manifest.json", "pipeline") {
        let Some(decoded) = entry["decoded_png"].as_str() else {
            continue;
        };
        let name = text(&entry, "input");
        let image = picture(name);
        assert_jpeg_close(name, &image, &picture(decoded));
        let (_, values) = rule_of(&entry).apply_to_vec(&image).unwrap();
        let expected = channels_last(&floats(text(&entry, "normalised_npy")), 224 * 224);
        let (worst, mean) = distance(values.into_iter(), expected.into_iter());
        println!("{name}: values differ by at most {worst:.4}, mean {mean:.5}");
        assert!(worst <= 0.08 && mean <= 0.008, "{name}: at most {worst}, mean {mean}");
    }
}

fn rule_of(entry: &Value) -> Preprocess {
    let side = |key: &str| entry[key].as_u64().unwrap() as usize;
    Preprocess::torchvision(side("resize"), side("crop"))
}

#[test]
fn float_bilinear_equals_pytorch() {
    let input = picture("float_bilinear/input.png");
    for entry in manifest("extra.json", "float_bilinear") {
        let rule = Preprocess {
            resize: Resize::ExactFloat(size(&entry, "size_wh")),
            crop: None,
            interpolation: Interpolation::Bilinear,
            normalise: Normalise::imagenet(),
        };
        rule.check().unwrap();
        let (_, values) = rule.apply_to_vec(&input).unwrap();
        let name = text(&entry, "normalised_hwc_npy");
        Tolerance::Absolute(2e-6).check(name, &values, &floats(name));
    }
}
