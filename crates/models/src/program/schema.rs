use super::ProgramError;
use super::operators::Operator;
use crate::text::shown;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::HashMap;

/// The major version of the schema this reader was written for.
const SCHEMA: u64 = 8;

/// An exported program: operators in the order in which they run, and what goes in and comes out.
pub(super) struct Program {
    pub calls: Vec<Call>,
    /// Name in the graph and name of the tensor in the file, of every weight, buffer and constant.
    pub tensors: Vec<(String, String)>,
    /// Name of the batch of images.
    pub input: String,
    /// Batch, channels, rows and columns of the example the program was exported with.
    pub example: [usize; 4],
    /// Name of the logits.
    pub output: String,
}

/// One operator with its arguments, under PyTorch's names.
#[derive(Clone)]
pub(super) struct Call {
    /// Its name in the graph.
    pub name: String,
    /// Such as `aten.conv2d.default`.
    pub operator: String,
    /// What the operator is called in an ONNX file, if it comes from one.
    pub onnx: Option<String>,
    /// Path of the innermost module it was called in; empty at the top.
    pub module: String,
    pub arguments: Vec<(String, Arg)>,
    /// Names of its results.
    pub results: Vec<String>,
}

/// An argument as the program writes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arg {
    None,
    Bool(bool),
    Float(f64),
    Text(String),
    Tensor(String),
    Tensors(Vec<String>),
    Int(Int),
    Ints(Vec<Int>),
    Floats(Vec<f64>),
    /// Anything else, by its kind.
    Other(String),
}

/// A whole number, or the name of one that an earlier call gives.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Int {
    Known(i64),
    Named(String),
}

impl Call {
    /// The operator without overload and the underscore of the form in place.
    pub fn plain_operator(&self) -> &str {
        Operator::plain_name(&self.operator).0
    }

    /// The argument called `name`; `None` where it is left to its default.
    pub fn argument(&self, name: &str) -> Option<&Arg> {
        let found = self.arguments.iter().find(|(argument, _)| argument == name);
        found.map(|(_, value)| value).filter(|value| **value != Arg::None)
    }

    /// Names of all tensors among the arguments.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.arguments
            .iter()
            .flat_map(|(_, argument)| match argument {
                Arg::Tensor(name) => std::slice::from_ref(name),
                Arg::Tensors(names) => names,
                _ => &[],
            })
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The argument in place `index`, for operators whose arguments have no fixed names.
    pub fn nth(&self, index: usize) -> Option<&Arg> {
        self.arguments.get(index).map(|(_, value)| value)
    }
}

#[derive(Deserialize)]
struct RawProgram {
    graph_module: RawModule,
    schema_version: RawVersion,
}

#[derive(Deserialize)]
struct RawVersion {
    major: u64,
    minor: u64,
}

#[derive(Deserialize)]
struct RawModule {
    graph: RawGraph,
    signature: RawSignature,
}

#[derive(Deserialize)]
struct RawGraph {
    nodes: Vec<RawNode>,
    tensor_values: HashMap<String, RawMeta>,
}

#[derive(Deserialize)]
struct RawNode {
    target: String,
    inputs: Vec<RawInput>,
    outputs: Vec<Json>,
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct RawInput {
    name: String,
    arg: Json,
}

#[derive(Deserialize, Default)]
struct RawMetadata {
    #[serde(default)]
    nn_module_stack: Json,
}

#[derive(Deserialize)]
struct RawMeta {
    sizes: Vec<Json>,
}

#[derive(Deserialize)]
struct RawSignature {
    input_specs: Vec<HashMap<String, Json>>,
    output_specs: Vec<HashMap<String, Json>>,
}

impl Program {
    /// Reads `models/model.json`.
    pub fn read(json: &[u8]) -> Result<Self, ProgramError> {
        let raw: RawProgram = serde_json::from_slice(json).map_err(|source| ProgramError::Json { source })?;
        let RawVersion { major, minor } = raw.schema_version;
        if major != SCHEMA {
            return Err(ProgramError::Schema { major, minor });
        }
        let RawModule { graph, signature } = raw.graph_module;
        let mut tensors = Vec::new();
        let mut inputs = Vec::new();
        for spec in &signature.input_specs {
            for (kind, spec) in spec {
                let own = |field: &str| Some((text(&spec["arg"]["name"])?, text(&spec[field])?));
                let known = match kind.as_str() {
                    "parameter" => own("parameter_name").map(|pair| tensors.push(pair)),
                    "buffer" => own("buffer_name").map(|pair| tensors.push(pair)),
                    "tensor_constant" => own("tensor_constant_name").map(|pair| tensors.push(pair)),
                    "user_input" => text(&spec["arg"]["as_tensor"]["name"]).map(|name| inputs.push(name)),
                    _ => None,
                };
                known.ok_or_else(|| ProgramError::Signature { found: shown(kind) })?;
            }
        }
        let specs = signature.output_specs.iter().flatten();
        let outputs: Vec<Option<String>> = specs
            .map(|(kind, spec)| if kind == "user_output" { text(&spec["arg"]["as_tensor"]["name"]) } else { None })
            .collect();
        let [input] = &inputs[..] else {
            return Err(ProgramError::Inputs { found: inputs.len() });
        };
        let [Some(output)] = &outputs[..] else {
            return Err(ProgramError::Outputs { found: outputs.len() });
        };
        let sizes = graph.tensor_values.get(input).map(|meta| meta.sizes.iter().map(size).collect::<Vec<_>>());
        let example = match sizes.as_deref() {
            Some(&[Some(batch), Some(channels), Some(rows), Some(columns)]) => [batch, channels, rows, columns],
            sizes => return Err(ProgramError::Images { rank: sizes.map_or(0, <[_]>::len) }),
        };
        Ok(Self {
            calls: graph.nodes.into_iter().map(Call::from).collect(),
            tensors,
            input: input.clone(),
            example,
            output: output.clone(),
        })
    }
}

impl From<RawNode> for Call {
    fn from(raw: RawNode) -> Self {
        let results: Vec<String> = raw.outputs.iter().flat_map(names).collect();
        let name = raw.name.or_else(|| results.first().cloned()).unwrap_or_default();
        Self {
            name,
            operator: raw.target.strip_prefix("torch.ops.").unwrap_or(&raw.target).to_owned(),
            onnx: None,
            module: innermost(&raw.metadata.nn_module_stack).to_owned(),
            arguments: raw.inputs.into_iter().map(|input| (input.name, Arg::from(&input.arg))).collect(),
            results,
        }
    }
}

/// The path of the last module on the stack: entries are `key,path,type`, with semicolons between.
fn innermost(stack: &Json) -> &str {
    let last = stack.as_str().and_then(|stack| stack.rsplit(';').next());
    last.and_then(|entry| entry.split(',').nth(1)).unwrap_or_default()
}

impl From<&Json> for Arg {
    fn from(json: &Json) -> Self {
        let Some((kind, value)) = json.as_object().and_then(|object| object.iter().next()) else {
            return Self::Other("nothing".to_owned());
        };
        let list = || value.as_array().map_or(&[][..], Vec::as_slice);
        let found = match kind.as_str() {
            "as_none" => Some(Self::None),
            "as_bool" => value.as_bool().map(Self::Bool),
            "as_float" => float(value).map(Self::Float),
            "as_floats" => list().iter().map(float).collect::<Option<_>>().map(Self::Floats),
            "as_string" => text(value).map(Self::Text),
            "as_tensor" => text(&value["name"]).map(Self::Tensor),
            "as_tensors" => list().iter().map(|tensor| text(&tensor["name"])).collect::<Option<_>>().map(Self::Tensors),
            // Positions along some axes, and nothing for the others.
            "as_optional_tensors" => {
                let name = |tensor: &Json| match text(&tensor["as_tensor"]["name"]) {
                    None if tensor.get("as_none").is_some() => Some(String::new()),
                    name => name,
                };
                list().iter().map(name).collect::<Option<_>>().map(Self::Tensors)
            }
            "as_int" => value.as_i64().map(Int::Known).map(Self::Int),
            "as_sym_int" => int(value).map(Self::Int),
            "as_ints" => list().iter().map(|n| n.as_i64().map(Int::Known)).collect::<Option<_>>().map(Self::Ints),
            "as_sym_ints" => list().iter().map(int).collect::<Option<_>>().map(Self::Ints),
            _ => None,
        };
        found.unwrap_or_else(|| Self::Other(shown(kind)))
    }
}

fn text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

/// JSON has no infinities; they are written as text.
fn float(json: &Json) -> Option<f64> {
    json.as_f64().or_else(|| json.as_str()?.parse().ok())
}

fn int(json: &Json) -> Option<Int> {
    json["as_int"].as_i64().map(Int::Known).or_else(|| text(&json["as_name"]).map(Int::Named))
}

/// An extent: a number, or the value that a symbol had in the example.
fn size(json: &Json) -> Option<usize> {
    let known = json["as_int"].as_u64().or_else(|| json["as_expr"]["hint"]["as_int"].as_u64());
    known.and_then(|size| usize::try_from(size).ok())
}

/// The names of one result, which may be a list of tensors.
fn names(json: &Json) -> Vec<String> {
    match Arg::from(json) {
        Arg::Tensor(name) | Arg::Int(Int::Named(name)) => vec![name],
        Arg::Tensors(names) => names,
        _ => Vec::new(),
    }
}
