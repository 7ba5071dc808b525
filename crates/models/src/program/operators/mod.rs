//! What becomes of each operator: one row each, with PyTorch's name and, where it has one, ONNX's.

mod arithmetic;
mod arrange;
mod attention;
mod constants;
mod convolution;
mod create;
mod elementwise;
mod functions;
mod gather;
mod lengths;
mod matmul;
mod norm;
mod numbers;
mod pool;
mod rotary;
mod shape;
mod tokens;
mod upsample;

pub(super) use matmul::Scores;

use super::CallError;
use super::lower::{Lowering, Value};
use super::rotary::ROTATE;
use super::schema::Call;

/// One operator.
pub(super) struct Operator {
    /// PyTorch's name without overload, and without the underscore of the form in place; `onnx.` and ONNX's where PyTorch has none
    /// that takes the same arguments.
    pub name: &'static str,
    /// ONNX's names, with what PyTorch calls the operands; a name with dots behind it takes them all.
    onnx: &'static [(&'static str, &'static [&'static str])],
    /// Whether its result may share the memory of its first operand.
    pub is_view: bool,
    /// Adds its nodes and gives its results.
    pub lower: fn(&mut Lowering<'_>, &Call) -> Result<Vec<Value>, CallError>,
}

impl Operator {
    /// The same operator by the names that ONNX has for it.
    const fn onnx(self, onnx: &'static [(&'static str, &'static [&'static str])]) -> Self {
        Self { onnx, ..self }
    }

    /// The name of the row for one of ONNX's operators, and what its operands are called.
    pub fn of_onnx(name: &str) -> Option<(&'static str, &'static [&'static str])> {
        OPERATORS.iter().find_map(|row| {
            let (_, operands) = row.onnx.iter().find(|(onnx, _)| *onnx == name)?;
            Some((row.name, *operands))
        })
    }

    /// The name of the row for `operator`, such as `aten.relu` for `aten.relu_.default`, and whether it works in place.
    pub fn plain_name(operator: &str) -> (&str, bool) {
        let Some(rest) = operator.strip_prefix("aten.") else {
            return (operator, false);
        };
        let packet = &operator[..operator.len() - rest.len() + rest.find('.').unwrap_or(rest.len())];
        match packet.strip_suffix('_') {
            Some(plain) if !plain.ends_with('_') => (plain, true),
            _ => (packet, false),
        }
    }
}

const fn op(name: &'static str, lower: fn(&mut Lowering<'_>, &Call) -> Result<Vec<Value>, CallError>) -> Operator {
    Operator { name, onnx: &[], is_view: false, lower }
}

const fn view(name: &'static str, lower: fn(&mut Lowering<'_>, &Call) -> Result<Vec<Value>, CallError>) -> Operator {
    Operator { name, onnx: &[], is_view: true, lower }
}

/// Every operator that is understood.
pub(super) const OPERATORS: &[Operator] = &[
    op("aten.conv2d", convolution::conv2d).onnx(&[("Conv", &["input", "weight", "bias"])]),
    op("aten.convolution", convolution::conv2d),
    op("aten.linear", convolution::linear),
    op("aten.addmm", convolution::addmm),
    op("onnx.Gemm", convolution::gemm).onnx(&[("Gemm", &["self", "weight", "bias"])]),
    op("aten.matmul", matmul::matmul).onnx(&[("MatMul", &["self", "other"])]),
    op("aten.bmm", matmul::matmul),
    op("aten.softmax", matmul::softmax).onnx(&[("Softmax", &["self"])]),
    op("aten._softmax", matmul::softmax),
    op("onnx.Pad", convolution::onnx_pad).onnx(&[("Pad", &["self", "pads", "value", "axes"])]),
    op("aten.pad", convolution::pad),
    op("aten.constant_pad_nd", convolution::pad),
    op("aten.batch_norm", norm::batch_norm)
        .onnx(&[("BatchNormalization", &["input", "weight", "bias", "running_mean", "running_var"])]),
    op("aten._native_batch_norm_legit_no_training", norm::batch_norm),
    op("aten.layer_norm", norm::layer_norm).onnx(&[("LayerNormalization", &["input", "weight", "bias"])]),
    op("aten.native_layer_norm", norm::layer_norm),
    op("aten.group_norm", norm::group_norm).onnx(&[("GroupNormalization", &["input", "weight", "bias"])]),
    op("aten.relu", elementwise::activation).onnx(&[("Relu", &["self"])]),
    op("aten.relu6", elementwise::activation),
    op("aten.hardtanh", elementwise::hardtanh),
    op("aten.clamp", elementwise::hardtanh).onnx(&[("Clip", &["self", "min", "max"])]),
    op("aten.silu", elementwise::activation),
    op("aten.gelu", elementwise::gelu).onnx(&[("Gelu", &["self"])]),
    op("aten.tanh", elementwise::activation).onnx(&[("Tanh", &["self"])]),
    op("aten.sigmoid", elementwise::activation).onnx(&[("Sigmoid", &["self"])]),
    op("aten.hardswish", elementwise::activation).onnx(&[("HardSwish", &["self"])]),
    op("aten.hardsigmoid", elementwise::activation).onnx(&[("HardSigmoid", &["self"])]),
    op("aten.add", arithmetic::add).onnx(&[("Add", &["self", "other"])]),
    op("aten.sub", arithmetic::sub).onnx(&[("Sub", &["self", "other"])]),
    op("aten.mul", arithmetic::mul).onnx(&[("Mul", &["self", "other"])]),
    op("aten.div", arithmetic::div).onnx(&[("Div", &["self", "other"])]),
    op("aten.pow", arithmetic::square).onnx(&[("Pow", &["self", "exponent"])]),
    op("aten.square", arithmetic::square),
    op("aten.max_pool2d", pool::max_pool).onnx(&[("MaxPool", &["self"])]),
    op("aten.max_pool2d_with_indices", pool::max_pool),
    op("aten.avg_pool2d", pool::avg_pool).onnx(&[("AveragePool", &["self"])]),
    op("aten.adaptive_avg_pool2d", pool::adaptive_avg_pool),
    op("onnx.GlobalAveragePool", pool::global_avg_pool).onnx(&[("GlobalAveragePool", &["self"])]),
    op("aten.mean", pool::mean).onnx(&[("ReduceMean", &["self", "dim"])]),
    op("aten.linalg_vector_norm", lengths::vector_norm).onnx(&[("ReduceL2", &["self", "dim"])]),
    op("aten.clamp_min", lengths::clamp_min),
    op("aten.expand_as", lengths::expand_as),
    op("aten.addcmul", lengths::addcmul),
    op("aten.upsample_nearest2d", upsample::nearest),
    op("onnx.Resize", upsample::resize).onnx(&[("Resize", &["self", "roi", "scale_factors", "output_size"])]),
    op(ROTATE, rotary::rotate),
    op("aten.cat", tokens::cat).onnx(&[("Concat", &["tensors..."])]),
    view("onnx.Slice", tokens::onnx_slice).onnx(&[("Slice", &["self", "starts", "ends", "axes", "steps"])]),
    view("onnx.Split", tokens::onnx_split).onnx(&[("Split", &["self", "split_sizes"])]),
    view("onnx.SplitToSequence", tokens::split_to_sequence).onnx(&[("SplitToSequence", &["self", "split_sizes"])]),
    view("onnx.SequenceAt", tokens::sequence_at).onnx(&[("SequenceAt", &["sequence", "position"])]),
    view("onnx.Reshape", shape::onnx_reshape).onnx(&[("Reshape", &["self", "shape"])]),
    view("onnx.Flatten", shape::onnx_flatten).onnx(&[("Flatten", &["self"])]),
    view("onnx.Unsqueeze", shape::onnx_unsqueeze).onnx(&[("Unsqueeze", &["self", "dim"])]),
    view("onnx.Expand", shape::onnx_expand).onnx(&[("Expand", &["self", "shape"])]),
    op("onnx.Gather", gather::gather).onnx(&[("Gather", &["self", "index"])]),
    op("onnx.GatherND", gather::gather_nd).onnx(&[("GatherND", &["self", "indices"])]),
    op("onnx.ScatterND", gather::scatter_nd).onnx(&[("ScatterND", &["self", "indices", "updates"])]),
    op("onnx.Cast", functions::cast).onnx(&[("Cast", &["self"])]),
    op("onnx.Constant", create::constant).onnx(&[("Constant", &[])]),
    op("onnx.Shape", create::shape_of).onnx(&[("Shape", &["self"])]),
    op("onnx.ConstantOfShape", create::constant_of_shape).onnx(&[("ConstantOfShape", &["shape"])]),
    op("onnx.Range", create::range).onnx(&[("Range", &["start", "end", "step"])]),
    op("aten.index", gather::index),
    op("aten.new_zeros", create::zeros),
    op("aten.zeros", create::zeros),
    op("aten.masked_fill", create::masked_fill),
    op("aten.fill", create::fill),
    op("aten.zero", create::zero),
    op("aten.einsum", matmul::einsum).onnx(&[("Einsum", &["tensors..."])]),
    view("aten.roll", shape::roll),
    op("aten.where", functions::choose).onnx(&[("Where", &["condition", "self", "other"])]),
    op("aten.eq", functions::compare).onnx(&[("Equal", &["self", "other"])]),
    op("aten.ne", functions::compare),
    op("aten.lt", functions::compare).onnx(&[("Less", &["self", "other"])]),
    op("aten.gt", functions::compare).onnx(&[("Greater", &["self", "other"])]),
    op("aten.le", functions::compare).onnx(&[("LessOrEqual", &["self", "other"])]),
    op("aten.ge", functions::compare).onnx(&[("GreaterOrEqual", &["self", "other"])]),
    op("aten.remainder", functions::binary).onnx(&[("Mod", &["self", "other"])]),
    op("aten.floor_divide", functions::binary),
    op("aten.minimum", functions::binary).onnx(&[("Min", &["self", "other"])]),
    op("aten.maximum", functions::binary).onnx(&[("Max", &["self", "other"])]),
    op("aten.logical_and", functions::binary).onnx(&[("And", &["self", "other"])]),
    op("aten.logical_or", functions::binary).onnx(&[("Or", &["self", "other"])]),
    op("aten.sqrt", functions::function).onnx(&[("Sqrt", &["self"])]),
    op("aten.neg", functions::function).onnx(&[("Neg", &["self"])]),
    op("aten.exp", functions::function).onnx(&[("Exp", &["self"])]),
    op("aten.log", functions::function).onnx(&[("Log", &["self"])]),
    op("aten.sin", functions::function).onnx(&[("Sin", &["self"])]),
    op("aten.cos", functions::function).onnx(&[("Cos", &["self"])]),
    op("aten.abs", functions::function).onnx(&[("Abs", &["self"])]),
    op("aten.floor", functions::function).onnx(&[("Floor", &["self"])]),
    op("aten.ceil", functions::function).onnx(&[("Ceil", &["self"])]),
    op("aten.sign", functions::function).onnx(&[("Sign", &["self"])]),
    op("aten.reciprocal", functions::function).onnx(&[("Reciprocal", &["self"])]),
    op("aten.logical_not", functions::function).onnx(&[("Not", &["self"])]),
    op("aten.erf", functions::function).onnx(&[("Erf", &["self"])]),
    op("onnx.InstanceNormalization", norm::instance_norm)
        .onnx(&[("InstanceNormalization", &["input", "weight", "bias"])]),
    op("aten.scaled_dot_product_attention", attention::attention),
    view("aten.select", tokens::select),
    view("aten.slice", tokens::slice),
    view("aten.unbind", tokens::unbind),
    view("aten.chunk", tokens::chunk),
    view("aten.split", tokens::split),
    view("aten.split_with_sizes", tokens::split),
    view("aten.flatten", shape::flatten),
    view("aten.view", shape::reshape),
    view("aten.reshape", shape::reshape),
    view("aten._unsafe_view", shape::reshape),
    view("aten.reshape_as", shape::reshape_as),
    view("aten.view_as", shape::reshape_as),
    view("aten.type_as", shape::same),
    view("aten.unflatten", shape::unflatten),
    view("aten.permute", shape::permute).onnx(&[("Transpose", &["self"])]),
    view("aten.transpose", shape::transpose),
    view("aten.swapaxes", shape::transpose),
    view("aten.t", shape::transpose),
    view("aten.squeeze", shape::squeeze).onnx(&[("Squeeze", &["self", "dim"])]),
    view("aten.unsqueeze", shape::unsqueeze),
    view("aten.expand", shape::expand),
    view("aten.dropout", shape::dropout).onnx(&[("Dropout", &["self", "ratio", "train"])]),
    view("aten.feature_dropout", shape::dropout),
    view("aten.contiguous", shape::same),
    view("aten.clone", shape::same).onnx(&[("Identity", &["self"]), ("CastLike", &["self", "other"])]),
    view("aten.alias", shape::same),
    view("aten.detach", shape::same),
    view("aten.to", shape::same),
    view("aten._to_copy", shape::same),
    op("aten.sym_size", numbers::sym_size),
    op("_operator.add", numbers::add),
    op("_operator.sub", numbers::sub),
    op("_operator.mul", numbers::mul),
    op("_operator.floordiv", numbers::floor_divide),
    op("aten._assert_tensor_metadata", numbers::nothing),
    op("aten._assert_scalar", numbers::nothing),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn forms_in_place_have_the_row_of_the_plain_form() {
        assert_eq!(Operator::plain_name("aten.relu_.default"), ("aten.relu", true));
        assert_eq!(Operator::plain_name("aten.add.Tensor"), ("aten.add", false));
        assert_eq!(Operator::plain_name("_operator.mul"), ("_operator.mul", false));
        assert_eq!(Operator::plain_name("aten."), ("aten.", false));
    }

    #[test]
    fn every_operator_has_one_row() {
        let names: HashSet<&str> = OPERATORS.iter().map(|operator| operator.name).collect();
        assert_eq!(names.len(), OPERATORS.len());
        let onnx: Vec<&str> = OPERATORS.iter().flat_map(|row| row.onnx).map(|(name, _)| *name).collect();
        assert_eq!(onnx.iter().collect::<HashSet<_>>().len(), onnx.len());
    }
}
