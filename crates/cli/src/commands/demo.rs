use crate::output::print;
use anyhow::Result;

/// The demo needs the estimators, which are not part of this version.
pub fn run() -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    print(&format!(
        "flipcast {version}: the demo is not there yet; adaptation runs (`flipcast bench`), accuracy estimates do not exist so far.\n"
    ))
}
