use crate::{Ledger, RunError, Watcher};
use flipcast_record::Protocol;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Instant;

/// A question with a protocol and a result that records hold.
pub trait Analysis {
    /// What records hold.
    type Result: Serialize + DeserializeOwned;

    /// Everything that defines the result.
    fn protocol(&self) -> Result<Protocol, RunError>;

    /// Makes the result.
    fn run(&self, watcher: &mut dyn Watcher) -> Result<Self::Result, RunError>;

    /// The result, from `ledger` or else made and kept there.
    fn recorded(&self, ledger: &mut Ledger, watcher: &mut dyn Watcher) -> Result<Self::Result, RunError> {
        let protocol = self.protocol()?;
        if let Some(result) = ledger.find(&protocol)? {
            return Ok(result);
        }
        let started = Instant::now();
        let result = self.run(watcher)?;
        ledger.keep(protocol, &result, started.elapsed().as_secs_f64())?;
        Ok(result)
    }
}
