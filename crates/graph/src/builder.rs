use crate::{
    Activation, Arrangement, Attention, AttentionBias, ChannelRun, Conv2d, Graph, GraphError, Node, NodeId, NormKind,
    NormLayer, Op, Pool,
};
use std::collections::HashSet;

/// Builds a [`Graph`] layer by layer. Mistakes are collected and reported by [`GraphBuilder::finish`].
///
/// ```
/// use flipcast_graph::{Activation, Conv2d, GraphBuilder, Plan, PlanOptions, Purpose};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut g, x) = GraphBuilder::new(3);
/// let x = g.conv("conv1", x, Conv2d::new(3, 8, 3).padding(1));
/// let x = g.batch_norm("bn1", x, 1e-5);
/// let x = g.activation("relu", x, Activation::Relu);
/// let x = g.global_avg_pool("avgpool", x);
/// let x = g.linear("fc", x, 8, 10);
/// let graph = g.finish(x)?;
/// assert_eq!(graph.params()[0].name, "conv1.weight");
/// assert_eq!(graph.affine_table().len(), 2 * 8);
///
/// let options = PlanOptions { batch: 4, height: 32, width: 32, purpose: Purpose::Adapt, taps: Vec::new() };
/// let plan = Plan::new(&graph, options)?;
/// // Norm and activation are recomputed where the pool reads them: three steps, not five.
/// assert_eq!(plan.forward().len(), 3);
/// // Adaptation stops at the norm: no gradient of the convolution's input or weights is planned.
/// assert_eq!(plan.backward().len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    channels: Vec<usize>,
    names: HashSet<String>,
    error: Option<GraphError>,
}

impl GraphBuilder {
    /// A graph whose images have `channels` channels, and its input node.
    pub fn new(channels: usize) -> (Self, NodeId) {
        let mut builder = Self { nodes: Vec::new(), channels: Vec::new(), names: HashSet::new(), error: None };
        let input = builder.push("input", Op::Input { channels }, &[], channels);
        (builder, input)
    }

    /// Adds a convolution.
    pub fn conv(&mut self, name: &str, x: NodeId, conv: Conv2d) -> NodeId {
        self.expect_channels(name, x, conv.in_channels);
        self.expect_setting(name, "stride", conv.stride, conv.stride > 0, || "at least 1".into());
        self.expect_setting(name, "dilation", conv.dilation, conv.dilation > 0, || "at least 1".into());
        for side in conv.kernel {
            self.expect_setting(name, "kernel", side, side > 0, || "at least 1".into());
        }
        let divides = conv.groups > 0
            && conv.in_channels.is_multiple_of(conv.groups)
            && conv.out_channels.is_multiple_of(conv.groups);
        self.expect_setting(name, "groups", conv.groups, divides, || {
            format!("a divisor of {} and {}", conv.in_channels, conv.out_channels)
        });
        let out = conv.out_channels;
        self.push(name, Op::Conv2d(conv), &[x], out)
    }

    /// Adds a batch norm.
    pub fn batch_norm(&mut self, name: &str, x: NodeId, eps: f32) -> NodeId {
        self.norm(name, x, NormKind::Batch, eps)
    }

    /// Adds a norm layer over the channels of `x`.
    pub fn norm(&mut self, name: &str, x: NodeId, kind: NormKind, eps: f32) -> NodeId {
        let channels = self.channels[x.0];
        if let NormKind::Group { groups } = kind {
            let divides = groups > 0 && channels.is_multiple_of(groups);
            self.expect_setting(name, "groups", groups, divides, || format!("a divisor of {channels}"));
        }
        self.push(name, Op::Norm(NormLayer { kind, channels, eps }), &[x], channels)
    }

    /// Adds an element-wise function.
    pub fn activation(&mut self, name: &str, x: NodeId, activation: Activation) -> NodeId {
        self.push(name, Op::Activation(activation), &[x], self.channels[x.0])
    }

    /// Adds a max pool.
    pub fn max_pool(&mut self, name: &str, x: NodeId, pool: Pool) -> NodeId {
        self.check_pool(name, pool);
        self.push(name, Op::MaxPool(pool), &[x], self.channels[x.0])
    }

    /// Adds an average pool.
    pub fn avg_pool(&mut self, name: &str, x: NodeId, pool: Pool) -> NodeId {
        self.check_pool(name, pool);
        self.expect_setting(name, "ceil", usize::from(pool.ceil), !pool.ceil, || "0 for an average".into());
        self.push(name, Op::AvgPool(pool), &[x], self.channels[x.0])
    }

    /// Adds the mean over all pixels.
    pub fn global_avg_pool(&mut self, name: &str, x: NodeId) -> NodeId {
        self.push(name, Op::GlobalAvgPool, &[x], self.channels[x.0])
    }

    /// Adds a sum.
    pub fn add(&mut self, name: &str, x: NodeId, y: NodeId) -> NodeId {
        self.expect_channels(name, y, self.channels[x.0]);
        self.push(name, Op::Add, &[x, y], self.channels[x.0])
    }

    /// Adds a product of `x` with `gate`, which may have a single pixel.
    pub fn mul(&mut self, name: &str, x: NodeId, gate: NodeId) -> NodeId {
        self.expect_channels(name, gate, self.channels[x.0]);
        self.push(name, Op::Mul, &[x, gate], self.channels[x.0])
    }

    /// Adds a fully connected layer with bias on every pixel; its inputs are checked when the image size is known.
    pub fn linear(&mut self, name: &str, x: NodeId, inputs: usize, outputs: usize) -> NodeId {
        self.push(name, Op::Linear { inputs, outputs }, &[x], outputs)
    }

    /// Adds a fully connected layer without bias on every pixel.
    pub fn linear_without_bias(&mut self, name: &str, x: NodeId, inputs: usize, outputs: usize) -> NodeId {
        self.push(name, Op::Projection { inputs, outputs }, &[x], outputs)
    }

    /// Adds self-attention over the queries, keys and values in the channels of `x`.
    pub fn attention(&mut self, name: &str, x: NodeId, attention: Attention) -> NodeId {
        let (channels, heads) = (self.channels[x.0], attention.heads);
        let divides = heads > 0 && channels.is_multiple_of(3 * heads);
        self.expect_setting(name, "heads", heads, divides, || format!("a divisor of a third of {channels} channels"));
        let size = attention.window();
        let tiles = size != Some(0) && (size.is_some() || attention.bias != AttentionBias::Relative);
        self.expect_setting(name, "window size", size.unwrap_or(0), tiles, || "at least 1".into());
        self.push(name, Op::Attention(attention), &[x], channels / 3)
    }

    /// Puts `count` learned tokens in front, called `name` in the weights: `[1, count, channels]`.
    pub fn prepend_tokens(&mut self, name: &str, x: NodeId, count: usize) -> NodeId {
        self.expect_setting(name, "count", count, count > 0, || "at least 1".into());
        self.arrange(name, &[x], Arrangement::PrependTokens { count })
    }

    /// Keeps the tokens `first..first + count`.
    pub fn token_range(&mut self, name: &str, x: NodeId, first: usize, count: usize) -> NodeId {
        self.expect_setting(name, "count", count, count > 0, || "at least 1".into());
        self.arrange(name, &[x], Arrangement::TokenRange { first, count })
    }

    /// Leaves the first `count` tokens out.
    pub fn drop_tokens(&mut self, name: &str, x: NodeId, count: usize) -> NodeId {
        self.arrange(name, &[x], Arrangement::DropTokens { count })
    }

    /// Puts rows of zeros above and below and columns left and right.
    pub fn pad(&mut self, name: &str, x: NodeId, rows: [usize; 2], columns: [usize; 2]) -> NodeId {
        self.arrange(name, &[x], Arrangement::Pad { rows, columns })
    }

    /// Pads with zeros below and right until rows and columns are multiples of `multiple`.
    pub fn pad_to_multiple(&mut self, name: &str, x: NodeId, multiple: usize) -> NodeId {
        self.expect_setting(name, "multiple", multiple, multiple > 0, || "at least 1".into());
        self.arrange(name, &[x], Arrangement::PadToMultiple { multiple })
    }

    /// Keeps the top left corner of `x` with the rows and columns of `like`.
    pub fn crop_like(&mut self, name: &str, x: NodeId, like: NodeId) -> NodeId {
        self.arrange(name, &[x, like], Arrangement::CropLike)
    }

    /// Makes two by two tokens the channels of one.
    pub fn merge_patches(&mut self, name: &str, x: NodeId) -> NodeId {
        self.arrange(name, &[x], Arrangement::MergePatches)
    }

    /// Joins channels of `inputs`, run after run; no channel of an input may come twice.
    pub fn pick_channels(&mut self, name: &str, inputs: &[NodeId], runs: Vec<ChannelRun>) -> NodeId {
        self.expect_setting(name, "runs", runs.len(), !runs.is_empty() && !inputs.is_empty(), || "at least 1".into());
        let mut taken: Vec<Vec<bool>> = inputs.iter().map(|input| vec![false; self.channels[input.0]]).collect();
        for run in &runs {
            let input = taken.get_mut(run.input);
            let channels = input.and_then(|input| input.get_mut(run.first..run.first.checked_add(run.count)?));
            let free =
                channels.as_ref().is_some_and(|channels| !channels.is_empty() && channels.iter().all(|taken| !taken));
            channels.unwrap_or_default().fill(true);
            self.expect_setting(name, "first channel of a run", run.first, free, || {
                "channels nothing else takes".into()
            });
        }
        let channels = runs.iter().fold(0usize, |channels, run| channels.saturating_add(run.count));
        self.push(name, Op::PickChannels(runs), inputs, channels)
    }

    /// Adds a learned value per token and channel, called `name` in the weights: `[1, tokens, channels]`.
    pub fn add_position(&mut self, name: &str, x: NodeId, tokens: usize) -> NodeId {
        self.push(name, Op::AddPosition { tokens }, &[x], self.channels[x.0])
    }

    /// Multiplies with a learned factor per channel, called `name` in the weights: `[channels, 1, 1]`.
    pub fn scale(&mut self, name: &str, x: NodeId) -> NodeId {
        self.push(name, Op::Scale, &[x], self.channels[x.0])
    }

    /// Adds a flatten in PyTorch's order.
    pub fn flatten(&mut self, name: &str, x: NodeId) -> NodeId {
        self.push(name, Op::Flatten, &[x], self.channels[x.0])
    }

    /// Exchanges the `pixels` pixels and the channels of `x`; the result has `rows` rows.
    pub fn transpose(&mut self, name: &str, x: NodeId, pixels: usize, rows: usize) -> NodeId {
        let channels = self.channels[x.0];
        self.expect_setting(name, "pixels", pixels, pixels > 0, || "at least 1".into());
        let divides = rows > 0 && channels.is_multiple_of(rows);
        self.expect_setting(name, "rows", rows, divides, || format!("a divisor of {channels}"));
        self.push(name, Op::Transpose { pixels, rows }, &[x], pixels)
    }

    /// Puts zeros between the pixels of `x`: each is the top left one of `factor` x `factor`.
    pub fn spread(&mut self, name: &str, x: NodeId, factor: usize) -> NodeId {
        self.expect_setting(name, "factor", factor, factor > 0, || "at least 1".into());
        self.arrange(name, &[x], Arrangement::Spread { factor })
    }

    /// Adds a shortcut of type A.
    pub fn shortcut_a(&mut self, name: &str, x: NodeId, stride: usize, channels: usize) -> NodeId {
        self.expect_setting(name, "stride", stride, stride > 0, || "at least 1".into());
        let from = self.channels[x.0];
        self.expect_setting(name, "channels", channels, channels >= from, || format!("at least {from}"));
        self.push(name, Op::ShortcutA { stride, channels }, &[x], channels)
    }

    /// Channels of a node's value so far.
    pub fn channels(&self, x: NodeId) -> usize {
        self.channels[x.0]
    }

    /// Closes the graph with `logits` as its output, or tells the first mistake made.
    pub fn finish(self, logits: NodeId) -> Result<Graph, GraphError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let node = &self.nodes[logits.0];
        if !matches!(node.op, Op::Linear { .. } | Op::Projection { .. }) {
            return Err(GraphError::OutputIsNotLogits { node: node.name.clone() });
        }
        Ok(Graph { nodes: self.nodes, channels: self.channels, output: logits })
    }

    fn arrange(&mut self, name: &str, inputs: &[NodeId], arrangement: Arrangement) -> NodeId {
        let merged = match arrangement {
            Arrangement::MergePatches => 4,
            _ => 1,
        };
        let channels = merged * self.channels[inputs[0].0];
        self.push(name, Op::Arrange(arrangement), inputs, channels)
    }

    fn push(&mut self, name: &str, op: Op, inputs: &[NodeId], channels: usize) -> NodeId {
        if !self.names.insert(name.to_owned()) {
            self.fail(GraphError::DuplicateName { name: name.to_owned() });
        }
        self.nodes.push(Node { name: name.to_owned(), op, inputs: inputs.to_vec() });
        self.channels.push(channels);
        NodeId(self.nodes.len() - 1)
    }

    fn fail(&mut self, error: GraphError) {
        self.error.get_or_insert(error);
    }

    fn check_pool(&mut self, name: &str, pool: Pool) {
        self.expect_setting(name, "kernel", pool.kernel, pool.kernel > 0, || "at least 1".into());
        self.expect_setting(name, "stride", pool.stride, pool.stride > 0, || "at least 1".into());
        let fits = 2 * pool.padding <= pool.kernel;
        self.expect_setting(name, "padding", pool.padding, fits, || "at most half the kernel".into());
    }

    fn expect_setting(
        &mut self,
        node: &str,
        setting: &'static str,
        value: usize,
        ok: bool,
        expected: impl FnOnce() -> String,
    ) {
        if !ok {
            self.fail(GraphError::BadSetting { node: node.to_owned(), setting, value, expected: expected() });
        }
    }

    fn expect_channels(&mut self, name: &str, input: NodeId, expected: usize) {
        let found = self.channels[input.0];
        if found != expected {
            let input = self.nodes[input.0].name.clone();
            self.fail(GraphError::ChannelMismatch { node: name.to_owned(), input, expected, found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_mismatch_names_both_nodes() {
        let (mut g, x) = GraphBuilder::new(3);
        let y = g.conv("conv1", x, Conv2d::new(4, 8, 3));
        let z = g.linear("fc", y, 8, 10);
        let error = g.finish(z).unwrap_err();
        assert_eq!(error.to_string(), "`conv1` takes 4 channels, but its input `input` has 3");
    }

    #[test]
    fn a_repeated_name_is_refused() {
        let (mut g, x) = GraphBuilder::new(3);
        let x = g.activation("relu", x, Activation::Relu);
        let x = g.activation("relu", x, Activation::Relu);
        let x = g.linear("fc", x, 3, 2);
        assert_eq!(g.finish(x), Err(GraphError::DuplicateName { name: "relu".into() }));
    }

    #[test]
    fn a_channel_is_picked_once_and_must_be_there() {
        for (first, count) in [(1, 2), (2, 2), (0, 0), (3, usize::MAX)] {
            let (mut g, x) = GraphBuilder::new(3);
            let runs = vec![ChannelRun { input: 0, first: 0, count: 2 }, ChannelRun { input: 0, first, count }];
            let y = g.pick_channels("pick", &[x], runs);
            let y = g.linear("fc", y, 3, 2);
            assert!(matches!(g.finish(y), Err(GraphError::BadSetting { .. })), "{first} {count}");
        }
    }

    #[test]
    fn the_head_must_give_logits() {
        let (mut g, x) = GraphBuilder::new(3);
        let x = g.activation("relu", x, Activation::Relu);
        assert_eq!(g.finish(x), Err(GraphError::OutputIsNotLogits { node: "relu".into() }));
    }
}
