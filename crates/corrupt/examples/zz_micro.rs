//! scratch
use flipcast_corrupt::*;
use flipcast_images::Image;
use std::hint::black_box;
use std::time::Instant;
fn t(name: &str, mut f: impl FnMut()) { let mut b = f64::MAX; for _ in 0..15 { let s = Instant::now(); f(); b = b.min(s.elapsed().as_secs_f64()); } println!("{name} {:.3} ms", b * 1e3); }
fn main() {
    let img = Image::new(224, 224, std::fs::read("/tmp/astro.rgb").unwrap()).unwrap();
    let k = StreamKey { seed: 1, set: "a", corruption: "b", severity_hundredths: 1, image_index: 1 };
    t("bits sum 150k", || { let mut r = CounterRng::new(&k); let mut s = 0u64; for _ in 0..150528 { s ^= r.bits(); } black_box(s); });
    t("normal sum 150k", || { let mut r = CounterRng::new(&k); let mut s = 0f64; for _ in 0..150528 { s += r.normal(); } black_box(s); });
    t("draw normal vec", || { let mut r = CounterRng::new(&k); black_box(imagenet_c::gaussian_noise::draw(&mut r, &img)); });
    let mut r = CounterRng::new(&k);
    let f = imagenet_c::gaussian_noise::draw(&mut r, &img);
    t("apply gaussian", || { black_box(imagenet_c::gaussian_noise::apply(&img, &imagenet_c::gaussian_noise::Constants { std: 0.1 }, &f)); });
    t("to_unit", || { black_box(blocks::pixels::to_unit(&img)); });
    let u = blocks::pixels::to_unit(&img);
    t("finish vec", || { black_box(u.iter().map(|&v| blocks::pixels::finish(v)).collect::<Vec<u8>>()); });
    t("fog draw", || { let mut r = CounterRng::new(&k); black_box(imagenet_c::fog::draw(&mut r, &img)); });
    let mut r = CounterRng::new(&k);
    let ff = imagenet_c::fog::draw(&mut r, &img);
    t("plasma", || { let mut d = ff.uniform.iter().copied(); black_box(blocks::plasma::plasma_map(256, 2.0, || d.next().unwrap_or(0.5))); });
    t("fog apply", || { black_box(imagenet_c::fog::apply(&img, &imagenet_c::fog::Constants { thickness: 1.5, decay: 2.0 }, &ff)); });
    t("jpeg rt", || { black_box(blocks::jpeg::round_trip(&img, 25)); });
    t("jpeg encode", || { black_box(blocks::jpeg::encode(&img, 85).unwrap()); });
}
