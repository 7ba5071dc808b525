//! What becomes of each of PyTorch's operators: one row each.

mod arithmetic;
mod arrange;
mod attention;
mod convolution;
mod elementwise;
mod norm;
mod numbers;
mod pool;
mod shape;
mod tokens;

use super::CallError;
use super::lower::{Lowering, Value};
use super::schema::Call;

/// One of PyTorch's operators.
pub(super) struct Operator {
    /// Its name without overload, and without the underscore of the form in place.
    pub name: &'static str,
    /// Whether its result may share the memory of its first operand.
    pub is_view: bool,
    /// Adds its nodes and gives its results.
    pub lower: fn(&mut Lowering<'_>, &Call) -> Result<Vec<Value>, CallError>,
}

impl Operator {
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
    Operator { name, is_view: false, lower }
}

const fn view(name: &'static str, lower: fn(&mut Lowering<'_>, &Call) -> Result<Vec<Value>, CallError>) -> Operator {
    Operator { name, is_view: true, lower }
}

/// Every operator that is understood.
pub(super) const OPERATORS: &[Operator] = &[
    op("aten.conv2d", convolution::conv2d),
    op("aten.convolution", convolution::conv2d),
    op("aten.linear", convolution::linear),
    op("aten.addmm", convolution::addmm),
    op("aten.pad", convolution::pad),
    op("aten.constant_pad_nd", convolution::pad),
    op("aten.batch_norm", norm::batch_norm),
    op("aten._native_batch_norm_legit_no_training", norm::batch_norm),
    op("aten.layer_norm", norm::layer_norm),
    op("aten.native_layer_norm", norm::layer_norm),
    op("aten.group_norm", norm::group_norm),
    op("aten.relu", elementwise::activation),
    op("aten.relu6", elementwise::activation),
    op("aten.hardtanh", elementwise::hardtanh),
    op("aten.clamp", elementwise::hardtanh),
    op("aten.silu", elementwise::activation),
    op("aten.gelu", elementwise::gelu),
    op("aten.tanh", elementwise::activation),
    op("aten.sigmoid", elementwise::activation),
    op("aten.hardswish", elementwise::activation),
    op("aten.hardsigmoid", elementwise::activation),
    op("aten.add", arithmetic::add),
    op("aten.sub", arithmetic::sub),
    op("aten.mul", arithmetic::mul),
    op("aten.div", arithmetic::div),
    op("aten.pow", arithmetic::square),
    op("aten.square", arithmetic::square),
    op("aten.max_pool2d", pool::max_pool),
    op("aten.max_pool2d_with_indices", pool::max_pool),
    op("aten.avg_pool2d", pool::avg_pool),
    op("aten.adaptive_avg_pool2d", pool::adaptive_avg_pool),
    op("aten.mean", pool::mean),
    op("aten.cat", tokens::cat),
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
    view("aten.permute", shape::permute),
    view("aten.transpose", shape::transpose),
    view("aten.swapaxes", shape::transpose),
    view("aten.t", shape::transpose),
    view("aten.squeeze", shape::squeeze),
    view("aten.unsqueeze", shape::unsqueeze),
    view("aten.expand", shape::expand),
    view("aten.dropout", shape::dropout),
    view("aten.feature_dropout", shape::dropout),
    view("aten.contiguous", shape::same),
    view("aten.clone", shape::same),
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
    }
}
