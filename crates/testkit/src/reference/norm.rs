use super::value::ReferenceValue;
use flipcast_graph::{NormKind, NormLayer};

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
    let pixels = input.dims.pixels();
    let channels = input.dims.channels;
    // Elements with the same key share a mean and a variance.
    let key = |n: usize, pixel: usize, c: usize| match layer.kind {
        NormKind::Batch => c,
        NormKind::Group { groups } => n * groups + c / (channels / groups),
        NormKind::Layer => n * pixels + pixel,
    };
    let keys = match layer.kind {
        NormKind::Batch => channels,
        NormKind::Group { groups } => input.images() * groups,
        NormKind::Layer => input.images() * pixels,
    };
    let mut members = vec![Vec::new(); keys];
    for (i, &value) in input.values.iter().enumerate() {
        let (n, pixel, c) = (i / channels / pixels, i / channels % pixels, i % channels);
        members[key(n, pixel, c)].push(value);
    }
    let moments: Vec<Moments> = members
        .iter()
        .enumerate()
        .map(|(k, members)| {
            let found = Moments::of(members);
            match layer.kind {
                NormKind::Batch => {
                    let running = Moments {
                        mean: params.running_mean[k],
                        variance: params.running_var[k],
                    };
                    found.in_mode(mode, running, members.len())
                }
                NormKind::Group { .. } | NormKind::Layer => found,
            }
        })
        .collect();
    let eps = f64::from(layer.eps);
    let deviations: Vec<f64> = moments
        .iter()
        .map(|moments| (moments.variance + eps).sqrt())
        .collect();
    let width = input.dims.width;
    ReferenceValue::from_fn(input.images(), input.dims, |n, y, x, c| {
        let k = key(n, y * width + x, c);
        let normalised = (input.at(n, y, x, c) - moments[k].mean) / deviations[k];
        params.scale[c] * normalised + params.shift[c]
    })
}

#[derive(Clone, Copy)]
struct Moments {
    mean: f64,
    variance: f64,
}

impl Moments {
    /// Mean and biased variance, in two passes.
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        Self { mean, variance }
    }

    /// The moments a batch norm uses when a batch of `count` values has the moments `self`.
    fn in_mode(self, mode: ReferenceNorm, running: Self, count: usize) -> Self {
        match mode {
            ReferenceNorm::Running => running,
            ReferenceNorm::Batch => self,
            ReferenceNorm::Mixed { source_weight: w } => {
                // A single value has variance 0, biased or not.
                let unbiased = self.variance * count as f64 / (count.max(2) - 1) as f64;
                Self {
                    mean: w * running.mean + (1.0 - w) * self.mean,
                    variance: w * running.variance + (1.0 - w) * unbiased,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    /// Two images of one pixel and two channels, with scale 1 and 2, shift 0 and 10.
    fn run(kind: NormKind, mode: ReferenceNorm) -> Vec<f64> {
        let input = ReferenceValue {
            dims: Dims::new(1, 1, 2),
            values: vec![1., 4., 3., 8.],
        };
        let layer = NormLayer {
            kind,
            channels: 2,
            eps: 0.0,
        };
        let params = NormParams {
            scale: &[1., 2.],
            shift: &[0., 10.],
            running_mean: &[1., 2.],
            running_var: &[4., 16.],
        };
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
