use super::norm::{NormParams, ReferenceNorm};
use super::value::ReferenceValue;
use flipcast_graph::{Dims, NormKind, NormLayer};

/// Which elements of a norm's input share a mean and a variance.
pub(super) struct Sharing<'a> {
    layer: &'a NormLayer,
    dims: Dims,
    images: usize,
}

impl<'a> Sharing<'a> {
    pub fn new(layer: &'a NormLayer, input: &ReferenceValue) -> Self {
        Self { layer, dims: input.dims, images: input.images() }
    }

    /// Elements with the same key share their statistics.
    pub fn key(&self, index: usize) -> usize {
        let (pixel, c) = (index / self.dims.channels, index % self.dims.channels);
        match self.layer.kind {
            NormKind::Batch => c,
            NormKind::Group { groups } => pixel / self.dims.pixels() * groups + c / (self.dims.channels / groups),
            NormKind::Layer => pixel,
        }
    }

    /// The statistics of every key.
    pub fn statistics(&self, input: &ReferenceValue, mode: ReferenceNorm, params: &NormParams<'_>) -> Vec<Statistic> {
        let keys = match self.layer.kind {
            NormKind::Batch => self.dims.channels,
            NormKind::Group { groups } => self.images * groups,
            NormKind::Layer => self.images * self.dims.pixels(),
        };
        let mut members = vec![Vec::new(); keys];
        for (i, &value) in input.values.iter().enumerate() {
            members[self.key(i)].push(value);
        }
        let eps = f64::from(self.layer.eps);
        let mode = |k: usize| match self.layer.kind {
            NormKind::Batch => match mode {
                ReferenceNorm::Running => Mixture::running(params, k, 1.0),
                ReferenceNorm::Batch => Mixture::OWN,
                ReferenceNorm::Mixed { source_weight } => Mixture::running(params, k, source_weight),
                ReferenceNorm::Early { .. } => unreachable!("the place of a norm says which of them it uses"),
            },
            NormKind::Group { .. } | NormKind::Layer => Mixture::OWN,
        };
        let members = members.iter().enumerate();
        members.map(|(k, members)| mode(k).statistic(members, eps)).collect()
    }
}

/// What a key's elements are normalised with, and how it follows them.
pub(super) struct Statistic {
    pub mean: f64,
    /// `sqrt(variance + eps)`.
    pub deviation: f64,
    /// Mean of the elements themselves, which differs from `mean` when running statistics take part.
    pub own_mean: f64,
    /// Derivative of `mean` by one element.
    pub mean_slope: f64,
    /// Derivative of the variance by one element, for each unit that it lies above `own_mean`.
    pub variance_slope: f64,
}

impl Statistic {
    pub fn normalise(&self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }
}

/// How the elements' own moments and the running ones are combined.
struct Mixture {
    running_weight: f64,
    running_mean: f64,
    running_variance: f64,
    variance: Variance,
}

enum Variance {
    Biased,
    Unbiased,
}

impl Mixture {
    /// The elements alone.
    const OWN: Self =
        Self { running_weight: 0.0, running_mean: 0.0, running_variance: 0.0, variance: Variance::Biased };

    /// `weight` of channel `c`'s running statistics, the rest from the elements.
    fn running(params: &NormParams<'_>, c: usize, weight: f64) -> Self {
        Self {
            running_weight: weight,
            running_mean: params.running_mean[c],
            running_variance: params.running_var[c],
            variance: Variance::Unbiased,
        }
    }

    /// The statistic of `members`, with moments in two passes.
    fn statistic(&self, members: &[f64], eps: f64) -> Statistic {
        let count = members.len() as f64;
        let own_mean = members.iter().sum::<f64>() / count;
        let divisor = match self.variance {
            Variance::Biased => count,
            // A single value has variance 0, biased or not.
            Variance::Unbiased => (count - 1.0).max(1.0),
        };
        let own_variance = members.iter().map(|v| (v - own_mean).powi(2)).sum::<f64>() / divisor;
        let (theirs, own) = (self.running_weight, 1.0 - self.running_weight);
        Statistic {
            mean: theirs * self.running_mean + own * own_mean,
            deviation: (theirs * self.running_variance + own * own_variance + eps).sqrt(),
            own_mean,
            mean_slope: own / count,
            variance_slope: 2.0 * own / divisor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: NormParams<'static> =
        NormParams { scale: &[1.0], shift: &[0.0], running_mean: &[8.0], running_var: &[2.0] };

    fn statistic(mode: ReferenceNorm) -> Statistic {
        let input = ReferenceValue { dims: Dims::new(1, 2, 1), values: vec![1.0, 3.0, 5.0, 7.0] };
        let layer = NormLayer { kind: NormKind::Batch, channels: 1, eps: 0.0 };
        let sharing = Sharing::new(&layer, &input);
        sharing.statistics(&input, mode, &RUNNING).swap_remove(0)
    }

    #[test]
    fn running_statistics_do_not_follow_the_batch() {
        let found = statistic(ReferenceNorm::Running);
        assert_eq!((found.mean, found.deviation), (8.0, 2f64.sqrt()));
        assert_eq!((found.mean_slope, found.variance_slope), (0.0, 0.0));
    }

    #[test]
    fn batch_statistics_follow_each_element_equally() {
        let found = statistic(ReferenceNorm::Batch);
        assert_eq!((found.mean, found.deviation), (4.0, 5f64.sqrt()));
        assert_eq!((found.mean_slope, found.variance_slope), (0.25, 0.5));
    }

    #[test]
    fn mixed_statistics_follow_by_their_share() {
        let found = statistic(ReferenceNorm::Mixed { source_weight: 0.5 });
        assert_eq!((found.mean, found.own_mean), (6.0, 4.0));
        assert_eq!(found.deviation, (0.5 * (2.0 + 20.0 / 3.0f64)).sqrt());
        assert_eq!((found.mean_slope, found.variance_slope), (0.125, 1.0 / 3.0));
    }

    #[test]
    fn groups_and_pixels_are_told_apart() {
        let input = ReferenceValue::zeros(2, Dims::new(1, 2, 4));
        let keys = |kind| {
            let layer = NormLayer { kind, channels: 4, eps: 0.0 };
            let sharing = Sharing::new(&layer, &input);
            (0..16).map(|i| sharing.key(i)).collect::<Vec<_>>()
        };
        let groups = keys(NormKind::Group { groups: 2 });
        assert_eq!(groups, [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3]);
        let pixels = keys(NormKind::Layer);
        assert_eq!(pixels, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    }
}
