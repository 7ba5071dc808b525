//! Milliseconds per image of every corruption and severity, on one thread.
//!
//! ```text
//! cargo bench -p flipcast-corrupt --bench corruptions -- [PICTURE.rgb WIDTH HEIGHT] [--set SET] [--repeats N] [--only NAME]
//! ```
//!
//! It corrupts a made-up photograph of 224 x 224 pixels, or the raw RGB bytes given, and prints one line per corruption with
//! the best time of each severity, then the total of the 15 standard corruptions at all severities.
//!
//! With `--serve` it reads lines `NAME SEVERITY REPEATS` instead and answers each with that many times in milliseconds,
//! so that another program can take turns with it.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use flipcast_corrupt::registry::entries;
use flipcast_corrupt::{CorruptionSet, CorruptionSpec, Severity, corrupt};
use flipcast_images::Image;

/// How the benchmark was called.
struct Arguments {
    image: Image,
    set: CorruptionSet,
    repeats: usize,
    only: Option<String>,
    serve: bool,
}

fn parse() -> Result<Arguments, Box<dyn Error>> {
    let (mut positional, mut set, mut repeats, mut only, mut serve) =
        (Vec::new(), CorruptionSet::ImageNetC, 5, None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--set" => set = value()?.parse()?,
            "--repeats" => repeats = value()?.parse()?,
            "--only" => only = Some(value()?),
            "--serve" => serve = true,
            // What `cargo bench` adds.
            "--bench" => {}
            _ => positional.push(argument),
        }
    }
    let image = match positional.as_slice() {
        [] => picture(224),
        [path, width, height] => Image::new(width.parse()?, height.parse()?, std::fs::read(path)?)
            .ok_or("the file does not hold WIDTH x HEIGHT x 3 bytes")?,
        _ => return Err("expected no picture, or PICTURE.rgb WIDTH HEIGHT".into()),
    };
    Ok(Arguments { image, set, repeats, only, serve })
}

/// Smooth shapes with some texture.
fn picture(side: usize) -> Image {
    let wave = |x: usize, y: usize, channel: usize| {
        let (x, y) = (x as f64 / 17.0, y as f64 / 23.0);
        let texture = ((x * 97.0 + y * 61.0).sin() * 4373.0).fract() * 20.0;
        128.0 + 80.0 * (x + channel as f64).sin() * y.cos() + texture
    };
    let rgb = (0..3 * side * side).map(|i| wave(i / 3 % side, i / 3 / side, i % 3) as u8).collect();
    Image::new(side, side, rgb).expect("three samples are made per pixel")
}

/// Milliseconds of `repeats` runs, after one that warms caches and makes the frost textures.
fn times(image: &Image, spec: &CorruptionSpec, repeats: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut times = Vec::new();
    for repeat in 0..=repeats {
        let start = Instant::now();
        black_box(corrupt(black_box(image), spec, 1, repeat as u64)?);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.remove(0);
    Ok(times)
}

/// Answers lines `NAME SEVERITY REPEATS` until there are no more.
fn answer(image: &Image, set: CorruptionSet) -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let [name, severity, repeats] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(format!("`{line}` found, but NAME SEVERITY REPEATS expected").into());
        };
        let spec = CorruptionSpec::new(set, name, Severity::new(severity.parse()?)?)?;
        let times = times(image, &spec, repeats.parse()?)?;
        let times: Vec<String> = times.iter().map(|ms| format!("{ms:.4}")).collect();
        println!("{}", times.join(" "));
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { image, set, repeats, only, serve } = parse()?;
    if serve {
        return answer(&image, set);
    }
    let mut total = 0.0;
    for (position, entry) in entries(set).enumerate() {
        if only.as_ref().is_some_and(|only| only != entry.name) {
            continue;
        }
        print!("{}", entry.name);
        for severity in Severity::ALL {
            let spec = CorruptionSpec::new(set, entry.name, severity)?;
            let best = times(&image, &spec, repeats)?.into_iter().fold(f64::INFINITY, f64::min);
            print!(" {best:.3}");
            if position < 15 {
                total += best;
            }
        }
        println!();
    }
    println!("total_15x5 {total:.1}");
    Ok(())
}
