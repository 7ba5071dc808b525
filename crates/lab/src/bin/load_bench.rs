//! Times decode + resize 256 + crop 224 + normalise over a folder of images.
//!
//! Usage: `load_bench FOLDER [THREADS] [PASSES]`; prints images per second, one line per pass.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use flipcast_images::dataset;
use flipcast_images::loader::{Loader, LoaderConfig};
use flipcast_images::preprocess::Preprocess;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: load_bench FOLDER [THREADS] [PASSES]")?;
    let threads: usize = arguments.next().map_or(Ok(1), |a| a.parse())?;
    let passes: usize = arguments.next().map_or(Ok(1), |a| a.parse())?;
    let data: Arc<dyn dataset::Dataset> = Arc::from(dataset::open(&folder)?);
    for _ in 0..passes {
        let mut config = LoaderConfig::new(Preprocess::torchvision_v1());
        config.threads = threads;
        let start = Instant::now();
        let mut loader = Loader::new(data.clone(), config)?;
        let (mut images, mut sum) = (0, 0.0);
        while let Some(loaded) = loader.next_batch()? {
            images += loaded.batch.images();
            sum += f64::from(loaded.batch.values()[0]);
            loader.recycle(loaded.batch);
        }
        let seconds = start.elapsed().as_secs_f64();
        let rate = images as f64 / seconds;
        println!("{rate:.1} images/s ({images} images, {threads} threads, checksum {sum:.4})");
    }
    Ok(())
}
