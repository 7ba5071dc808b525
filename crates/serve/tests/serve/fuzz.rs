//! Requests that nobody would send: valid ones with bytes changed, cut and doubled.
//!
//! `FLIPCAST_FUZZ=10000000 FLIPCAST_FUZZ_WORKERS=2 cargo test --profile checked -p flipcast-serve --test serve fuzz -- --nocapture` makes many;
//! `FLIPCAST_FUZZ_SECONDS` ends it earlier, `FLIPCAST_FUZZ_SEED` chooses others, and `TMPDIR=/dev/shm` spares the disk. The program needs no checkout.

mod seeds;

use crate::fixture::{Answer, call, config, outputs_server, server};
use axum::http::StatusCode;
use flipcast_ground::SplitMix64;
use flipcast_serve::{Limits, ServeConfig};
use seeds::seeds;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Requests of a worker that are under way at the same time, so that one commit of the state serves many.
const AT_ONCE: usize = 64;
/// Requests after which a long run says where it stands.
const TOLD_EVERY: usize = 500_000;

/// Answers by kind of request and status; gRPC has its own.
type Statuses = BTreeMap<&'static str, BTreeMap<String, usize>>;

/// What is to be done, and what came of it.
struct Fuzzing {
    requests: usize,
    seed: u64,
    workers: usize,
    started: Instant,
    seconds: Option<u64>,
    begun: AtomicUsize,
    panics: AtomicUsize,
    statuses: Mutex<Statuses>,
}

impl Fuzzing {
    /// As the environment says, or else a few.
    fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        Self {
            requests: number("FLIPCAST_FUZZ").unwrap_or(2000) as usize,
            seed: number("FLIPCAST_FUZZ_SEED").unwrap_or(11),
            workers: number("FLIPCAST_FUZZ_WORKERS").unwrap_or(1).max(1) as usize,
            started: Instant::now(),
            seconds: number("FLIPCAST_FUZZ_SECONDS"),
            begun: AtomicUsize::new(0),
            panics: AtomicUsize::new(0),
            statuses: Mutex::default(),
        }
    }

    /// Whether another request is to be made.
    fn next(&self) -> bool {
        let is_late = self.seconds.is_some_and(|seconds| self.started.elapsed() > Duration::from_secs(seconds));
        !is_late && self.begun.fetch_add(1, Ordering::Relaxed) < self.requests
    }

    /// Counts an answer, which is `number` of its worker; a fault of the server ends the run.
    fn take(&self, number: usize, kind: &'static str, answer: &Answer) {
        let text = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let code = match text("grpc-status") {
            Some(code) => format!("grpc {code}"),
            None => answer.status.as_u16().to_string(),
        };
        // gRPC answers 13 to messages that cannot be read, and for a fault of ours; 2 would be one that nobody foresaw.
        let reason = text("grpc-message").unwrap_or_default();
        let is_ours = reason.starts_with("the%20network%20cannot%20run") || reason.starts_with("the%20state");
        let is_fault = match text("grpc-status") {
            Some(code) => code == "2" || code == "13" && is_ours,
            None => answer.status.is_server_error() && answer.status != StatusCode::INSUFFICIENT_STORAGE,
        };
        let body = || String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!is_fault, "{kind}, request {number} of its worker: {code} {reason} {}", body());
        let mut statuses = self.statuses.lock().unwrap();
        *statuses.entry(kind).or_default().entry(code).or_default() += 1;
        let done: usize = statuses.values().flat_map(BTreeMap::values).sum();
        if done.is_multiple_of(TOLD_EVERY) {
            self.tell(&statuses);
        }
    }

    fn tell(&self, statuses: &Statuses) {
        for (kind, statuses) in statuses {
            println!("{kind}: {} requests, {statuses:?}", statuses.values().sum::<usize>());
        }
        let requests: usize = statuses.values().flat_map(BTreeMap::values).sum();
        let (seconds, panics) = (self.started.elapsed().as_secs(), self.panics.load(Ordering::Relaxed));
        println!("{requests} requests, seed {}, {} workers, {seconds} s, {panics} panics", self.seed, self.workers);
    }

    /// Sends requests to two servers of its own, one with a network and one without.
    async fn work(&self, folder: &Path, worker: usize) {
        let limits = Limits { streams: 50, ..Limits::default() };
        let with = |name: &str| ServeConfig { limits, ..config(&folder.join(format!("{name}-{worker}"))) };
        let routers = [server(with("network")).router(), outputs_server(with("outputs")).router()];
        let seeds = seeds();
        let mut random = SplitMix64::new(SplitMix64::mix(self.seed).wrapping_add(worker as u64));
        let (mut under_way, mut number) = (JoinSet::new(), 0);
        while self.next() {
            number += 1;
            let seed = &seeds[random.below(seeds.len())];
            let (kind, request, router) = (seed.kind, seed.mutated(&mut random), routers[number % 2].clone());
            under_way.spawn(async move { (number, kind, call(&router, request).await) });
            if under_way.len() >= AT_ONCE {
                let (number, kind, answer) = under_way.join_next().await.unwrap().unwrap();
                self.take(number, kind, &answer);
            }
        }
        while let Some(done) = under_way.join_next().await {
            let (number, kind, answer) = done.unwrap();
            self.take(number, kind, &answer);
        }
    }
}

#[test]
fn mutated_requests_are_answered_or_refused_and_nothing_panics() {
    let fuzzing = Arc::new(Fuzzing::from_environment());
    if std::env::var_os("FLIPCAST_FUZZ").is_some() {
        // Alone in its process: a panic anywhere counts, on threads that nobody joins too.
        let (fuzzing, hook) = (fuzzing.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| {
            fuzzing.panics.fetch_add(1, Ordering::Relaxed);
            hook(info);
        }));
    }
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for worker in 0..fuzzing.workers {
            let (fuzzing, folder) = (&fuzzing, folder.path());
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(fuzzing.work(folder, worker));
            });
        }
    });
    let statuses = fuzzing.statuses.lock().unwrap();
    fuzzing.tell(&statuses);
    assert_eq!(fuzzing.panics.load(Ordering::Relaxed), 0);
    assert!(statuses.values().all(|statuses| statuses.len() > 1), "some are answered, some are refused: {statuses:?}");
}
