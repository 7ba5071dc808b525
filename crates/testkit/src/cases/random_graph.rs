use super::Case;
use super::sketch::Sketch;
use crate::Random;
use flipcast_graph::{Activation, Conv2d, Dims, NodeId, NormKind, Pool};

const ACTIVATIONS: [Activation; 7] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Relu6,
    Activation::Silu,
    Activation::Gelu,
    Activation::Sigmoid,
    Activation::HardSwish,
];

/// Channels that fill whole vector registers, and some that do not.
const CHANNELS: [usize; 7] = [4, 5, 8, 12, 16, 17, 24];

/// Values below which a variance is too ill-conditioned to normalise with in `f32`, dead units considered.
const MIN_VALUES_PER_NORM: usize = 12;

/// A small random network over all operators, the same for the same seed. It always has a norm, and every node is
/// used on the way to the logits.
pub fn random_graph(seed: u64) -> Case {
    let mut random = Random::from_text(&format!("random graph {seed}"));
    let [height, width] = [6 + random.below(8), 6 + random.below(8)];
    let batch_size = 2 + random.below(4);
    let channels = random.pick(&[1, 3, 4]);
    let (sketch, input) = Sketch::new(channels);
    let mut growth =
        Growth { sketch, random, batch_size, tip: (input, Dims::new(height, width, channels)), behind: Vec::new() };
    if growth.random.chance(0.2) {
        growth.norm();
    }
    growth.conv_unit();
    growth.norm();
    for _ in 0..2 + growth.random.below(4) {
        growth.grow();
    }
    growth.close(&format!("random_{seed}"), [height, width, batch_size])
}

/// A chain that grows at its tip and now and then reaches back to earlier values.
struct Growth {
    sketch: Sketch,
    random: Random,
    batch_size: usize,
    /// The value that the next layer reads.
    tip: (NodeId, Dims),
    /// Former tips.
    behind: Vec<(NodeId, Dims)>,
}

impl Growth {
    fn grow(&mut self) {
        match self.random.below(9) {
            0..=2 => self.conv_unit(),
            3 => self.residual(),
            4 => self.pool(),
            5 => self.gate(),
            6 => self.reach_back(),
            7 => self.shortcut_a(),
            _ => self.norm(),
        }
    }

    fn advance(&mut self, node: NodeId, dims: Dims) {
        self.behind.push(self.tip);
        self.tip = (node, dims);
    }

    /// A random convolution, most often followed by a norm and an activation.
    fn conv_unit(&mut self) {
        let conv = self.random_conv();
        let Some((_, dims)) = conv.resolve(self.tip.1) else {
            return;
        };
        let node = self.sketch.conv(self.tip.0, conv);
        self.advance(node, dims);
        if self.random.chance(0.8) {
            self.norm();
        }
        if self.random.chance(0.8) {
            self.activation();
        }
    }

    fn random_conv(&mut self) -> Conv2d {
        let from = self.tip.1.channels;
        let to = self.random.pick(&CHANNELS);
        let kernel = self.random.pick(&[1, 1, 3, 3, 3, 5]);
        let divisors: Vec<usize> = (1..=from).filter(|&g| from.is_multiple_of(g) && to.is_multiple_of(g)).collect();
        let mut conv = match self.random.below(4) {
            0 => Conv2d::new(from, from, kernel).groups(from),
            1 => Conv2d::new(from, to, kernel).groups(self.random.pick(&divisors)),
            _ => Conv2d::new(from, to, kernel),
        };
        // Small values are left alone, so that a graph does not shrink to a pixel at once.
        if self.tip.1.height.min(self.tip.1.width) >= 5 {
            conv = conv.stride(self.random.pick(&[1, 1, 2]));
        }
        conv = match self.random.below(4) {
            0 => conv.pad_same(),
            1 if kernel == 3 => conv.dilation(2).padding(2),
            _ => conv.padding(kernel / 2),
        };
        if self.random.chance(0.25) {
            conv = conv.with_bias();
        }
        conv
    }

    fn norm(&mut self) {
        let (x, dims) = self.tip;
        let divisors: Vec<usize> = (1..=dims.channels).filter(|&g| dims.channels.is_multiple_of(g)).collect();
        let groups = self.random.pick(&divisors);
        // A norm over one or two values forgets nearly everything about them.
        let group_fits = dims.len() / groups >= MIN_VALUES_PER_NORM;
        let batch_fits = self.batch_size * dims.pixels() >= MIN_VALUES_PER_NORM;
        let node = match self.random.below(6) {
            0 if group_fits => self.sketch.norm(x, NormKind::Group { groups }),
            1 if dims.channels >= MIN_VALUES_PER_NORM => self.sketch.norm(x, NormKind::Layer),
            _ if batch_fits => self.sketch.bn(x),
            _ => return,
        };
        self.advance(node, dims);
    }

    fn activation(&mut self) {
        let (x, dims) = self.tip;
        let activation = self.random.pick(&ACTIVATIONS);
        let node = self.sketch.act(x, activation);
        self.advance(node, dims);
    }

    /// A body of one or two convolutions that keep the extents, added to where it started.
    fn residual(&mut self) {
        let (start, dims) = self.tip;
        let mut y = start;
        for _ in 0..1 + self.random.below(2) {
            if self.random.chance(0.5) {
                y = self.sketch.relu(y);
            }
            y = self.sketch.conv3x3(y, dims.channels);
            if self.batch_size * dims.pixels() >= MIN_VALUES_PER_NORM {
                y = self.sketch.bn(y);
            }
        }
        let sum = if self.random.chance(0.5) { self.sketch.add(start, y) } else { self.sketch.add(y, start) };
        self.advance(sum, dims);
        if self.random.chance(0.5) {
            self.activation();
        }
    }

    fn pool(&mut self) {
        let kernel = 2 + self.random.below(2);
        let pool = Pool::new(kernel, 1 + self.random.below(2), self.random.below(kernel / 2 + 1));
        let Some(dims) = pool.resolve(self.tip.1) else {
            return;
        };
        let node = if self.random.chance(0.5) {
            self.sketch.max_pool(self.tip.0, pool)
        } else {
            self.sketch.avg_pool(self.tip.0, pool)
        };
        self.advance(node, dims);
    }

    fn gate(&mut self) {
        let (x, dims) = self.tip;
        let node = self.sketch.squeeze_excite(x, 5);
        self.advance(node, dims);
    }

    /// Adds or multiplies with an earlier value of the same extents, if there is one.
    fn reach_back(&mut self) {
        let (x, dims) = self.tip;
        let fitting: Vec<NodeId> =
            self.behind.iter().filter(|(_, other)| *other == dims).map(|&(node, _)| node).collect();
        if fitting.is_empty() {
            return;
        }
        let other = self.random.pick(&fitting);
        let node = if self.random.chance(0.75) {
            self.sketch.add(x, other)
        } else {
            let gate = self.sketch.act(other, Activation::Sigmoid);
            self.sketch.mul(x, gate)
        };
        self.advance(node, dims);
    }

    fn shortcut_a(&mut self) {
        let (x, dims) = self.tip;
        let (stride, channels) = (1 + self.random.below(2), dims.channels + self.random.below(4));
        let node = self.sketch.shortcut_a(x, stride, channels);
        let along = |size: usize| size.div_ceil(stride);
        self.advance(node, Dims::new(along(dims.height), along(dims.width), channels));
    }

    fn close(mut self, name: &str, size: [usize; 3]) -> Case {
        let (x, dims) = self.tip;
        if dims.pixels() <= 12 && self.random.chance(0.5) {
            self.sketch.flat_case(name, x, dims.pixels(), size)
        } else {
            self.sketch.pooled_case(name, x, size)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Op;
    use std::collections::HashSet;

    #[test]
    fn every_random_graph_runs_and_uses_all_its_nodes() {
        for seed in 0..60 {
            let case = random_graph(seed);
            let reference = case.reference();
            let batch = case.random_batch(case.batch_size, 0);
            for mode in case.modes() {
                let run = reference.forward(&batch, mode, &reference.affine()).unwrap();
                assert!(run.logits().iter().all(|v| v.is_finite()), "{}", case.name);
            }
            let nodes = case.graph.nodes();
            let used: HashSet<_> = nodes.iter().flat_map(|node| &node.inputs).collect();
            assert_eq!(used.len(), nodes.len() - 1, "{}", case.name);
            assert!(case.graph.norms().next().is_some(), "{}", case.name);
        }
    }

    #[test]
    fn sixty_random_graphs_cover_every_operator() {
        let mut seen = HashSet::new();
        for seed in 0..60 {
            for node in random_graph(seed).graph.nodes() {
                seen.insert(match &node.op {
                    Op::Norm(norm) => match norm.kind {
                        NormKind::Batch => "batch norm",
                        NormKind::Group { .. } => "group norm",
                        NormKind::Layer => "layer norm",
                    },
                    Op::Conv2d(_) => "convolution",
                    Op::MaxPool(_) => "max pool",
                    Op::AvgPool(_) => "average pool",
                    Op::GlobalAvgPool => "global pool",
                    Op::Add => "add",
                    Op::Mul => "mul",
                    Op::Flatten => "flatten",
                    Op::ShortcutA { .. } => "shortcut",
                    Op::Activation(_) => "activation",
                    _ => "input or head",
                });
            }
        }
        assert_eq!(seen.len(), 13, "{seen:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_graph() {
        assert_eq!(random_graph(11).graph, random_graph(11).graph);
        assert_eq!(random_graph(11).params, random_graph(11).params);
    }
}
