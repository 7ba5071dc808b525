//! Damaged files of every format that others may send: each ends in a value or a typed error.
//!
//! `flipcast-mutate FORMAT COUNT [--seed S] [--first N] [--workers W] [--seconds S]`, from the root of the repository. It reads COUNT files,
//! numbered from N (0) on, on W threads (all cores), for S seconds at most, and prints what became of them, by error, how much memory
//! one took beyond itself at most, and how long. Files that made a reader panic or take more than it should are kept in
//! `target/mutate`. Ends with 1 if there are any.

mod allocation;
mod archive;
mod formats;
mod json;
mod outcomes;
mod plain;
mod protobuf;

use flipcast_ground::SplitMix64;
use formats::format;
use outcomes::Outcomes;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Files that a worker takes at a time.
const PORTION: u64 = 256;
/// Between two lines of progress.
const REPORT_EVERY: Duration = Duration::from_secs(20);

/// The numbers that file `number` of `seed` is made of: it can be made again from these alone.
fn numbered(seed: u64, number: u64) -> SplitMix64 {
    SplitMix64::new(SplitMix64::mix(seed) ^ SplitMix64::mix(number))
}

struct Settings {
    name: String,
    count: u64,
    seed: u64,
    first: u64,
    workers: u64,
    seconds: u64,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Self, Box<dyn Error>> {
        let [name, count, settings @ ..] = args else {
            return Err(
                "expected: flipcast-mutate FORMAT COUNT [--seed S] [--first N] [--workers W] [--seconds S]".into()
            );
        };
        let workers = std::thread::available_parallelism()?.get() as u64;
        let mut parsed =
            Self { name: name.clone(), count: count.parse()?, seed: 1, first: 0, workers, seconds: u64::MAX };
        for pair in settings.chunks(2) {
            let [setting, value] = pair else {
                return Err(format!("`{}` has no value", pair[0]).into());
            };
            let place = match setting.as_str() {
                "--seed" => &mut parsed.seed,
                "--first" => &mut parsed.first,
                "--workers" => &mut parsed.workers,
                "--seconds" => &mut parsed.seconds,
                _ => return Err(format!("`{setting}` is no setting").into()),
            };
            *place = value.parse()?;
        }
        Ok(parsed)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse(&std::env::args().skip(1).collect::<Vec<_>>())?;
    let scratch = PathBuf::from(format!("/dev/shm/flipcast-mutate-{}", std::process::id()));
    let kept = PathBuf::from("target/mutate");
    std::fs::create_dir_all(&kept)?;
    // Panics of readers that are caught are no news; those that are not are counted.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let outcomes = run(&settings, &scratch, &kept, started);
    std::fs::remove_dir_all(&scratch)?;
    let outcomes = outcomes?;
    print!("{}", outcomes.by_error());
    std::process::exit(i32::from(!outcomes.are_right()))
}

/// Reads all files on as many threads as there are workers.
fn run(settings: &Settings, scratch: &Path, kept: &Path, started: Instant) -> Result<Outcomes, Box<dyn Error>> {
    let Settings { name, count, seed, first, workers, seconds } = settings;
    let (next, left) = (AtomicU64::new(0), AtomicU64::new(*workers));
    let all = Mutex::new(Outcomes::default());
    let is_broken = AtomicBool::new(false);
    let work = |worker: u64| -> Result<(), String> {
        let scratch = scratch.join(worker.to_string());
        std::fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
        let format = format(name, &scratch).map_err(|error| error.to_string())?;
        while started.elapsed().as_secs() < *seconds {
            let start = next.fetch_add(PORTION, Relaxed);
            if start >= *count {
                break;
            }
            let mut found = Outcomes::default();
            (start..(start + PORTION).min(*count))
                .for_each(|place| found.run(format.as_ref(), (name, *seed, first + place), kept));
            let mut all = all.lock().map_err(|error| error.to_string())?;
            *all = found.merged(&all);
        }
        Ok(())
    };
    let tell = || {
        let outcomes = all.lock().expect("no worker panics while it holds the counts").clone();
        let seconds = started.elapsed().as_secs();
        println!("{name}, seed {seed}, from number {first} on, {workers} threads, {seconds} s: {outcomes}");
        outcomes
    };
    std::thread::scope(|scope| {
        for worker in 0..*workers {
            let (work, left, is_broken) = (&work, &left, &is_broken);
            scope.spawn(move || {
                if let Err(error) = work(worker) {
                    eprintln!("worker {worker}: {error}");
                    is_broken.store(true, Relaxed);
                }
                left.fetch_sub(1, Relaxed);
            });
        }
        let mut told = Instant::now();
        while left.load(Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() > REPORT_EVERY {
                tell();
                told = Instant::now();
            }
        }
    });
    match is_broken.load(Relaxed) {
        true => Err("a worker could not go on".into()),
        false => Ok(tell()),
    }
}
