use super::value::ReferenceValue;
use flipcast_graph::{Arrangement, ChannelRun, Dims};

/// Tokens moved into the cells of a value of `dims`; vacant cells take `learned` values in turn, or zeros.
pub(super) fn arrange(input: &ReferenceValue, arrangement: Arrangement, dims: Dims, learned: &[f64]) -> ReferenceValue {
    let (channels, tokens) = (input.dims.channels, input.dims.pixels());
    let cells = arrangement.cells(input.dims, dims);
    let mut out = ReferenceValue::zeros(input.images(), dims);
    for (n, image) in out.values.chunks_exact_mut(dims.len()).enumerate() {
        let mut vacant = learned.chunks_exact(channels);
        for (to, &cell) in image.chunks_exact_mut(channels).zip(&cells) {
            if cell == Arrangement::VACANT {
                to.copy_from_slice(vacant.next().unwrap_or(&vec![0.0; channels]));
            } else {
                let start = (n * tokens + cell as usize) * channels;
                to.copy_from_slice(&input.values[start..start + channels]);
            }
        }
    }
    out
}

/// The gradient of an arrangement's input of `dims`.
pub(super) fn arrange_backward(gradient: &ReferenceValue, arrangement: Arrangement, dims: Dims) -> ReferenceValue {
    let channels = dims.channels;
    let cells = arrangement.cells(dims, gradient.dims);
    let mut passed = ReferenceValue::zeros(gradient.images(), dims);
    let images = gradient.values.chunks_exact(gradient.dims.len());
    for (n, image) in images.enumerate() {
        for (from, &cell) in image.chunks_exact(channels).zip(&cells) {
            if cell != Arrangement::VACANT {
                let start = (n * dims.pixels() + cell as usize) * channels;
                let to = &mut passed.values[start..start + channels];
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
    }
    passed
}

/// Channels of several inputs, run after run.
pub(super) fn pick_channels(inputs: &[&ReferenceValue], runs: &[ChannelRun], dims: Dims) -> ReferenceValue {
    let pixels = inputs[0].images() * dims.pixels();
    let values = (0..pixels).flat_map(|pixel| {
        runs.iter().flat_map(move |run| {
            let input = inputs[run.input];
            let start = pixel * input.dims.channels + run.first;
            &input.values[start..start + run.count]
        })
    });
    ReferenceValue { dims, values: values.copied().collect() }
}

/// The gradient of the input in place `input`, of `dims`.
pub(super) fn pick_channels_backward(
    gradient: &ReferenceValue,
    runs: &[ChannelRun],
    input: usize,
    dims: Dims,
) -> ReferenceValue {
    let mut passed = ReferenceValue::zeros(gradient.images(), dims);
    let pixels = gradient.values.chunks_exact(gradient.dims.channels);
    for (from, to) in pixels.zip(passed.values.chunks_exact_mut(dims.channels)) {
        let mut at = 0;
        for run in runs {
            if run.input == input {
                to[run.first..run.first + run.count].copy_from_slice(&from[at..at + run.count]);
            }
            at += run.count;
        }
    }
    passed
}

/// Sum with a learned value per token and channel.
pub(super) fn add_position(input: &ReferenceValue, position: &[f64]) -> ReferenceValue {
    let values = input.values.iter().zip(position.iter().cycle());
    ReferenceValue { dims: input.dims, values: values.map(|(value, position)| value + position).collect() }
}

/// Product with a learned factor per channel: of a value, and of its gradient.
pub(super) fn scale(input: &ReferenceValue, factors: &[f64]) -> ReferenceValue {
    let values = input.values.iter().zip(factors.iter().cycle());
    ReferenceValue { dims: input.dims, values: values.map(|(value, factor)| value * factor).collect() }
}
