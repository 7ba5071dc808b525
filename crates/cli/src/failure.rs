//! How errors reach the user: what failed, why, and what to do about it.

use flipcast_models::{ImportError, ModelError};
use std::process::ExitCode;

/// The environment lacks something the user asked for.
#[derive(Debug)]
pub struct Environment(pub String);

impl std::fmt::Display for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Environment {}

/// Prints an error with its causes and a hint, and gives its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
    let hint = error.chain().find_map(|cause| {
        let model = cause
            .downcast_ref::<ModelError>()
            .and_then(ModelError::hint);
        model.or_else(|| {
            cause
                .downcast_ref::<ImportError>()
                .and_then(ImportError::hint)
        })
    });
    if let Some(hint) = hint {
        eprintln!("  hint: {hint}");
    }
    let environment = error.chain().any(|cause| cause.is::<Environment>());
    ExitCode::from(if environment { 3 } else { 2 })
}
