use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic in it becomes its message. Decoders and archive readers are other people's code and the files
/// are anybody's, so one bad file must not end the run.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "no message".into())
    })
}
