/// Threads to use when `asked` for: 0 means one per core.
pub fn thread_count(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}
