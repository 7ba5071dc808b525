use super::Case;
use flipcast_graph::{Activation, Attention, ChannelRun, Conv2d, GraphBuilder, NodeId, NormKind, Pool};

/// Classes of every small network.
const CLASSES: usize = 7;

/// A graph in the making, with layers numbered as they come: `conv1`, `bn1`, `act1`, `conv2`, ...
pub(super) struct Sketch {
    builder: GraphBuilder,
    used: Vec<&'static str>,
}

impl Sketch {
    /// A graph for images of `channels` channels, and its input.
    pub(super) fn new(channels: usize) -> (Self, NodeId) {
        let (builder, input) = GraphBuilder::new(channels);
        let used = Vec::new();
        (Self { builder, used }, input)
    }

    /// A graph that starts with a 3x3 convolution of RGB images to `channels`, and the convolution.
    pub(super) fn with_stem(channels: usize) -> (Self, NodeId) {
        let (mut sketch, x) = Self::new(3);
        let x = sketch.conv(x, Conv2d::new(3, channels, 3).padding(1));
        (sketch, x)
    }

    pub(super) fn channels(&self, x: NodeId) -> usize {
        self.builder.channels(x)
    }

    pub(super) fn conv(&mut self, x: NodeId, conv: Conv2d) -> NodeId {
        let name = self.next("conv");
        self.builder.conv(&name, x, conv)
    }

    /// A 3x3 convolution to `out` channels that keeps the size.
    pub(super) fn conv3x3(&mut self, x: NodeId, out: usize) -> NodeId {
        let conv = Conv2d::new(self.channels(x), out, 3).padding(1);
        self.conv(x, conv)
    }

    /// A 1x1 convolution to `out` channels.
    pub(super) fn conv1x1(&mut self, x: NodeId, out: usize) -> NodeId {
        let conv = Conv2d::new(self.channels(x), out, 1);
        self.conv(x, conv)
    }

    pub(super) fn bn(&mut self, x: NodeId) -> NodeId {
        let name = self.next("bn");
        self.builder.batch_norm(&name, x, 1e-5)
    }

    pub(super) fn norm(&mut self, x: NodeId, kind: NormKind) -> NodeId {
        let name = self.next("norm");
        self.builder.norm(&name, x, kind, 1e-5)
    }

    pub(super) fn act(&mut self, x: NodeId, activation: Activation) -> NodeId {
        let name = self.next("act");
        self.builder.activation(&name, x, activation)
    }

    pub(super) fn relu(&mut self, x: NodeId) -> NodeId {
        self.act(x, Activation::Relu)
    }

    pub(super) fn bn_relu(&mut self, x: NodeId) -> NodeId {
        let x = self.bn(x);
        self.relu(x)
    }

    pub(super) fn max_pool(&mut self, x: NodeId, pool: Pool) -> NodeId {
        let name = self.next("max_pool");
        self.builder.max_pool(&name, x, pool)
    }

    pub(super) fn avg_pool(&mut self, x: NodeId, pool: Pool) -> NodeId {
        let name = self.next("avg_pool");
        self.builder.avg_pool(&name, x, pool)
    }

    pub(super) fn global_avg_pool(&mut self, x: NodeId) -> NodeId {
        let name = self.next("global_pool");
        self.builder.global_avg_pool(&name, x)
    }

    pub(super) fn add(&mut self, x: NodeId, y: NodeId) -> NodeId {
        let name = self.next("add");
        self.builder.add(&name, x, y)
    }

    pub(super) fn mul(&mut self, x: NodeId, gate: NodeId) -> NodeId {
        let name = self.next("mul");
        self.builder.mul(&name, x, gate)
    }

    pub(super) fn shortcut_a(&mut self, x: NodeId, stride: usize, channels: usize) -> NodeId {
        let name = self.next("shortcut");
        self.builder.shortcut_a(&name, x, stride, channels)
    }

    /// A linear layer to `out` channels on every pixel.
    pub(super) fn linear(&mut self, x: NodeId, out: usize) -> NodeId {
        let (name, inputs) = (self.next("linear"), self.channels(x));
        self.builder.linear(&name, x, inputs, out)
    }

    /// The same without a bias.
    pub(super) fn projection(&mut self, x: NodeId, out: usize) -> NodeId {
        let (name, inputs) = (self.next("projection"), self.channels(x));
        self.builder.linear_without_bias(&name, x, inputs, out)
    }

    pub(super) fn attention(&mut self, x: NodeId, attention: Attention) -> NodeId {
        let name = self.next("attention");
        self.builder.attention(&name, x, attention)
    }

    pub(super) fn prepend_tokens(&mut self, x: NodeId, count: usize) -> NodeId {
        let name = self.next("learned_tokens");
        self.builder.prepend_tokens(&name, x, count)
    }

    pub(super) fn add_position(&mut self, x: NodeId, tokens: usize) -> NodeId {
        let name = self.next("position");
        self.builder.add_position(&name, x, tokens)
    }

    /// Pixels and channels exchanged.
    pub(super) fn transpose(&mut self, x: NodeId, pixels: usize, rows: usize) -> NodeId {
        let name = self.next("transpose");
        self.builder.transpose(&name, x, pixels, rows)
    }

    /// Zeros between pixels.
    pub(super) fn spread(&mut self, x: NodeId, factor: usize) -> NodeId {
        let name = self.next("spread");
        self.builder.spread(&name, x, factor)
    }

    pub(super) fn token_range(&mut self, x: NodeId, first: usize, count: usize) -> NodeId {
        let name = self.next("token_range");
        self.builder.token_range(&name, x, first, count)
    }

    pub(super) fn drop_tokens(&mut self, x: NodeId, count: usize) -> NodeId {
        let name = self.next("drop_tokens");
        self.builder.drop_tokens(&name, x, count)
    }

    pub(super) fn pad(&mut self, x: NodeId, rows: [usize; 2], columns: [usize; 2]) -> NodeId {
        let name = self.next("zeros");
        self.builder.pad(&name, x, rows, columns)
    }

    pub(super) fn pad_to_multiple(&mut self, x: NodeId, multiple: usize) -> NodeId {
        let name = self.next("pad");
        self.builder.pad_to_multiple(&name, x, multiple)
    }

    pub(super) fn crop_like(&mut self, x: NodeId, like: NodeId) -> NodeId {
        let name = self.next("crop");
        self.builder.crop_like(&name, x, like)
    }

    pub(super) fn merge_patches(&mut self, x: NodeId) -> NodeId {
        let name = self.next("merge");
        self.builder.merge_patches(&name, x)
    }

    pub(super) fn pick_channels(&mut self, inputs: &[NodeId], runs: Vec<ChannelRun>) -> NodeId {
        let name = self.next("pick");
        self.builder.pick_channels(&name, inputs, runs)
    }

    /// All channels of all inputs, one behind the other.
    pub(super) fn concat(&mut self, inputs: &[NodeId]) -> NodeId {
        let runs = inputs.iter().enumerate();
        let runs = runs.map(|(input, &x)| ChannelRun { input, first: 0, count: self.channels(x) }).collect();
        self.pick_channels(inputs, runs)
    }

    pub(super) fn scale(&mut self, x: NodeId) -> NodeId {
        let name = self.next("layer_scale");
        self.builder.scale(&name, x)
    }

    /// Pool, squeeze to `inner` channels, SiLU, excite, sigmoid, and the product with `x`.
    pub(super) fn squeeze_excite(&mut self, x: NodeId, inner: usize) -> NodeId {
        let channels = self.channels(x);
        let gate = self.global_avg_pool(x);
        let gate = self.conv(gate, Conv2d::new(channels, inner, 1).with_bias());
        let gate = self.act(gate, Activation::Silu);
        let gate = self.conv(gate, Conv2d::new(inner, channels, 1).with_bias());
        let gate = self.act(gate, Activation::Sigmoid);
        self.mul(x, gate)
    }

    /// Closes the graph with a global average and a head.
    pub(super) fn pooled_case(mut self, name: &str, x: NodeId, size: [usize; 3]) -> Case {
        let x = self.global_avg_pool(x);
        self.head_case(name, x, size)
    }

    /// Closes the graph with a flatten and a head; `pixels` are left at `x`.
    pub(super) fn flat_case(mut self, name: &str, x: NodeId, pixels: usize, size: [usize; 3]) -> Case {
        let inputs = pixels * self.channels(x);
        let x = self.builder.flatten("flatten", x);
        let logits = self.builder.linear("fc", x, inputs, CLASSES);
        self.finish(name, logits, size)
    }

    fn head_case(mut self, name: &str, x: NodeId, size: [usize; 3]) -> Case {
        let inputs = self.channels(x);
        let logits = self.builder.linear("fc", x, inputs, CLASSES);
        self.finish(name, logits, size)
    }

    /// `size` is height, width and batch size.
    fn finish(self, name: &str, logits: NodeId, [height, width, batch_size]: [usize; 3]) -> Case {
        let graph = self.builder.finish(logits);
        let graph = graph.unwrap_or_else(|error| panic!("`{name}` is built wrong: {error}"));
        Case::new(name, graph, [height, width, batch_size])
    }

    fn next(&mut self, kind: &'static str) -> String {
        self.used.push(kind);
        let number = self.used.iter().filter(|&&used| used == kind).count();
        format!("{kind}{number}")
    }
}
