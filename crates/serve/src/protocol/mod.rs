//! What the world around speaks: the Open Inference Protocol and CloudEvents.

mod cloud_event;
mod infer;
mod respond;
mod tensor;

pub use cloud_event::{CloudEvent, EventKind};
pub use infer::{InferRequest, logits_of_response};
pub use respond::{InferResponse, choose_outputs, respond};
pub use tensor::BadTensor;
#[cfg(feature = "grpc")]
pub use tensor::RequestTensor;
