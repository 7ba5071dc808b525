//! Messages of `inference.GRPCInferenceService`, as far as they are used. Fields have the numbers of KServe's and Triton's definition.

use axum::body::Bytes;
use std::collections::HashMap;

/// A request without fields.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Live {
    #[prost(bool, tag = "1")]
    pub is_so: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedModel {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub platform: String,
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<Tensor>,
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<Tensor>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct InferRequest {
    #[prost(string, tag = "1")]
    pub model_name: String,
    #[prost(string, tag = "2")]
    pub model_version: String,
    #[prost(string, tag = "3")]
    pub id: String,
    #[prost(map = "string, message", tag = "4")]
    pub parameters: HashMap<String, Parameter>,
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<Tensor>,
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<WantedOutput>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub raw: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct InferResponse {
    #[prost(string, tag = "1")]
    pub model_name: String,
    #[prost(string, tag = "2")]
    pub model_version: String,
    #[prost(string, tag = "3")]
    pub id: String,
    #[prost(map = "string, message", tag = "4")]
    pub parameters: HashMap<String, Parameter>,
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<Tensor>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub raw: Vec<Bytes>,
}

/// A tensor of a request, a response or a description; the last has neither parameters nor contents.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tensor {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    pub contents: Option<Contents>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct WantedOutput {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Elements of the datatypes that images come in.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Contents {
    #[prost(uint32, repeated, tag = "4")]
    pub numbers: Vec<u32>,
    #[prost(float, repeated, tag = "6")]
    pub floats: Vec<f32>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Parameter {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(int64, tag = "2")]
    Int(i64),
    #[prost(string, tag = "3")]
    Text(String),
}

impl From<Value> for Parameter {
    fn from(value: Value) -> Self {
        Self { value: Some(value) }
    }
}
