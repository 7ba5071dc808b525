//! Corrupts one image and writes it as PNG.
//!
//! ```text
//! cargo run -p flipcast-corrupt --example corrupt_image -- PHOTO.jpg gaussian_noise:3 CORRUPTED.png
//! ```
//!
//! The image is brought to 224 x 224 pixels as the makers of ImageNet-C did, corrupted, and sent through the storage step of
//! the published set. `gaussian_noise:3,storage=none` leaves that step out, `cifar-c/gaussian_noise:3` names another set.

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;

use flipcast_corrupt::{CorruptionRequest, Corruptor};
use flipcast_images::decode::decode;
use flipcast_images::preprocess::Preprocess;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [photo, corruption, out] = arguments.as_slice() else {
        return Err("expected PHOTO CORRUPTION:SEVERITY OUT.png".into());
    };
    let request: CorruptionRequest = corruption.parse()?;
    let image = Preprocess::torchvision(256, 224).crop_bytes(&decode(&fs::read(photo)?)?)?;

    // Which set's constants are used, and how that set is stored, depends on the size unless the request says so.
    let (width, height) = (image.width(), image.height());
    let spec = request.resolve(width, height)?;
    let storage = request.storage_at(width, height)?;

    // The result is a function of the seed, the spec and the image's number, here 0.
    let corrupted = Corruptor::new(0).with_storage(storage).corrupt(&image, &spec, 0)?;

    let mut encoder = png::Encoder::new(BufWriter::new(File::create(out)?), width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(corrupted.rgb())?;
    println!("{out}: {spec}, storage {storage}");
    Ok(())
}
