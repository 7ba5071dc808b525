//! Exported programs and ONNX files become a graph and its parameters.
//!
//! A program is a list of calls of operators: two readers ([`schema`], [`onnx`]) give it, with one name for each operator and
//! its arguments. Every tensor that depends on the images is a [`view`] of a node of the
//! graph, so that reshaping, permuting and splitting cost nothing and need no operator of the engine; every other tensor is a
//! constant. Each operator is one row of [`operators::OPERATORS`]. Operators in place are taken as their plain forms, and a
//! value that was changed through another view of it is refused where it is read again.
//!
//! The sizes in the program are those of the example it was exported with. Batches of any size run. Images of another size
//! run as well, unless a layer holds for one size alone: then the loader refuses them.

mod arguments;
mod error;
mod lower;
mod onnx;
mod operators;
mod room;
mod rotary;
mod schema;
mod view;

pub use error::{CallError, Place, ProgramError};
pub(crate) use lower::{Lowered, list_operators, lower_program};
