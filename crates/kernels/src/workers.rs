use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};

type Job = *const (dyn Fn(usize) + Sync);

/// How many pauses a worker waits for the next region before it sleeps: tens of microseconds, so that a machine with
/// other work to do gets its core back.
const SPINS: usize = 2_000;

/// On a cache line pair of its own: waiting workers must not share one with data being written.
#[repr(align(128))]
struct Line<T>(T);

struct State {
    region: Line<AtomicUsize>,
    finished: Line<AtomicUsize>,
    asleep: Vec<Line<AtomicBool>>,
    job: UnsafeCell<Option<Job>>,
    quit: AtomicBool,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

// SAFETY: `job` is written only while every worker waits for the next region.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

/// A fixed team of threads that runs one region of chunks at a time.
///
/// Regions here last tens of microseconds to milliseconds and follow each other directly, so workers wait for the next
/// one by spinning briefly before they sleep; a general thread pool takes longer to wake than small regions run.
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
            region: Line(AtomicUsize::new(0)),
            finished: Line(AtomicUsize::new(0)),
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
        let next = Line(AtomicUsize::new(0));
        self.on_all(&|worker| {
            loop {
                let chunk = next.0.fetch_add(1, Ordering::Relaxed);
                if chunk >= chunks {
                    break;
                }
                f(chunk, worker);
            }
        });
    }

    fn on_all(&mut self, f: &(dyn Fn(usize) + Sync)) {
        let state = &*self.state;
        state.finished.0.store(0, Ordering::Relaxed);
        // SAFETY: only the lifetime changes. No worker reads `job` before the region number below changes, and this
        // function does not return before every worker has reported that it is finished with it.
        unsafe {
            let job = std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Job>(f);
            *state.job.get() = Some(job);
        }
        state.region.0.fetch_add(1, Ordering::SeqCst);
        for (asleep, (_, thread)) in state.asleep.iter().zip(&self.threads) {
            if asleep.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| f(0)));
        let mut waited = 0;
        while state.finished.0.load(Ordering::Acquire) != self.threads.len() {
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
        self.state.region.0.fetch_add(1, Ordering::SeqCst);
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

fn work(state: &State, id: usize) {
    let asleep = &state.asleep[id - 1].0;
    let mut seen = 0;
    loop {
        let mut spins = 0;
        loop {
            let region = state.region.0.load(Ordering::Acquire);
            if region != seen {
                seen = region;
                break;
            }
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            asleep.store(true, Ordering::SeqCst);
            if state.region.0.load(Ordering::SeqCst) == seen {
                std::thread::park();
            }
            asleep.store(false, Ordering::SeqCst);
        }
        if state.quit.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: set before the region number changed, and valid until `finished` is counted up.
        let job = unsafe { (*state.job.get()).expect("a job comes with every region") };
        // SAFETY: as above.
        let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*job)(id) }));
        if let (Err(panic), Ok(mut slot)) = (result, state.panic.lock()) {
            slot.get_or_insert(panic);
        }
        state.finished.0.fetch_add(1, Ordering::Release);
    }
}
