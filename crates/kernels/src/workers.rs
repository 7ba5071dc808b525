use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// What a region does with a chunk, on a worker.
type Job = *const (dyn Fn(usize, usize) + Sync);

/// How many pauses a thread waits before it sleeps or lets others have its core: tens of microseconds.
const SPINS: usize = 2_000;

/// How long a worker computes before it offers its core to other processes, between two chunks. Shorter than what schedulers grant at once: who
/// is made to leave its core holds a chunk, and the region waits for it until it is back; who leaves between chunks is not missed.
const TURN: Duration = Duration::from_millis(2);

/// Parts of the gate: the number of the region, whether it may be entered, and below that how many workers are inside.
const REGION: u64 = 1 << 32;
const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

/// On a cache line pair of its own: waiting workers must not share one with data being written.
#[repr(align(128))]
struct Line<T>(T);

struct State {
    gate: Line<AtomicU64>,
    /// The first chunk of everybody's share that nobody has taken.
    next: Vec<Line<AtomicUsize>>,
    asleep: Vec<Line<AtomicBool>>,
    /// The job of the open region, and its number of chunks.
    job: UnsafeCell<Option<(Job, usize)>>,
    quit: AtomicBool,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

// SAFETY: `job` is written only while the gate is closed and nobody is inside, and read only by those inside.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

/// A fixed team of threads that runs one region of chunks at a time.
///
/// Regions here last tens of microseconds to milliseconds and follow each other directly, so workers wait for the next
/// one by spinning briefly before they sleep; a general thread pool takes longer to wake than small regions run.
///
/// A region is over when its chunks are done. The caller takes chunks until none is left, closes the gate, and waits for those inside;
/// a worker that sleeps, or whose core does something else, stays outside and is not waited for.
///
/// Everybody begins with a share of neighbouring chunks, the same part of every region, and then helps others: what a thread wrote in one region
/// it mostly reads itself in the next, and cores need not be near each other.
pub struct Workers {
    state: Arc<State>,
    threads: Vec<(JoinHandle<()>, Thread)>,
}

impl Workers {
    /// A team of `threads`, the caller included; 0 means one per available core.
    pub fn new(threads: usize) -> Self {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let state = Arc::new(State {
            gate: Line(AtomicU64::new(0)),
            next: (0..threads).map(|_| Line(AtomicUsize::new(0))).collect(),
            asleep: (1..threads).map(|_| Line(AtomicBool::new(false))).collect(),
            job: UnsafeCell::new(None),
            quit: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let threads = (1..threads)
            .map(|id| {
                let state = Arc::clone(&state);
                let handle = std::thread::spawn(move || work(&state, id));
                let thread = handle.thread().clone();
                (handle, thread)
            })
            .collect();
        Self { state, threads }
    }

    /// Threads in the team, the caller included.
    pub fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `f(chunk, worker)` for every chunk, each once, in any order and on any worker.
    pub fn each(&mut self, chunks: usize, f: impl Fn(usize, usize) + Sync) {
        if chunks <= 1 || self.threads.is_empty() {
            return (0..chunks).for_each(|chunk| f(chunk, 0));
        }
        self.on_all(chunks, &f);
    }

    fn on_all(&mut self, chunks: usize, f: &(dyn Fn(usize, usize) + Sync)) {
        let state = &*self.state;
        // SAFETY: only the lifetime changes. The gate is closed and nobody inside, and this function does not return before that is so again.
        unsafe {
            let job = std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), Job>(f);
            *state.job.get() = Some((job, chunks));
        }
        for (worker, next) in state.next.iter().enumerate() {
            next.0.store(state.share(worker, chunks).start, Ordering::Relaxed);
        }
        let region = (state.gate.0.load(Ordering::Relaxed) & !(REGION - 1)).wrapping_add(REGION);
        state.gate.0.store(region | OPEN, Ordering::SeqCst);
        for (asleep, (_, thread)) in state.asleep.iter().zip(&self.threads) {
            if asleep.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| {
            while let Some(chunk) = state.take(0, chunks) {
                f(chunk, 0);
            }
        }));
        state.gate.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut waited = 0;
        while state.gate.0.load(Ordering::Acquire) & INSIDE > 0 {
            std::hint::spin_loop();
            waited += 1;
            if waited > SPINS {
                std::thread::yield_now();
            }
        }
        let theirs = state.panic.lock().ok().and_then(|mut slot| slot.take());
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        if let Some(panic) = theirs {
            resume_unwind(panic);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.state.quit.store(true, Ordering::SeqCst);
        for (handle, thread) in self.threads.drain(..) {
            thread.unpark();
            // A worker catches panics of its jobs, so joining can only succeed.
            let _ = handle.join();
        }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workers({})", self.count())
    }
}

impl State {
    /// The chunks that a worker takes first.
    fn share(&self, worker: usize, chunks: usize) -> Range<usize> {
        let start = |worker: usize| worker * chunks / self.next.len();
        start(worker)..start(worker + 1)
    }

    /// A chunk that nobody has taken, of the worker's own share if it has one left.
    fn take(&self, worker: usize, chunks: usize) -> Option<usize> {
        let others = (worker + 1..self.next.len()).chain(0..worker);
        std::iter::once(worker).chain(others).find_map(|owner| {
            let (next, end) = (&self.next[owner].0, self.share(owner, chunks).end);
            let is_left = |chunk: &usize| *chunk < end;
            Some(next.load(Ordering::Relaxed)).filter(is_left)?;
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(is_left)
        })
    }

    /// The gate once it is open for another region than `finished`, or `None` when the team is dropped. Calls `woken` after every sleep.
    fn wait(&self, id: usize, finished: u64, mut woken: impl FnMut()) -> Option<u64> {
        let asleep = &self.asleep[id - 1].0;
        let is_new = |gate: &u64| gate & OPEN != 0 && gate / REGION != finished;
        let mut spins = 0;
        loop {
            let gate = self.gate.0.load(Ordering::Acquire);
            if is_new(&gate) {
                return Some(gate);
            }
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            // The caller opens the gate before it looks who sleeps, so one of both sees the other.
            asleep.store(true, Ordering::SeqCst);
            if self.quit.load(Ordering::SeqCst) {
                return None;
            }
            if !is_new(&self.gate.0.load(Ordering::SeqCst)) {
                std::thread::park();
                woken();
            }
            asleep.store(false, Ordering::SeqCst);
        }
    }
}

fn work(state: &State, id: usize) {
    // The region of which no chunk is left.
    let mut finished = 0;
    let mut turn = Instant::now();
    while let Some(gate) = state.wait(id, finished, || turn = Instant::now()) {
        if state.gate.0.compare_exchange(gate, gate + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        // SAFETY: the region is open and this worker inside, so the job is there until it leaves.
        let (job, chunks) = unsafe { (*state.job.get()).expect("a job comes with every region") };
        let is_over = || turn.elapsed() > TURN;
        let result = catch_unwind(AssertUnwindSafe(|| {
            while !is_over() {
                let Some(chunk) = state.take(id, chunks) else { return true };
                // SAFETY: as above.
                unsafe { (*job)(chunk, id) };
            }
            false
        }));
        let done = result.unwrap_or_else(|panic| {
            if let Ok(mut slot) = state.panic.lock() {
                slot.get_or_insert(panic);
            }
            true
        });
        state.gate.0.fetch_sub(1, Ordering::Release);
        if done {
            finished = gate / REGION;
        } else {
            std::thread::yield_now();
            turn = Instant::now();
        }
    }
}
