//! Ground stage: shapes, element types, host tensors and the tolerances tests compare with.
//!
//! Takes and gives plain data; depends on no other crate of the workspace. A [`Tensor`] always holds
//! exactly as many values as its [`Shape`] says, and its values are `f32` whatever the file stored.
#![forbid(unsafe_code)]

mod batch;
mod byte_change;
mod byte_scale;
mod device_images;
mod dtype;
mod image_set;
mod shape;
mod tensor;
mod tolerance;

pub use batch::{Batch, BatchMemory};
pub use byte_change::{ByteChange, ByteRecipe, ChangeError};
pub use byte_scale::ByteScale;
pub use device_images::DeviceImages;
pub use dtype::DType;
pub use image_set::{Derived, ImageSet, Pixels};
pub use shape::Shape;
pub use tensor::{Tensor, TensorError};
pub use tolerance::{Comparison, Tolerance};
