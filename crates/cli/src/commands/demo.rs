use anyhow::Result;

/// The demo needs the estimators, which are not part of this version.
pub fn run() -> Result<()> {
    println!(
        "flipcast {}: the demo is not there yet; adaptation runs (`flipcast bench`), accuracy estimates do not exist so far.",
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}
