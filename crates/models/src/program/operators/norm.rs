use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::View;
use flipcast_graph::NormKind;

/// `batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)`.
pub(super) fn batch_norm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if let Value::Constant(weights) = lowering.operand(call, 0)? {
        return lowering.standardize(call, &weights);
    }
    if call.bool("training", false)? {
        return Err(CallError::Training);
    }
    let view = lowering.view(call, 0)?;
    let mean = lowering.weight(call, "running_mean")?;
    let variance = lowering.weight(call, "running_var")?;
    let view = lowering.channels_on(call, view, 1)?;
    let channels = lowering.dims(view.node).channels;
    let name = lowering.norm(call, &view, NormKind::Batch)?;
    lowering.keep(format!("{name}.running_mean"), &[channels], &mean)?;
    lowering.keep(format!("{name}.running_var"), &[channels], &variance)?;
    lowering.finish_norm(call, view, &name, NormKind::Batch)
}

/// `layer_norm(input, normalized_shape, weight, bias, eps)` over the last axis.
pub(super) fn layer_norm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let view = lowering.channels_last(call, view)?;
    let channels = lowering.dims(view.node).channels;
    let shape = match lowering.ints(call, "normalized_shape")? {
        Some(shape) => shape,
        None => {
            let axis = lowering.axis(call, "dim", Some(-1), view.axes.len())?;
            view.shape()[axis..].iter().map(|&size| size as i64).collect()
        }
    };
    if shape != [channels as i64] {
        return Err(refuse("normalized_shape", format!("{shape:?}"), format!("the {channels} channels alone")));
    }
    let name = lowering.norm(call, &view, NormKind::Layer)?;
    lowering.finish_norm(call, view, &name, NormKind::Layer)
}

/// `group_norm(input, num_groups, weight, bias, eps)` over the second axis.
pub(super) fn group_norm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let groups = usize::try_from(lowering.int(call, "num_groups", None)?).unwrap_or(0);
    let kind = NormKind::Group { groups };
    let view = lowering.channels_on(call, view, 1)?;
    let name = lowering.norm(call, &view, kind)?;
    lowering.finish_norm(call, view, &name, kind)
}

/// `InstanceNormalization(input, scale, bias)`: a group norm with a group for each channel.
pub(super) fn instance_norm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let view = lowering.channels_on(call, view, 1)?;
    let kind = NormKind::Group { groups: lowering.dims(view.node).channels };
    let name = lowering.norm(call, &view, kind)?;
    lowering.finish_norm(call, view, &name, kind)
}

impl Lowering<'_> {
    /// Weights standardised by a batch norm over `[1, channels, values]` with the statistics of the weights themselves, or with those
    /// that an exporter has computed of them.
    fn standardize(&mut self, call: &Call, weights: &Constant) -> Result<Vec<Value>, CallError> {
        let &[1, channels, count] = weights.extents() else {
            return Err(refuse(
                "input",
                format!("a constant of extents {:?}", weights.extents()),
                "[1, channels, values]",
            ));
        };
        if count == 0 {
            return Err(refuse("input", "a constant without values", "weights"));
        }
        let mut by_channel = |argument| match self.constant(call, argument)? {
            None => Ok(None),
            Some(found) if found.tensor.values().len() == channels => Ok(Some(found.tensor.values().to_vec())),
            Some(found) => {
                Err(refuse(argument, format!("of extents {:?}", found.extents()), format!("{channels} values")))
            }
        };
        let scale = by_channel("weight")?.unwrap_or_else(|| vec![1.0; channels]);
        let shift = by_channel("bias")?.unwrap_or_else(|| vec![0.0; channels]);
        let given = match call.bool("training", false)? {
            true => None,
            false => by_channel("running_mean")?.zip(by_channel("running_var")?),
        };
        if given.is_none() && !call.bool("training", false)? {
            return Err(refuse("running_mean", "absent", "statistics of the weights"));
        }
        let eps = call.float("eps", Some(1e-5))?;
        let mut values = Vec::with_capacity(channels * count);
        for (at, channel) in weights.tensor.values().chunks_exact(count).enumerate() {
            let (mean, variance) = match &given {
                Some((means, variances)) => (f64::from(means[at]), f64::from(variances[at])),
                None => mean_and_variance(channel),
            };
            let (factor, shift) = (f64::from(scale[at]) / (variance + eps).sqrt(), f64::from(shift[at]));
            values.extend(channel.iter().map(|&value| ((f64::from(value) - mean) * factor + shift) as f32));
        }
        let made = Constant::new(weights.extents().to_vec(), values).expect("as many values as before");
        Ok(vec![Value::Constant(Constant { name: weights.name.clone(), ..made })])
    }

    /// Keeps scale and shift of a norm and gives its name. A norm without them gets those that change nothing.
    fn norm(&mut self, call: &Call, view: &View, kind: NormKind) -> Result<String, CallError> {
        let channels = self.dims(view.node).channels;
        // Statistics are those of all pixels of the node.
        if kind != NormKind::Layer && !view.is_whole(self.batch, self.dims(view.node)) {
            return Err(self.layout(view, "all pixels"));
        }
        let kept = [("weight", 1.0), ("bias", 0.0)];
        let mut named = None;
        let mut tensors = Vec::new();
        for (argument, neutral) in kept {
            let tensor = self.constant(call, argument)?;
            named = named
                .or_else(|| tensor.as_ref()?.name.as_deref()?.strip_suffix(&format!(".{argument}")).map(str::to_owned));
            let neutral = || Constant::new(vec![channels], vec![neutral; channels]);
            let tensor = match (kind, tensor) {
                // ONNX once had one scale and shift for each group.
                (NormKind::Group { groups }, Some(tensor))
                    if tensor.tensor.values().len() == groups && groups > 0 && channels.is_multiple_of(groups) =>
                {
                    let spread = tensor.tensor.values().iter().flat_map(|&v| std::iter::repeat_n(v, channels / groups));
                    let spread = Constant::new(vec![channels], spread.collect());
                    spread.map(|spread| Constant { name: tensor.name, ..spread })
                }
                (_, tensor) => tensor.or_else(neutral),
            };
            tensors.push((argument, tensor));
        }
        if let (NormKind::Batch, None) = (kind, &named) {
            let mean = self.weight(call, "running_mean")?;
            named = mean.name.and_then(|name| name.strip_suffix(".running_mean").map(str::to_owned));
        }
        let name = self.name(call, named.as_deref());
        for (suffix, tensor) in tensors {
            let tensor = tensor.ok_or_else(|| CallError::Extents { problem: format!("{channels} channels") })?;
            self.keep(format!("{name}.{suffix}"), &[channels], &tensor)?;
        }
        Ok(name)
    }

    fn finish_norm(&mut self, call: &Call, view: View, name: &str, kind: NormKind) -> Result<Vec<Value>, CallError> {
        let eps = call.float("eps", Some(1e-5))?;
        if !(eps >= 0.0 && eps.is_finite()) {
            return Err(refuse("eps", eps.to_string(), "a small number above 0"));
        }
        let dims = self.dims(view.node);
        let node = self.builder.norm(name, view.node, kind, eps as f32);
        let node = self.note(node, dims)?;
        Ok(vec![Value::View(view.of(node))])
    }
}

fn mean_and_variance(values: &[f32]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
    (mean, values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count)
}
