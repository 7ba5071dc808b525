//! What every executor refuses, in the same words, and how it tells what it computed.

use crate::{ExecError, ExecutorState, Logits, NormMode, NormStatistics};
use flipcast_graph::{Dims, Graph, NormKind, Plan, Purpose, ValueId};
use flipcast_tensor::{Batch, Tensor};
use std::ops::Range;

/// What [`ExecError::NotReady`] asks for where nothing was predicted yet.
const FORWARD_PASS: &str = "a forward pass of its own";

/// Whether no value is NaN or infinite.
pub fn all_finite(values: &[f32]) -> bool {
    // A product with zero is zero unless the value is not finite, and then it is NaN, which a sum keeps.
    let (lanes, rest) = values.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for lane in lanes {
        for (sum, x) in sums.iter_mut().zip(lane) {
            *sum += x * 0.0;
        }
    }
    sums.iter().chain(rest).all(|x| (x * 0.0) == 0.0)
}

/// Refuses a batch of other extents than the plan's, of too many images or none, and of too few for statistics of the batch.
pub fn check_extents(graph: &Graph, plan: &Plan, mode: NormMode, batch: &Batch) -> Result<(), ExecError> {
    let options = plan.options();
    let expected = Dims::new(options.height, options.width, graph.input_channels());
    let found = Dims::new(batch.height(), batch.width(), batch.channels());
    if found != expected {
        return Err(ExecError::BatchShape {
            found: found.len(),
            found_extents: found.to_string(),
            expected: expected.to_string(),
        });
    }
    if batch.images() == 0 || batch.images() > options.batch {
        return Err(ExecError::BatchSize { found: batch.images(), planned: options.batch });
    }
    check_statistics(graph, plan, mode, batch.images())
}

/// Refuses a number of images of which some batch norm would see a single value per channel.
pub fn check_statistics(graph: &Graph, plan: &Plan, mode: NormMode, images: usize) -> Result<(), ExecError> {
    let norms = plan.norms();
    let single = norms.iter().enumerate().find(|(index, slot)| {
        let own = mode.of_norm(*index, norms.len());
        own != NormStatistics::Running && slot.layer.kind == NormKind::Batch && images * slot.dims.pixels() < 2
    });
    match single {
        Some((_, slot)) => Err(ExecError::TooFewValues { norm: graph.node(slot.node).name.clone() }),
        None => Ok(()),
    }
}

/// Refuses a batch whose device no longer gives its images.
pub fn check_readable(batch: &Batch) -> Result<(), ExecError> {
    batch.read().map_err(|failure| ExecError::Device { source: Box::new(failure) })
}

/// Refuses a batch that cannot be read, or that holds a NaN or an infinity.
pub fn check_images(batch: &Batch) -> Result<(), ExecError> {
    check_readable(batch)?;
    match (0..batch.images()).find(|&i| !all_finite(batch.image(i))) {
        Some(image) => Err(ExecError::NonFiniteInput { image }),
        None => Ok(()),
    }
}

/// Refuses logits that hold a NaN or an infinity.
pub fn check_logits(logits: Logits<'_>) -> Result<Logits<'_>, ExecError> {
    match logits.rows().position(|row| !all_finite(row)) {
        Some(image) => Err(ExecError::NonFiniteLogits { image }),
        None => Ok(logits),
    }
}

/// Refuses a backward pass in a network planned to predict only, without a forward pass before it, or of a logit gradient of
/// another length than the `expected`. A forward pass serves one backward pass.
pub fn check_backward(
    plan: &Plan,
    state: &mut ExecutorState,
    logit_gradient: &[f32],
    expected: usize,
) -> Result<(), ExecError> {
    if plan.options().purpose == Purpose::Predict {
        return Err(ExecError::NotReady { needed: "a network planned to adapt, not only to predict" });
    }
    if !std::mem::take(&mut state.ready) {
        return Err(ExecError::NotReady { needed: FORWARD_PASS });
    }
    if logit_gradient.len() != expected {
        return Err(ExecError::Length { what: "the logit gradient", found: logit_gradient.len(), expected });
    }
    Ok(())
}

/// Refuses an affine gradient that holds a NaN or an infinity, naming the first parameter that does.
pub fn check_gradient(state: &ExecutorState, gradient: &[f32]) -> Result<(), ExecError> {
    if all_finite(gradient) {
        return Ok(());
    }
    let bad = |(_, range): &(String, Range<usize>)| !all_finite(&gradient[range.clone()]);
    let found = state.affine_table().names().find(bad);
    Err(ExecError::NonFiniteGradient { parameter: found.map_or_else(String::new, |(name, _)| name) })
}

/// Refuses to use a forward pass over no images, which means that there was none.
pub fn check_predicted(images: usize) -> Result<(), ExecError> {
    if images == 0 {
        return Err(ExecError::NotReady { needed: FORWARD_PASS });
    }
    Ok(())
}

/// The value of the tapped node called `name`.
pub fn find_tap(graph: &Graph, plan: &Plan, name: &str) -> Result<ValueId, ExecError> {
    let value = graph.find(name).and_then(|node| plan.tap(node));
    value.ok_or_else(|| ExecError::UnknownTap { name: name.to_owned() })
}

/// What a tap gives: `[image, channel]`, or `[image, y, x, channel]`.
///
/// # Panics
/// If `values` are not `dims` for each of `images`.
pub fn tap_tensor(images: usize, dims: Dims, values: Vec<f32>) -> Tensor {
    let tensor = if dims.pixels() == 1 {
        Tensor::new([images, dims.channels], values)
    } else {
        Tensor::new([images, dims.height, dims.width, dims.channels], values)
    };
    tensor.expect("as many values as the extents say")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_bad_value_is_found_wherever_it_lies() {
        for len in [0, 1, 15, 16, 17, 40] {
            let mut values = vec![1.0; len];
            assert!(all_finite(&values));
            for at in 0..len {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    values[at] = bad;
                    assert!(!all_finite(&values), "{bad} at {at} of {len}");
                }
                values[at] = -0.0;
            }
        }
    }
}
