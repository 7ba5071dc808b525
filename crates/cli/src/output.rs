//! Results on stdout.

use crate::failure::Environment;
use anyhow::Result;
use std::io::{ErrorKind, Write};

/// Writes `text` to stdout. A reader that has seen enough, such as `head`, is no error; a result that cannot be written
/// for another reason is.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Environment(format!("cannot write the result to stdout: {error}")).into())
        }
        _ => Ok(()),
    }
}

/// Tells `text` on stderr, in a line. Whoever read it may be gone, which is no reason to end: what is told there is no result.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
