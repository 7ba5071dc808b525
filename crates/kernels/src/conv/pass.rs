//! One direction of a convolution as sums over taps.
//!
//! Target pixels fall into classes. Within a class, target `q * target_step + start` sums over taps the source pixels
//! `q * source_step + offset`. Forward there is one class, and the source moves by the stride. Backward there are
//! `stride * stride` classes, one per position of a pixel between the strides, each with the taps that reach it; so no
//! product with an inserted zero is ever computed.

use super::ConvShape;

/// Extents of one side of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
}

impl Side {
    pub fn pixels(self) -> usize {
        self.height * self.width
    }
}

/// A filter tap: which source pixel it reads, and its place in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    pub dy: isize,
    pub dx: isize,
    pub ky: usize,
    pub kx: usize,
}

/// Target pixels that share their taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub start: [usize; 2],
    pub taps: Vec<Tap>,
}

/// How far apart weights lie: those of the next group, source channel and target channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WeightSteps {
    group: usize,
    source: usize,
    target: usize,
}

impl WeightSteps {
    /// Weights are stored by output channel, then input channel of its group, then tap.
    fn forward(shape: &ConvShape) -> Self {
        let taps = shape.kernel[0] * shape.kernel[1];
        let target = shape.in_channels / shape.groups * taps;
        Self { group: shape.out_channels / shape.groups * target, source: taps, target }
    }

    fn backward(shape: &ConvShape) -> Self {
        let Self { group, source, target } = Self::forward(shape);
        Self { group, source: target, target: source }
    }
}

/// A convolution in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub source: Side,
    pub target: Side,
    pub source_step: usize,
    pub target_step: usize,
    pub classes: Vec<Class>,
    pub groups: usize,
    kernel: [usize; 2],
    weight_steps: WeightSteps,
}

impl Pass {
    pub fn forward(shape: &ConvShape) -> Self {
        let mut taps = Vec::new();
        for ky in 0..shape.kernel[0] {
            for kx in 0..shape.kernel[1] {
                let dy = (ky * shape.dilation) as isize - shape.padding[0] as isize;
                let dx = (kx * shape.dilation) as isize - shape.padding[1] as isize;
                taps.push(Tap { dy, dx, ky, kx });
            }
        }
        Self {
            source: side(shape.input, shape.in_channels),
            target: side(shape.output, shape.out_channels),
            source_step: shape.stride,
            target_step: 1,
            classes: vec![Class { start: [0, 0], taps }],
            groups: shape.groups,
            kernel: shape.kernel,
            weight_steps: WeightSteps::forward(shape),
        }
    }

    pub fn backward(shape: &ConvShape) -> Self {
        let stride = shape.stride as isize;
        // Filter positions that reach input position `start` modulo the stride, with the output they come from.
        let reaching = |start: usize, axis: usize| -> Vec<(isize, usize)> {
            let mut taps: Vec<(isize, usize)> = (0..shape.kernel[axis])
                .map(|k| ((start + shape.padding[axis]) as isize - (k * shape.dilation) as isize, k))
                .filter(|(at, _)| at.rem_euclid(stride) == 0)
                .map(|(at, k)| (at.div_euclid(stride), k))
                .collect();
            taps.sort_unstable();
            taps
        };
        let mut classes = Vec::new();
        for y in 0..shape.stride.min(shape.input[0]) {
            for x in 0..shape.stride.min(shape.input[1]) {
                let mut taps = Vec::new();
                for &(dy, ky) in &reaching(y, 0) {
                    for &(dx, kx) in &reaching(x, 1) {
                        taps.push(Tap { dy, dx, ky, kx });
                    }
                }
                classes.push(Class { start: [y, x], taps });
            }
        }
        Self {
            source: side(shape.output, shape.out_channels),
            target: side(shape.input, shape.in_channels),
            source_step: 1,
            target_step: shape.stride,
            classes,
            groups: shape.groups,
            kernel: shape.kernel,
            weight_steps: WeightSteps::backward(shape),
        }
    }

    /// Number of weights of the convolution.
    pub fn weights_len(&self) -> usize {
        self.source.channels * self.target.channels / self.groups * self.kernel[0] * self.kernel[1]
    }

    /// The weight between a source channel and a target channel of the same group, both counted inside the group.
    #[inline]
    pub fn weight(&self, weights: &[f32], group: usize, source: usize, target: usize, tap: &Tap) -> f32 {
        // Packing asks for every weight, so that a division here would be most of its time.
        let steps = &self.weight_steps;
        let start = group * steps.group + source * steps.source + target * steps.target;
        weights[start + tap.ky * self.kernel[1] + tap.kx]
    }

    pub fn is_depthwise(&self) -> bool {
        self.groups == self.source.channels && self.groups == self.target.channels && self.groups > 1
    }

    /// One tap, no padding, one group: a matrix product over pixels, some of which may be skipped.
    pub fn is_pointwise(&self) -> bool {
        let reached: Vec<&Class> = self.classes.iter().filter(|class| !class.taps.is_empty()).collect();
        self.groups == 1
            && self.kernel == [1, 1]
            && matches!(reached.as_slice(), [class] if class.start == [0, 0]
                && class.taps.iter().all(|tap| tap.dy == 0 && tap.dx == 0))
    }

    /// Target rows or columns of a class along an axis of `size`.
    pub fn class_len(&self, class: &Class, axis: usize, size: usize) -> usize {
        size.saturating_sub(class.start[axis]).div_ceil(self.target_step)
    }
}

fn side([height, width]: [usize; 2], channels: usize) -> Side {
    Side { height, width, channels }
}
