use super::statistics::Sharing;
use super::value::ReferenceValue;
use flipcast_executor::NormMode;
use flipcast_graph::NormLayer;

/// Which statistics batch norms use. Group and layer norms always use those of the image or pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReferenceNorm {
    /// The running statistics stored with the weights.
    Running,
    /// Mean and biased variance of the batch.
    Batch,
    /// `source_weight` parts running statistics, the rest mean and *unbiased* variance of the batch.
    Mixed {
        /// Share of the running statistics, 0 to 1.
        source_weight: f64,
    },
    /// Mean and biased variance of the batch in the first norms of the graph, the running statistics in the others.
    Early {
        /// Share of the norms that take the batch's, 0 to 1, rounded up.
        share: f64,
    },
}

impl ReferenceNorm {
    /// What the norm at `index` of `norms` uses: any but [`ReferenceNorm::Early`].
    pub(super) fn of(self, index: usize, norms: usize) -> Self {
        match self {
            Self::Early { share } if (index as f64) < share * norms as f64 => Self::Batch,
            Self::Early { .. } => Self::Running,
            same => same,
        }
    }
}

impl From<ReferenceNorm> for NormMode {
    fn from(mode: ReferenceNorm) -> Self {
        match mode {
            ReferenceNorm::Running => Self::Running,
            ReferenceNorm::Batch => Self::Batch,
            ReferenceNorm::Mixed { source_weight } => Self::Mixed { source_weight: source_weight as f32 },
            ReferenceNorm::Early { share } => Self::Early { share: share as f32 },
        }
    }
}

impl From<NormMode> for ReferenceNorm {
    fn from(mode: NormMode) -> Self {
        match mode {
            NormMode::Running => Self::Running,
            NormMode::Batch => Self::Batch,
            NormMode::Mixed { source_weight } => Self::Mixed { source_weight: f64::from(source_weight) },
            NormMode::Early { share } => Self::Early { share: f64::from(share) },
        }
    }
}

/// The parameters of one norm layer; the running statistics are empty unless it is a batch norm.
pub(super) struct NormParams<'a> {
    pub scale: &'a [f64],
    pub shift: &'a [f64],
    pub running_mean: &'a [f64],
    pub running_var: &'a [f64],
}

/// Normalises, scales and shifts.
pub(super) fn normalise(
    input: &ReferenceValue,
    layer: &NormLayer,
    mode: ReferenceNorm,
    params: &NormParams<'_>,
) -> ReferenceValue {
    let sharing = Sharing::new(layer, input);
    let statistics = sharing.statistics(input, mode, params);
    let mut out = input.clone();
    for (i, value) in out.values.iter_mut().enumerate() {
        let c = i % input.dims.channels;
        let normalised = statistics[sharing.key(i)].normalise(*value);
        *value = params.scale[c] * normalised + params.shift[c];
    }
    out
}

/// What a norm layer passes back.
pub(super) struct NormGradient {
    pub input: ReferenceValue,
    pub scale: Vec<f64>,
    pub shift: Vec<f64>,
}

/// The gradients of a norm's input, scale and shift, from that of its output.
///
/// With `z = (x - m) / d`, `d^2 = v + eps` and `h = scale * gradient`, the statistics have the gradients
/// `dL/dm = -sum(h) / d` and `dL/dv = -sum(h z) / (2 d^2)`, and an input gets `h / d` plus its share in both of them.
pub(super) fn normalise_backward(
    gradient: &ReferenceValue,
    input: &ReferenceValue,
    layer: &NormLayer,
    mode: ReferenceNorm,
    params: &NormParams<'_>,
) -> NormGradient {
    let channels = input.dims.channels;
    let sharing = Sharing::new(layer, input);
    let statistics = sharing.statistics(input, mode, params);
    let mut found = NormGradient {
        input: ReferenceValue::zeros(input.images(), input.dims),
        scale: vec![0.0; channels],
        shift: vec![0.0; channels],
    };
    let mut of_mean = vec![0.0; statistics.len()];
    let mut of_variance = vec![0.0; statistics.len()];
    for (i, (&x, &slope)) in input.values.iter().zip(&gradient.values).enumerate() {
        let (k, c) = (sharing.key(i), i % channels);
        let (normalised, deviation) = (statistics[k].normalise(x), statistics[k].deviation);
        found.scale[c] += slope * normalised;
        found.shift[c] += slope;
        of_mean[k] -= params.scale[c] * slope / deviation;
        of_variance[k] -= 0.5 * params.scale[c] * slope * normalised / deviation.powi(2);
    }
    for (i, out) in found.input.values.iter_mut().enumerate() {
        let (k, c) = (sharing.key(i), i % channels);
        let statistic = &statistics[k];
        *out = params.scale[c] * gradient.values[i] / statistic.deviation
            + of_mean[k] * statistic.mean_slope
            + of_variance[k] * statistic.variance_slope * (input.values[i] - statistic.own_mean);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::{Dims, NormKind};

    /// Two images of one pixel and two channels, with scale 1 and 2, shift 0 and 10.
    fn run(kind: NormKind, mode: ReferenceNorm) -> Vec<f64> {
        let input = ReferenceValue { dims: Dims::new(1, 1, 2), values: vec![1., 4., 3., 8.] };
        let layer = NormLayer { kind, channels: 2, eps: 0.0 };
        let params =
            NormParams { scale: &[1., 2.], shift: &[0., 10.], running_mean: &[1., 2.], running_var: &[4., 16.] };
        normalise(&input, &layer, mode, &params).values
    }

    #[test]
    fn running_statistics_ignore_the_batch() {
        let found = run(NormKind::Batch, ReferenceNorm::Running);
        assert_eq!(found, [0., 11., 1., 13.]);
    }

    #[test]
    fn batch_statistics_use_the_biased_variance() {
        // Means 2 and 6, variances 1 and 4.
        let found = run(NormKind::Batch, ReferenceNorm::Batch);
        assert_eq!(found, [-1., 8., 1., 12.]);
    }

    #[test]
    fn mixed_statistics_use_the_unbiased_variance() {
        // Unbiased variances 2 and 8, so 3 and 12 after mixing; means 1.5 and 4.
        let mode = ReferenceNorm::Mixed { source_weight: 0.5 };
        let found = run(NormKind::Batch, mode);
        let (a, b) = (3f64.sqrt(), 12f64.sqrt());
        let expected = [-0.5 / a, 10., 1.5 / a, 2. * (4. / b) + 10.];
        for (found, expected) in found.iter().zip(expected) {
            // A few roundings of numbers near 1; measured 0.
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
    }

    #[test]
    fn layer_norm_looks_at_one_pixel_in_every_mode() {
        for mode in [ReferenceNorm::Running, ReferenceNorm::Batch] {
            assert_eq!(run(NormKind::Layer, mode), [-1., 12., -1., 12.]);
        }
    }

    #[test]
    fn group_norm_of_one_group_and_one_pixel_is_layer_norm() {
        let found = run(NormKind::Group { groups: 1 }, ReferenceNorm::Running);
        assert_eq!(found, [-1., 12., -1., 12.]);
    }
}
