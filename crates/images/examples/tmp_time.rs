//! scratch
use std::time::Instant;
fn main() {
    let p = flipcast_images::preprocess::Preprocess::torchvision_v1();
    let b: Vec<Vec<u8>> = (0..64).map(|i| std::fs::read(format!("/tmp/lb/class_{}/{:05}.jpg", i % 4, i)).unwrap()).collect();
    for _ in 0..3 {
        let t = Instant::now();
        let im: Vec<_> = b.iter().map(|b| flipcast_images::decode::decode(b).unwrap()).collect();
        let d = t.elapsed();
        let t = Instant::now();
        let c: Vec<_> = im.iter().map(|i| p.crop_bytes(i).unwrap()).collect();
        let r = t.elapsed();
        let mut o = vec![0.0; 224 * 224 * 3];
        let n = flipcast_images::preprocess::Preprocess::normalise_only(p.normalise.clone());
        let t = Instant::now();
        for c in &c { n.apply(c, &mut o).unwrap(); }
        println!("decode {:?} resize {:?} normalise {:?}", d / 64, r / 64, t.elapsed() / 64);
    }
}
