//! The golden folder: pictures, arrays and lists.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use flipcast_images::Image;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The golden folder of this crate.
pub fn root() -> PathBuf {
    let golden = std::env::var_os("FLIPCAST_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
    golden.join("corruptions")
}

/// A PNG as rows of RGB bytes; grey is replicated.
pub fn load_png(relative: &str) -> Image {
    let path = root().join(relative);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().expect("golden pictures are PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("golden pictures are small")];
    let info = reader.next_frame(&mut bytes).expect("golden pictures are whole");
    bytes.truncate(info.buffer_size());
    let rgb = match info.color_type {
        png::ColorType::Rgb => bytes,
        png::ColorType::Grayscale => bytes.iter().flat_map(|&v| [v; 3]).collect(),
        other => panic!("{relative}: colour type {other:?}"),
    };
    Image::new(info.width as usize, info.height as usize, rgb).expect("a whole picture")
}

/// The numbers of a version 1.0 `.npy` file.
pub fn load_npy(relative: &str) -> Vec<f64> {
    let path = root().join(relative);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..10 + header_len]).into_owned();
    let data = &bytes[10 + header_len..];
    let kind = |kind: &str| header.contains(&format!("'{kind}'"));
    if kind("|i1") {
        data.iter().map(|&v| f64::from(v as i8)).collect()
    } else if kind("|u1") {
        data.iter().map(|&v| f64::from(v)).collect()
    } else if kind("<u2") {
        data.chunks_exact(2).map(|v| f64::from(u16::from_le_bytes([v[0], v[1]]))).collect()
    } else if kind("<f4") {
        data.chunks_exact(4).map(|v| f64::from(f32::from_le_bytes([v[0], v[1], v[2], v[3]]))).collect()
    } else {
        panic!("{relative}: {header}")
    }
}

pub fn load_json(relative: &str) -> Value {
    let path = root().join(relative);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("golden lists are JSON")
}

/// Standard normal values, one per sample of the picture of this side.
pub fn normal_field(side: usize) -> Vec<f64> {
    load_npy(&format!("fields/normal_{side}.npy")).into_iter().map(|v| v / 32.0).collect()
}

/// Uniform values, one per sample of the picture of this side.
pub fn uniform_field(side: usize) -> Vec<f64> {
    load_npy(&format!("fields/uniform_{side}.npy")).into_iter().map(|v| (v + 0.5) / 256.0).collect()
}

/// Every third value, starting with `channel`.
pub fn plane(field: &[f64], channel: usize) -> Vec<f64> {
    field.iter().skip(channel).step_by(3).copied().collect()
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).iter().map(number).collect()
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub fn sha256(image: &Image) -> String {
    Sha256::digest(image.rgb()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How two pictures differ.
pub struct Difference {
    /// Largest difference of a sample.
    pub worst: u8,
    /// Samples that differ.
    pub count: usize,
    /// All samples.
    pub total: usize,
    description: String,
}

impl Difference {
    pub fn between(found: &Image, expected: &Image) -> Self {
        assert_eq!((found.width(), found.height()), (expected.width(), expected.height()));
        let differences: Vec<u8> = found.rgb().iter().zip(expected.rgb()).map(|(a, b)| a.abs_diff(*b)).collect();
        let worst = differences.iter().copied().max().unwrap_or(0);
        let at = differences.iter().position(|&d| d == worst).unwrap_or(0);
        let count = differences.iter().filter(|&&d| d > 0).count();
        let description = format!(
            "worst at sample {at} (row {}, column {}, channel {}): {} found, {} expected; {count} of {} differ",
            at / 3 / found.width(),
            at / 3 % found.width(),
            at % 3,
            found.rgb()[at],
            expected.rgb()[at],
            differences.len()
        );
        Self { worst, count, total: differences.len(), description }
    }

    /// `None` within the bounds, otherwise what is wrong.
    pub fn beyond(&self, max_abs: u8, max_fraction: f64) -> Option<String> {
        let fraction = self.count as f64 / self.total as f64;
        (self.worst > max_abs || fraction > max_fraction)
            .then(|| format!("{}; allowed: difference {max_abs}, share {max_fraction}", self.description))
    }
}
