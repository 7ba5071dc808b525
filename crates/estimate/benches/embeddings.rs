//! Time of the geometry of large sets of embeddings: `cargo bench -p flipcast-estimate --bench embeddings`.
//!
//! The points are made up: classes of different size around means of their own, with much noise and no negative values, as the
//! pooled activations of a network are. The first two rows have the size of ImageNet's validation images of 16 classes.

use flipcast_estimate::embed::{KmeansConfig, Points, TsneConfig, kmeans, silhouette, tsne};
use flipcast_ground::SplitMix64;
use std::time::Instant;

const DIMS: usize = 2048;
const CLASSES: usize = 16;

/// Sum of four uniform numbers, centred: near enough to normal.
fn noise(random: &mut SplitMix64) -> f64 {
    (0..4).map(|_| random.uniform()).sum::<f64>() - 2.0
}

fn points(count: usize) -> Points {
    let mut random = SplitMix64::new(1);
    let means: Vec<f64> = (0..CLASSES * DIMS).map(|_| 0.3 * noise(&mut random)).collect();
    let mut values = Vec::with_capacity(count * DIMS);
    for _ in 0..count {
        // Squared, so that some classes have many points and some few.
        let class = (random.uniform().powi(2) * CLASSES as f64) as usize;
        let shared = noise(&mut random);
        for dim in 0..DIMS {
            let own = means[class * DIMS + dim] + 0.2 * shared * means[dim];
            values.push((own + noise(&mut random)).max(0.0) as f32);
        }
    }
    Points::new(values, DIMS).expect("finite values")
}

fn main() {
    let large = points(10_350);
    let started = Instant::now();
    let clusters = kmeans(&large, &KmeansConfig::new(CLASSES, 1)).expect("enough points");
    let seconds = started.elapsed().as_secs_f64();
    println!("k-means of 10,350 x 2,048, k = 16, 10 restarts: {seconds:.2} s");
    println!("  inertia {:.6e}, {} rounds", clusters.inertia, clusters.rounds);
    let started = Instant::now();
    let found = silhouette(&large, &clusters.labels).expect("several clusters");
    let seconds = started.elapsed().as_secs_f64();
    println!("silhouette of 10,350 x 2,048: {seconds:.2} s, mean {:.6}", found.mean);
    let small = points(2_000);
    let started = Instant::now();
    let found = tsne(&small, &TsneConfig::default(), None).expect("enough points");
    let seconds = started.elapsed().as_secs_f64();
    println!("t-SNE of 2,000 x 2,048: {seconds:.2} s, divergence {:.4}", found.kl);
}
