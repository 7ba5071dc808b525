//! The tables of a norm layer: how it scales and shifts, and how a gradient passes it.

use crate::NormStatistics;
use flipcast_graph::{NormKind, NormSlot};
use flipcast_kernels::{NormTables, ThroughTables};

/// What the batch tells a batch norm.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
}

/// Sums over a gradient: of `dz`, and of `dz` times the centred value.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub sum: Vec<f32>,
    pub product: Vec<f32>,
}

/// One norm layer's state between steps. Batch norms have one row of tables, group norms one per image.
#[derive(Debug)]
pub(crate) struct Norm {
    pub slot: NormSlot,
    running_mean: Vec<f32>,
    running_variance: Vec<f32>,
    /// The running statistics as the weights had them.
    source: (Vec<f32>, Vec<f32>),
    pub batch: Statistics,
    pub sums: Sums,
    /// Whether the stored gradient has already passed the activation: who gathers the sums may leave it that way.
    pub passed: bool,
    /// The mean that was used, and the reciprocal standard deviation.
    pub centre: Vec<f32>,
    variance: Vec<f32>,
    inverse: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    slope: Vec<f32>,
    pull: Vec<f32>,
    constant: Vec<f32>,
}

impl Norm {
    pub fn new(slot: NormSlot, images: usize, running: Option<(Vec<f32>, Vec<f32>)>) -> Self {
        let rows = if slot.layer.kind == NormKind::Batch { 1 } else { images };
        let len = if slot.layer.kind == NormKind::Layer { 0 } else { rows * slot.layer.channels };
        let table = || vec![0.0f32; len];
        let source = running.unwrap_or_default();
        let (running_mean, running_variance) = source.clone();
        Self {
            slot,
            running_mean,
            running_variance,
            source,
            batch: Statistics { mean: vec![0.0; len], variance: vec![0.0; len] },
            sums: Sums { sum: table(), product: table() },
            passed: false,
            centre: table(),
            variance: table(),
            inverse: table(),
            scale: table(),
            shift: table(),
            slope: table(),
            pull: table(),
            constant: table(),
        }
    }

    fn per_image(&self) -> bool {
        self.slot.layer.kind != NormKind::Batch
    }

    pub fn tables(&self) -> NormTables<'_> {
        NormTables { scale: &self.scale, shift: &self.shift, per_image: self.per_image() }
    }

    pub fn through(&self) -> ThroughTables<'_> {
        ThroughTables { slope: &self.slope, pull: &self.pull, constant: &self.constant }
    }

    /// Makes the statistics that were last used the running ones, if this is a batch norm.
    pub fn absorb(&mut self) {
        if self.slot.layer.kind == NormKind::Batch {
            self.running_mean.copy_from_slice(&self.centre);
            self.running_variance.copy_from_slice(&self.variance);
        }
    }

    /// Restores the running statistics of the weights.
    pub fn restore(&mut self) {
        self.running_mean.copy_from_slice(&self.source.0);
        self.running_variance.copy_from_slice(&self.source.1);
    }

    /// Makes the forward tables from the statistics it normalises with and `[scale, shift]` of the affine vector.
    pub fn prepare(&mut self, images: usize, with: NormStatistics, scale: &[f32], shift: &[f32]) {
        match self.slot.layer.kind {
            NormKind::Batch => self.prepare_batch(images, with, scale, shift),
            NormKind::Group { groups } => self.prepare_group(images, groups, scale, shift),
            NormKind::Layer => {}
        }
    }

    fn prepare_batch(&mut self, images: usize, with: NormStatistics, scale: &[f32], shift: &[f32]) {
        let count = (images * self.slot.dims.pixels()) as f64;
        let unbias = count / (count - 1.0);
        for c in 0..scale.len() {
            let running = (f64::from(self.running_mean[c]), f64::from(self.running_variance[c]));
            let batch = (self.batch.mean[c], self.batch.variance[c]);
            let (mean, variance) = match with {
                NormStatistics::Running => running,
                NormStatistics::Batch => batch,
                NormStatistics::Mixed { source_weight } => {
                    let w = f64::from(source_weight);
                    (w * running.0 + (1.0 - w) * batch.0, w * running.1 + (1.0 - w) * batch.1 * unbias)
                }
            };
            self.set(c, mean, variance, scale[c], shift[c]);
        }
    }

    fn prepare_group(&mut self, images: usize, groups: usize, scale: &[f32], shift: &[f32]) {
        let channels = scale.len();
        let size = channels / groups;
        for image in 0..images {
            for group in 0..groups {
                let start = image * channels + group * size;
                let mean = self.batch.mean[start..start + size].iter().sum::<f64>() / size as f64;
                let spread = |c: usize| self.batch.variance[c] + (self.batch.mean[c] - mean).powi(2);
                let variance = (start..start + size).map(spread).sum::<f64>() / size as f64;
                for c in 0..size {
                    let channel = group * size + c;
                    self.set(start + c, mean, variance, scale[channel], shift[channel]);
                }
            }
        }
    }

    fn set(&mut self, at: usize, mean: f64, variance: f64, scale: f32, shift: f32) {
        let inverse = 1.0 / (variance + f64::from(self.slot.layer.eps)).sqrt();
        let factor = (f64::from(scale) * inverse) as f32;
        self.centre[at] = mean as f32;
        self.variance[at] = variance as f32;
        self.inverse[at] = inverse as f32;
        self.scale[at] = factor;
        // From the rounded factor, so that a value at the mean lands on the shift.
        self.shift[at] = (f64::from(shift) - mean * f64::from(factor)) as f32;
    }

    /// From the sums: the gradients of scale and shift, and the tables that carry the gradient on.
    pub fn finish(
        &mut self,
        images: usize,
        with: NormStatistics,
        scale: &[f32],
        scale_gradient: &mut [f32],
        shift_gradient: &mut [f32],
    ) {
        match self.slot.layer.kind {
            NormKind::Batch => self.finish_batch(images, with, scale_gradient, shift_gradient),
            NormKind::Group { groups } => self.finish_group(images, groups, scale, scale_gradient, shift_gradient),
            NormKind::Layer => {}
        }
    }

    fn finish_batch(
        &mut self,
        images: usize,
        with: NormStatistics,
        scale_gradient: &mut [f32],
        shift_gradient: &mut [f32],
    ) {
        let count = (images * self.slot.dims.pixels()) as f32;
        // How much of the mean and of the variance comes from the batch, per value.
        let (mean_share, variance_share) = match with {
            NormStatistics::Running => (0.0, 0.0),
            NormStatistics::Batch => (1.0 / count, 1.0 / count),
            NormStatistics::Mixed { source_weight } => {
                ((1.0 - source_weight) / count, (1.0 - source_weight) / (count - 1.0))
            }
        };
        for c in 0..scale_gradient.len() {
            let (sum, product, inverse) = (self.sums.sum[c], self.sums.product[c], self.inverse[c]);
            scale_gradient[c] = product * inverse;
            shift_gradient[c] = sum;
            let slope = self.scale[c];
            let pull = -slope * inverse * inverse * product * variance_share;
            self.slope[c] = slope;
            self.pull[c] = pull;
            self.constant[c] = -slope * sum * mean_share - pull * self.batch.mean[c] as f32;
        }
    }

    fn finish_group(
        &mut self,
        images: usize,
        groups: usize,
        scale: &[f32],
        scale_gradient: &mut [f32],
        shift_gradient: &mut [f32],
    ) {
        let channels = scale.len();
        let size = channels / groups;
        let count = (size * self.slot.dims.pixels()) as f64;
        for c in 0..channels {
            let over_images = |value: &dyn Fn(usize) -> f64| (0..images).map(|n| value(n * channels + c)).sum::<f64>();
            scale_gradient[c] =
                over_images(&|at| f64::from(self.sums.product[at]) * f64::from(self.inverse[at])) as f32;
            shift_gradient[c] = over_images(&|at| f64::from(self.sums.sum[at])) as f32;
        }
        for image in 0..images {
            for group in 0..groups {
                let start = image * channels + group * size;
                let weighted = |sums: &[f32]| {
                    let terms = (0..size).map(|c| f64::from(scale[group * size + c]) * f64::from(sums[start + c]));
                    (terms.sum::<f64>() / count) as f32
                };
                let (sum, product) = (weighted(&self.sums.sum), weighted(&self.sums.product));
                for at in start..start + size {
                    let inverse = self.inverse[at];
                    let pull = -inverse * inverse * inverse * product;
                    self.slope[at] = self.scale[at];
                    self.pull[at] = pull;
                    self.constant[at] = -inverse * sum - pull * self.centre[at];
                }
            }
        }
    }
}
