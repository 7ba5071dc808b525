use super::Operator;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::View;
use flipcast_graph::Activation;

/// A function of one value, named by the operator.
pub(super) fn activation(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let activation = match Operator::plain_name(&call.operator).0 {
        "aten.relu" => Activation::Relu,
        "aten.relu6" => Activation::Relu6,
        "aten.silu" => Activation::Silu,
        "aten.tanh" => Activation::Tanh,
        "aten.hardswish" => Activation::HardSwish,
        "aten.hardsigmoid" => Activation::HardSigmoid,
        _ => Activation::Sigmoid,
    };
    let view = lowering.view(call, 0)?;
    lowering.activate(call, view, activation)
}

/// `gelu(input, approximate)`.
pub(super) fn gelu(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let activation = match call.text("approximate", "none")? {
        "none" => Activation::Gelu,
        "tanh" => Activation::GeluTanh,
        other => return Err(refuse("approximate", format!("`{other}`"), "`none` or `tanh`")),
    };
    let view = lowering.view(call, 0)?;
    lowering.activate(call, view, activation)
}

/// `hardtanh(input, 0, 6)`, and `clamp` to the same range: what ReLU6 is exported as.
pub(super) fn hardtanh(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let hardtanh = call.operator.starts_with("aten.hardtanh");
    let [low, high] = if hardtanh { ["min_val", "max_val"] } else { ["min", "max"] };
    let low_value = call.float(low, Some(if hardtanh { -1.0 } else { f64::NEG_INFINITY }))?;
    let high_value = call.float(high, Some(if hardtanh { 1.0 } else { f64::INFINITY }))?;
    let activation = match (low_value, high_value) {
        (0.0, 6.0) => Activation::Relu6,
        (0.0, f64::INFINITY) => Activation::Relu,
        _ => return Err(refuse(low, format!("{low_value} with {high} = {high_value}"), "0 with 6 or nothing above")),
    };
    let view = lowering.view(call, 0)?;
    lowering.activate(call, view, activation)
}

impl Lowering<'_> {
    pub(super) fn activate(
        &mut self,
        call: &Call,
        view: View,
        activation: Activation,
    ) -> Result<Vec<Value>, CallError> {
        let view = self.whole_view(call, view)?;
        let name = self.name(call, None);
        let dims = self.dims(view.node);
        let node = self.builder.activation(&name, view.node, activation);
        let node = self.note(node, dims)?;
        Ok(vec![Value::View(view.of(node))])
    }
}
