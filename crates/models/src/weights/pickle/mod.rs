//! A pickle machine that builds plain values and executes nothing.
//!
//! [`read_pickle`] runs protocols 2 to 5. Constructors come from the list in `globals.rs`; anything else is
//! refused by name. Values refer to containers by index into a flat heap, so shared and even cyclic objects cost
//! nothing extra and nothing here recurses.

mod construct;
mod errors;
mod globals;
mod machine;
mod opcode;
mod value;

pub use errors::PickleError;
pub(super) use machine::{Pickle, read_pickle};
pub(super) use value::{Id, StorageRef, TensorRef, Value};
