//! ONNX files as programs: operators under the names of the table, with PyTorch's names for their arguments.

mod patterns;

use super::operators::Operator;
use super::schema::{Arg, Call, Int, Program};
use super::{ProgramError, rotary};
use crate::weights::onnx::{Attribute, Dim, Node, OnnxModel};
use crate::{WeightFile, text::shown};
use flipcast_images::preprocess::Size;
use std::collections::{HashMap, HashSet};

/// Versions of the standard operators that are understood.
const OPSETS: std::ops::RangeInclusive<i64> = 13..=22;
/// Images of the example where the file leaves their number free: a prime, which no other extent is taken for.
const FREE_BATCH: usize = 13;
/// Parts of a sequence at most, far more than any network takes tensors apart into.
const MOST_PARTS: usize = 1024;
/// Where PyTorch's exporter notes the modules that a node was called in.
const SCOPES: &str = "pkg.torch.onnx.name_scopes";

/// What PyTorch calls the attributes that ONNX calls otherwise.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("strides", "stride"),
    ("dilations", "dilation"),
    ("group", "groups"),
    ("kernel_shape", "kernel_size"),
    ("epsilon", "eps"),
    ("axis", "dim"),
    ("axes", "dim"),
    ("keepdims", "keepdim"),
    ("perm", "dims"),
    ("training_mode", "training"),
];

impl Program {
    /// The program of an ONNX file. Images have the sizes that the file fixes, and those of `size` where it leaves them free.
    pub fn from_onnx(file: &WeightFile, model: &OnnxModel, size: Size) -> Result<Self, ProgramError> {
        if !OPSETS.contains(&model.opset) {
            return Err(ProgramError::Opset { found: model.opset });
        }
        let initializers: HashSet<&str> = model.initializers.iter().map(String::as_str).collect();
        let inputs: Vec<_> = model.inputs.iter().filter(|(name, _)| !initializers.contains(name.as_str())).collect();
        let [(input, dims)] = inputs[..] else {
            return Err(ProgramError::Inputs { found: inputs.len() });
        };
        let [output] = &model.outputs[..] else {
            return Err(ProgramError::Outputs { found: model.outputs.len() });
        };
        let fallback = [FREE_BATCH, 3, size.height, size.width];
        let Ok(dims) = <&[Dim; 4]>::try_from(dims.as_slice()) else {
            return Err(ProgramError::Images { rank: dims.len() });
        };
        let mut example = fallback;
        for (extent, dim) in example.iter_mut().zip(dims) {
            if let Dim::Known(size) = dim {
                *extent = usize::try_from(*size).unwrap_or(0);
            }
        }
        let mut reader = Reader { file, aliases: HashMap::new(), sequences: HashMap::new(), calls: Vec::new() };
        model.nodes.iter().for_each(|node| reader.node(node));
        let output = reader.resolve(output).to_owned();
        let tensors = file.tensors().map(|tensor| (tensor.name.clone(), tensor.name.clone())).collect();
        let calls = patterns::fuse(reader.calls, file, input, &output);
        let number = |name: &str| {
            file.info(name).filter(|info| info.shape.checked_len() == Some(1))?;
            file.load(name).ok().map(|tensor| tensor.values()[0] as i64)
        };
        let calls = rotary::fuse(calls, &output, &number);
        Ok(Self { calls, tensors, input: input.clone(), example, output })
    }
}

struct Reader<'a> {
    file: &'a WeightFile,
    /// Names that stand for other names.
    aliases: HashMap<String, String>,
    /// The calls whose results are parts of these sequences.
    sequences: HashMap<String, usize>,
    calls: Vec<Call>,
}

impl Reader<'_> {
    fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// Makes `output` the part in place `position` of `sequence`, if both are known.
    fn take_part(&mut self, sequence: &str, position: &str, output: &str) -> Option<()> {
        let call = *self.sequences.get(sequence)?;
        let position = self.file.load(position).ok()?;
        let &[position] = position.values() else {
            return None;
        };
        if position < 0.0 || position >= MOST_PARTS as f32 {
            return None;
        }
        let (parts, position) = (&mut self.calls[call].results, position as usize);
        parts.resize(parts.len().max(position + 1), String::new());
        match parts[position].is_empty() {
            true => output.clone_into(&mut parts[position]),
            false => {
                let part = parts[position].clone();
                self.aliases.insert(output.to_owned(), part);
            }
        }
        Some(())
    }

    fn node(&mut self, node: &Node) {
        let standard = node.domain.is_empty() || node.domain == "ai.onnx";
        let mut inputs: Vec<String> = node.inputs.iter().map(|name| self.resolve(name).to_owned()).collect();
        // Its second operand tells the type alone, and types are all one here.
        if standard && node.operator == "CastLike" {
            inputs.truncate(1);
        }
        // A constant is a tensor of the file, and an identity what it reads.
        let alias = match (node.operator.as_str(), &node.attributes[..], &inputs[..], &node.outputs[..]) {
            ("Constant", [(_, Attribute::Tensor(tensor))], [], [output]) if standard => Some((output, tensor.clone())),
            ("Identity", [], [input], [output]) if standard => Some((output, input.clone())),
            _ => None,
        };
        if let Some((output, name)) = alias {
            self.aliases.insert(output.clone(), name);
            return;
        }
        if let ("SequenceAt", [sequence, position], [output]) = (node.operator.as_str(), &inputs[..], &node.outputs[..])
            && standard
            && self.take_part(sequence, position, output).is_some()
        {
            return;
        }
        let row = Operator::of_onnx(&node.operator).filter(|_| standard);
        let written = if standard { node.operator.clone() } else { format!("{}.{}", node.domain, node.operator) };
        let names = row.map_or(&[][..], |(_, names)| names);
        let mut arguments: Vec<(String, Arg)> = Vec::new();
        if let [list] = names
            && let Some(name) = list.strip_suffix("...")
        {
            arguments.push((name.to_owned(), Arg::Tensors(inputs)));
        } else {
            for (place, input) in inputs.into_iter().enumerate() {
                let name = names.get(place).map_or_else(|| format!("input {place}"), |name| (*name).to_owned());
                arguments.push((name, if input.is_empty() { Arg::None } else { Arg::Tensor(input) }));
            }
        }
        for (name, attribute) in &node.attributes {
            let renamed = ATTRIBUTES.iter().find(|(onnx, _)| onnx == name).map_or(name.as_str(), |(_, name)| name);
            arguments.push((renamed.to_owned(), Arg::from(attribute)));
        }
        let is_sequence = standard && node.operator == "SplitToSequence";
        if let (true, [sequence]) = (is_sequence, &node.outputs[..]) {
            self.sequences.insert(sequence.clone(), self.calls.len());
        }
        let name = [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
        self.calls.push(Call {
            name: name.cloned().unwrap_or_default(),
            operator: row.map_or_else(|| written.clone(), |(name, _)| name.to_owned()),
            onnx: Some(written),
            module: module(node),
            arguments,
            results: if is_sequence { Vec::new() } else { node.outputs.clone() },
        });
    }
}

impl From<&Attribute> for Arg {
    fn from(attribute: &Attribute) -> Self {
        match attribute {
            Attribute::Float(value) => Self::Float(f64::from(*value)),
            Attribute::Int(value) => Self::Int(Int::Known(*value)),
            Attribute::Text(text) => Self::Text(text.clone()),
            Attribute::Ints(values) => Self::Ints(values.iter().map(|&value| Int::Known(value)).collect()),
            Attribute::Floats(values) => Self::Floats(values.iter().map(|&value| f64::from(value)).collect()),
            Attribute::Tensor(name) => Self::Tensor(name.clone()),
            Attribute::Other => Self::Other(shown("a graph or the like")),
        }
    }
}

/// The module that a node was called in: as the exporter noted it, or by the path in the node's name.
fn module(node: &Node) -> String {
    if let Some((_, scopes)) = node.metadata.iter().find(|(key, _)| key == SCOPES) {
        let scopes: Vec<&str> =
            scopes.trim_matches(['[', ']']).split(", ").map(|scope| scope.trim_matches('\'')).collect();
        return scopes.iter().rev().nth(1).map_or(String::new(), |scope| (*scope).to_owned());
    }
    // `/layer1/layer1.0/conv1/Conv`: a part may repeat the one before it.
    let Some((path, _)) = node.name.strip_prefix('/').and_then(|path| path.rsplit_once('/')) else {
        return String::new();
    };
    path.split('/').fold(String::new(), |path, part| match part.strip_prefix(path.as_str()) {
        _ if path.is_empty() => part.to_owned(),
        Some(rest) if rest.starts_with('.') => part.to_owned(),
        _ => format!("{path}.{part}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    #[test]
    fn modules_are_told_by_the_exporter_or_by_the_name() {
        assert_eq!(module(&named("/layer1/layer1.0/conv1/Conv")), "layer1.0.conv1");
        assert_eq!(module(&named("/fc/Gemm")), "fc");
        assert_eq!(module(&named("Conv_12")), "");
        let scopes = "['', 'layer1', 'layer1.0', 'layer1.0.bn1', 'relu_1']".to_owned();
        let node = Node { metadata: vec![(SCOPES.into(), scopes)], ..Node::default() };
        assert_eq!(module(&node), "layer1.0.bn1");
    }
}
