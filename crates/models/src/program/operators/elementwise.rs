use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::View;
use flipcast_graph::Activation;

/// A function of one value, named by the operator.
pub(super) fn activation(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if let Value::Constant(constant) = lowering.operand(call, 0)? {
        return fold(call, &constant);
    }
    let activation = match call.plain_operator() {
        "aten.relu" => Activation::Relu,
        "aten.relu6" => Activation::Relu6,
        "aten.silu" => Activation::Silu,
        "aten.tanh" => Activation::Tanh,
        "aten.hardswish" => Activation::HardSwish,
        "aten.hardsigmoid" => {
            // ONNX lets slope and height be chosen.
            let (alpha, beta) = (call.float("alpha", Some(1.0 / 6.0))?, call.float("beta", Some(0.5))?);
            let usual =
                if call.argument("alpha").is_none() { call.onnx.is_none() } else { (alpha - 1.0 / 6.0).abs() < 1e-6 };
            if !usual || beta != 0.5 {
                return Err(refuse("alpha", format!("{alpha} with beta {beta}"), "1/6 with 1/2"));
            }
            Activation::HardSigmoid
        }
        _ => Activation::Sigmoid,
    };
    let view = lowering.view(call, 0)?;
    lowering.activate(call, view, activation)
}

/// An activation of a constant.
fn fold(call: &Call, constant: &Constant) -> Result<Vec<Value>, CallError> {
    let function: fn(f64) -> f64 = match call.plain_operator() {
        "aten.relu" => |x| x.max(0.0),
        "aten.sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
        "aten.tanh" => f64::tanh,
        _ => return Err(refuse("input", "a constant", "a value that depends on the images")),
    };
    Ok(vec![Value::Constant(constant.map(|value| function(f64::from(value)) as f32))])
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
    let low_value = lowering.number(call, low, Some(if hardtanh { -1.0 } else { f64::NEG_INFINITY }))?;
    let high_value = lowering.number(call, high, Some(if hardtanh { 1.0 } else { f64::INFINITY }))?;
    match lowering.operand(call, 0)? {
        Value::Constant(constant) => {
            let limited = constant.map(|value| value.max(low_value as f32).min(high_value as f32));
            return Ok(vec![Value::Constant(limited)]);
        }
        Value::Lengths(_) if !hardtanh && high_value == f64::INFINITY => {
            return super::lengths::clamp_min(lowering, call);
        }
        _ => {}
    }
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
