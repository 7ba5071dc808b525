use anyhow::{Result, ensure};

/// Most threads that are started.
const MAX_THREADS: usize = 1024;

/// Threads to use when `asked` for: 0 means one per core.
pub fn thread_count(asked: usize) -> Result<usize> {
    ensure!(asked <= MAX_THREADS, "--threads is {asked}, but 0 to {MAX_THREADS} are allowed");
    Ok(match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    })
}
