use crate::{AffineTable, Arrangement, Dims, GraphError, NormKind, NormLayer, Op, PlanError, norm_groups};

/// A node's position in its graph; inputs always come before the nodes that use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// The position as a number.
    pub fn index(self) -> usize {
        self.0
    }
}

/// One layer and where its inputs come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique name, the module path in PyTorch terms: `layer1.0.conv2`.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Its inputs, in order.
    pub inputs: Vec<NodeId>,
}

/// A parameter a weight file must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSpec {
    /// Its name: node name and `weight`, `bias` and the like, or the node's name alone.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
}

/// A static network: nodes in an order in which they can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// Channels of every node's value, as far as they do not depend on the image size.
    pub(crate) channels: Vec<usize>,
    pub(crate) output: NodeId,
}

impl Graph {
    /// All nodes, inputs first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The node whose value is the logits.
    pub fn output(&self) -> NodeId {
        self.output
    }

    /// The input of the classifier head: the embedding of an image.
    pub fn embedding(&self) -> NodeId {
        self.nodes[self.output.0].inputs.first().copied().unwrap_or(self.output)
    }

    /// The node called `name`; `embedding` and `logits` are understood too.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        let by_name = self.nodes.iter().position(|node| node.name == name).map(NodeId);
        by_name.or(match name {
            "embedding" => Some(self.embedding()),
            "logits" => Some(self.output),
            _ => None,
        })
    }

    /// Every parameter the network needs, in node order.
    pub fn params(&self) -> Vec<ParamSpec> {
        (0..self.nodes.len()).flat_map(|index| self.node_params(NodeId(index))).collect()
    }

    /// The parameters of one node.
    pub fn node_params(&self, id: NodeId) -> Vec<ParamSpec> {
        let (node, channels) = (&self.nodes[id.0], self.channels[id.0]);
        let mut params = Vec::new();
        let mut push = |suffix: &str, shape: Vec<usize>| {
            let name = match suffix {
                "" => node.name.clone(),
                _ => format!("{}.{suffix}", node.name),
            };
            params.push(ParamSpec { name, shape });
        };
        match &node.op {
            Op::Conv2d(conv) => {
                let [rows, columns] = conv.kernel;
                let inputs = conv.in_channels / conv.groups;
                push("weight", vec![conv.out_channels, inputs, rows, columns]);
                if conv.bias {
                    push("bias", vec![conv.out_channels]);
                }
            }
            Op::Linear { inputs, outputs } => {
                push("weight", vec![*outputs, *inputs]);
                push("bias", vec![*outputs]);
            }
            Op::Projection { inputs, outputs } => push("weight", vec![*outputs, *inputs]),
            Op::Attention(attention) => {
                if let Some((suffix, extents)) = attention.weights() {
                    push(suffix, extents);
                }
            }
            Op::Arrange(Arrangement::PrependTokens { count }) => {
                push("", vec![1, *count, channels]);
            }
            Op::AddPosition { tokens } => push("", vec![1, *tokens, channels]),
            Op::Scale => push("", vec![channels, 1, 1]),
            Op::Norm(norm) => {
                push("weight", vec![norm.channels]);
                push("bias", vec![norm.channels]);
                if norm.kind == NormKind::Batch {
                    push("running_mean", vec![norm.channels]);
                    push("running_var", vec![norm.channels]);
                }
            }
            _ => {}
        }
        params
    }

    /// The same graph with other addends to variances: those that `eps` gives by the name of the norm.
    pub fn with_eps(mut self, eps: impl Fn(&str) -> Option<f32>) -> Self {
        for node in &mut self.nodes {
            if let (Op::Norm(norm), Some(eps)) = (&mut node.op, eps(&node.name)) {
                norm.eps = eps;
            }
        }
        self
    }

    /// The normalisation layers in node order.
    pub fn norms(&self) -> impl Iterator<Item = (NodeId, &NormLayer)> {
        self.nodes.iter().enumerate().filter_map(|(i, node)| match &node.op {
            Op::Norm(norm) => Some((NodeId(i), norm)),
            _ => None,
        })
    }

    /// Whether any norm has running statistics. Without one, norm modes make no difference and an image's logits do not depend
    /// on the rest of its batch.
    pub fn has_batch_norm(&self) -> bool {
        self.norms().any(|(_, norm)| norm.kind == NormKind::Batch)
    }

    /// The same network with a batch norm behind each of `layers`, called as is said with it.
    ///
    /// ```
    /// use flipcast_graph::{Conv2d, GraphBuilder};
    ///
    /// let (mut g, x) = GraphBuilder::new(3);
    /// let x = g.conv("conv1", x, Conv2d::new(3, 8, 3).with_bias());
    /// let x = g.global_avg_pool("avgpool", x);
    /// let x = g.linear("fc", x, 8, 10);
    /// let graph = g.finish(x)?;
    /// let conv = graph.find("conv1").unwrap();
    /// let normed = graph.insert_batch_norms(&[(conv, "conv1.norm".into())], 1e-5)?;
    /// assert_eq!(normed.affine_table().len(), 2 * 8);
    /// # Ok::<(), flipcast_graph::GraphError>(())
    /// ```
    pub fn insert_batch_norms(&self, layers: &[(NodeId, String)], eps: f32) -> Result<Self, GraphError> {
        let mut graph = Self { nodes: Vec::new(), channels: Vec::new(), output: self.output };
        // Where the value of every node is read from now.
        let mut moved: Vec<NodeId> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let channels = self.channels[index];
            let inputs = node.inputs.iter().map(|input| moved[input.0]).collect();
            graph.nodes.push(Node { inputs, ..node.clone() });
            graph.channels.push(channels);
            let mut place = NodeId(graph.nodes.len() - 1);
            if index == self.output.0 {
                graph.output = place;
            }
            for (_, name) in layers.iter().filter(|(layer, _)| layer.0 == index && index != self.output.0) {
                if self.nodes.iter().chain(&graph.nodes).any(|node| node.name == *name) {
                    return Err(GraphError::DuplicateName { name: name.clone() });
                }
                let op = Op::Norm(NormLayer { kind: NormKind::Batch, channels, eps });
                graph.nodes.push(Node { name: name.clone(), op, inputs: vec![place] });
                graph.channels.push(channels);
                place = NodeId(graph.nodes.len() - 1);
            }
            moved.push(place);
        }
        Ok(graph)
    }

    /// Names and places of all scales and shifts in the flat vector that adapts.
    pub fn affine_table(&self) -> AffineTable {
        let mut table = AffineTable::default();
        for ((id, norm), group) in self.norms().zip(norm_groups(self)) {
            table.push(&self.node(id).name, norm.channels, norm.kind, group);
        }
        table
    }

    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        match &self.node(self.output).op {
            Op::Linear { outputs, .. } | Op::Projection { outputs, .. } => *outputs,
            _ => 0,
        }
    }

    /// Channels an input pixel has.
    pub fn input_channels(&self) -> usize {
        match self.nodes.first().map(|node| &node.op) {
            Some(Op::Input { channels }) => *channels,
            _ => 0,
        }
    }

    /// Extents of every node's value for images of `height` x `width`.
    pub fn infer_dims(&self, height: usize, width: usize) -> Result<Vec<Dims>, PlanError> {
        let input = Dims::new(height, width, self.input_channels());
        let mut dims: Vec<Dims> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let operand = |i: usize| dims[node.inputs[i].0];
            let too_small = || PlanError::TooSmall { input, node: node.name.clone(), found: operand(0) };
            let mismatch = || PlanError::ShapeMismatch { node: node.name.clone(), left: operand(0), right: operand(1) };
            let out = match &node.op {
                Op::Input { .. } if input.is_empty() => {
                    return Err(PlanError::TooSmall { input, node: node.name.clone(), found: input });
                }
                Op::Input { .. } => input,
                Op::Conv2d(conv) => conv.resolve(operand(0)).ok_or_else(too_small)?.1,
                Op::Norm(_) | Op::Activation(_) => operand(0),
                Op::MaxPool(pool) | Op::AvgPool(pool) => pool.resolve(operand(0)).ok_or_else(too_small)?,
                Op::GlobalAvgPool => Dims::new(1, 1, operand(0).channels),
                Op::Add if operand(0) == operand(1) => operand(0),
                Op::Mul if operand(0) == operand(1) || operand(1) == Dims::new(1, 1, operand(0).channels) => operand(0),
                Op::Add | Op::Mul => return Err(mismatch()),
                Op::Linear { inputs, outputs } | Op::Projection { inputs, outputs } => {
                    // Only the logits must be one pixel's.
                    let flat = dims.len() != self.output.0 || operand(0).pixels() == 1;
                    if operand(0).channels != *inputs || !flat {
                        return Err(PlanError::NotFlat {
                            node: node.name.clone(),
                            expected: *inputs,
                            found: operand(0),
                        });
                    }
                    Dims::new(operand(0).height, operand(0).width, *outputs)
                }
                Op::Attention(attention) => {
                    if attention.groups(operand(0)).is_none() {
                        return Err(PlanError::Windows {
                            node: node.name.clone(),
                            size: attention.window().unwrap_or(0),
                            found: operand(0),
                        });
                    }
                    Dims::new(operand(0).height, operand(0).width, operand(0).channels / 3)
                }
                Op::Arrange(arrangement) => {
                    let like = node.inputs.get(1).map(|like| dims[like.0]);
                    arrangement.resolve(operand(0), like).ok_or_else(too_small)?
                }
                Op::PickChannels(runs) => {
                    let first = operand(0);
                    let same = |i: usize| (operand(i).height, operand(i).width) == (first.height, first.width);
                    if let Some(other) = (1..node.inputs.len()).find(|&i| !same(i)) {
                        let (left, right) = (first, operand(other));
                        return Err(PlanError::ShapeMismatch { node: node.name.clone(), left, right });
                    }
                    Dims::new(first.height, first.width, runs.iter().map(|run| run.count).sum())
                }
                Op::AddPosition { tokens } | Op::Transpose { pixels: tokens, .. } if operand(0).pixels() != *tokens => {
                    return Err(PlanError::Tokens { node: node.name.clone(), expected: *tokens, found: operand(0) });
                }
                Op::AddPosition { .. } | Op::Scale => operand(0),
                Op::Flatten => Dims::new(1, 1, operand(0).len()),
                Op::Transpose { pixels, rows } => Dims::new(*rows, operand(0).channels / rows, *pixels),
                Op::ShortcutA { stride, channels } => {
                    Dims::new(operand(0).height.div_ceil(*stride), operand(0).width.div_ceil(*stride), *channels)
                }
            };
            dims.push(out);
        }
        Ok(dims)
    }
}
