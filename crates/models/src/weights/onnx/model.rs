use super::tensor::{Sources, read_entry, read_tensor};
use super::wire::{Field, Fields};
use crate::text::shown;
use crate::weights::ImportError;
use crate::weights::contents::Contents;
use crate::weights::mapping::FileBytes;
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

/// The network of an ONNX file, without its tensors.
#[derive(Debug, Default)]
pub(crate) struct OnnxModel {
    /// Version of the standard operators; 0 where the file does not say.
    pub opset: i64,
    pub nodes: Vec<Node>,
    /// Name and extents of every input; tensors of the file among them.
    pub inputs: Vec<(String, Vec<Dim>)>,
    pub outputs: Vec<String>,
    /// Names of the file's tensors.
    pub initializers: Vec<String>,
}

/// An extent of an input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dim {
    Known(i64),
    /// A size that is not fixed.
    Free,
}

/// One operator with its operands.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    pub operator: String,
    pub domain: String,
    /// Names of its operands; empty where an optional one is left out.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub attributes: Vec<(String, Attribute)>,
    /// What the exporter noted, by key.
    pub metadata: Vec<(String, String)>,
}

/// A setting of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    /// Name of a tensor, one of the file's by then.
    Tensor(String),
    /// Anything else, such as a graph.
    Other,
}

/// Whether `bytes` start as ONNX files do: with the version of the format, and then another field of a model.
pub(in crate::weights) fn looks_like_onnx(bytes: &[u8]) -> bool {
    // Tags of the fields that exporters write next.
    const NEXT: [u8; 8] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72];
    let safetensors = bytes.get(5..9) == Some(b"\0\0\0{");
    matches!(bytes, [0x08, version, next, ..] if *version < 64 && NEXT.contains(next)) && !safetensors
}

/// Reads an ONNX file: its tensors, its network, and the bytes besides the file's own in which tensors lie.
pub(in crate::weights) fn read_onnx(
    bytes: &[u8],
    folder: Option<&Path>,
) -> Result<(Contents, OnnxModel, Vec<FileBytes>), ImportError> {
    let mut reader = Reader {
        bytes,
        sources: Sources::new(folder),
        contents: Contents::default(),
        names: HashSet::new(),
        model: OnnxModel::default(),
    };
    reader.model(0..bytes.len())?;
    let Sources { joined, beside, .. } = reader.sources;
    let more = std::iter::once(FileBytes::Owned(joined)).chain(beside).collect();
    Ok((reader.contents, reader.model, more))
}

struct Reader<'a> {
    bytes: &'a [u8],
    sources: Sources<'a>,
    contents: Contents,
    names: HashSet<String>,
    model: OnnxModel,
}

impl<'a> Reader<'a> {
    /// Calls `each` with the fields of the message at `place`.
    fn each(
        &mut self,
        place: Range<usize>,
        mut each: impl FnMut(&mut Self, u32, Field) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let mut fields = Fields::new(self.bytes, place);
        while let Some((number, field)) = fields.next()? {
            each(self, number, field)?;
        }
        Ok(())
    }

    fn model(&mut self, place: Range<usize>) -> Result<(), ImportError> {
        let mut graphs = 0;
        self.each(place, |reader, number, field| match (number, field.place()) {
            (7, Some(graph)) => {
                graphs += 1;
                reader.graph(graph)
            }
            (8, Some(opset)) => reader.opset(opset),
            _ => Ok(()),
        })?;
        match graphs {
            1 => Ok(()),
            found => Err(ImportError::OnnxGraphs { found }),
        }
    }

    fn opset(&mut self, place: Range<usize>) -> Result<(), ImportError> {
        let (mut domain, mut version) = (String::new(), 0);
        self.each(place, |reader, number, field| {
            match number {
                1 => domain = field.text(reader.bytes).unwrap_or_default(),
                2 => version = field.int().unwrap_or(0),
                _ => {}
            }
            Ok(())
        })?;
        if domain.is_empty() || domain == "ai.onnx" {
            self.model.opset = version;
        }
        Ok(())
    }

    fn graph(&mut self, place: Range<usize>) -> Result<(), ImportError> {
        self.each(place, |reader, number, field| match (number, field.place()) {
            (1, Some(node)) => reader.node(node),
            (5, Some(tensor)) => {
                let name = reader.tensor(tensor, None)?;
                reader.model.initializers.push(name);
                Ok(())
            }
            (11, Some(input)) => {
                let input = reader.value_info(input)?;
                reader.model.inputs.push(input);
                Ok(())
            }
            (12, Some(output)) => {
                let (name, _) = reader.value_info(output)?;
                reader.model.outputs.push(name);
                Ok(())
            }
            (15, Some(_)) => Err(ImportError::SparseTensors),
            _ => Ok(()),
        })
    }

    /// Reads a tensor and gives its name.
    fn tensor(&mut self, place: Range<usize>, name: Option<&str>) -> Result<String, ImportError> {
        let tensor = read_tensor(self.bytes, place, name, &mut self.sources)?;
        let name = tensor.info.name.clone();
        if !self.names.insert(name.clone()) {
            return Err(ImportError::DuplicateTensor { name: shown(&name) });
        }
        self.contents.tensors.push(tensor);
        Ok(name)
    }

    fn node(&mut self, place: Range<usize>) -> Result<(), ImportError> {
        let mut node = Node::default();
        let index = self.model.nodes.len();
        self.each(place, |reader, number, field| {
            let text = || field.text(reader.bytes).unwrap_or_default();
            match (number, field.place()) {
                (1, _) => node.inputs.push(text()),
                (2, _) => node.outputs.push(text()),
                (3, _) => node.name = text(),
                (4, _) => node.operator = text(),
                (5, Some(attribute)) => {
                    let attribute = reader.attribute(attribute, index)?;
                    node.attributes.push(attribute);
                }
                (7, _) => node.domain = text(),
                (9, Some(entry)) => node.metadata.push(read_entry(reader.bytes, entry)?),
                _ => {}
            }
            Ok(())
        })?;
        self.model.nodes.push(node);
        Ok(())
    }

    fn attribute(&mut self, place: Range<usize>, node: usize) -> Result<(String, Attribute), ImportError> {
        let mut name = String::new();
        let mut ints = Vec::new();
        let mut floats = Vec::new();
        let mut value = Attribute::Other;
        let mut kind = 0;
        self.each(place, |reader, number, field| {
            match number {
                1 => name = field.text(reader.bytes).unwrap_or_default(),
                2 => value = field.float().map_or(Attribute::Other, Attribute::Float),
                3 => value = field.int().map_or(Attribute::Other, Attribute::Int),
                4 => value = field.text(reader.bytes).map_or(Attribute::Other, Attribute::Text),
                5 => {
                    if let Some(tensor) = field.place() {
                        // Names from files may hold anything, but two dots and a hash are no exporter's.
                        let name = format!("#{node}..{name}");
                        value = Attribute::Tensor(reader.tensor(tensor, Some(&name))?);
                    }
                }
                7 => match &field {
                    Field::Bytes(place) => {
                        let packed = reader.bytes[place.clone()].as_chunks::<4>().0;
                        floats.extend(packed.iter().map(|&value| f32::from_le_bytes(value)));
                    }
                    other => floats.extend(other.float()),
                },
                8 => field.push_ints(reader.bytes, &mut ints)?,
                20 => kind = field.int().unwrap_or(0),
                _ => {}
            }
            Ok(())
        })?;
        // Fields that are zero are left out, so the kind decides.
        let value = match (kind, value) {
            (1, Attribute::Other) => Attribute::Float(0.0),
            (2, Attribute::Other) => Attribute::Int(0),
            (3, Attribute::Other) => Attribute::Text(String::new()),
            (6, _) => Attribute::Floats(floats),
            (7, _) => Attribute::Ints(ints),
            (_, value) => value,
        };
        Ok((name, value))
    }

    /// Name and extents of an input or output.
    fn value_info(&mut self, place: Range<usize>) -> Result<(String, Vec<Dim>), ImportError> {
        let mut name = String::new();
        let mut dims = Vec::new();
        self.each(place, |reader, number, field| {
            match (number, field.place()) {
                (1, _) => name = field.text(reader.bytes).unwrap_or_default(),
                // Type, then tensor type, then shape, then one message per axis.
                (2, Some(kind)) => reader.each(kind, |reader, number, field| match (number, field.place()) {
                    (1, Some(tensor)) => reader.each(tensor, |reader, number, field| match (number, field.place()) {
                        (2, Some(shape)) => reader.each(shape, |reader, number, field| match (number, field.place()) {
                            (1, Some(dim)) => {
                                let mut size = Dim::Free;
                                reader.each(dim, |_, number, field| {
                                    if let (1, Some(value)) = (number, field.int()) {
                                        size = Dim::Known(value);
                                    }
                                    Ok(())
                                })?;
                                dims.push(size);
                                Ok(())
                            }
                            _ => Ok(()),
                        }),
                        _ => Ok(()),
                    }),
                    _ => Ok(()),
                })?,
                _ => {}
            }
            Ok(())
        })?;
        Ok((name, dims))
    }
}
