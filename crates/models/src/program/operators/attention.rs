use super::matmul::Scores;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Dim, Piece, View, extent};
use flipcast_graph::{Attention, Dims, NodeId, Tokens};

/// `scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)` of all tokens of
/// an image, or of those of a window or a grid; the mask may be a bias for every head, query and key.
pub(super) fn attention(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if call.bool("is_causal", false)? || call.bool("enable_gqa", false)? {
        return Err(refuse("is_causal", "`true`", "`false`"));
    }
    if call.float("dropout_p", Some(0.0))? != 0.0 {
        return Err(CallError::Training);
    }
    let views = [lowering.view(call, 0)?, lowering.view(call, 1)?, lowering.view(call, 2)?];
    let mask = lowering.constant(call, "attn_mask")?;
    let [.., per_head] = views[0].shape()[..] else {
        return Err(lowering.layout(&views[0], "batch, heads, tokens, channels of a head"));
    };
    let scale = call.float("scale", Some(1.0 / (per_head as f64).sqrt()))?;
    lowering.attention_of(call, views, scale as f32, mask)
}

fn channels(size: usize, stride: usize) -> Vec<Piece> {
    match size {
        1 => Vec::new(),
        _ => vec![Piece { dim: Dim::Channel, size, stride }],
    }
}

impl Lowering<'_> {
    /// `softmax(scale * query key' + bias + mask) value`.
    pub(super) fn attention_layer(
        &mut self,
        call: &Call,
        scores: Scores,
        value: View,
    ) -> Result<Vec<Value>, CallError> {
        let expected = "groups, heads, tokens, channels of a head, with all tokens or those of windows or grids";
        let Scores { query, key, scale, bias, mask, .. } = scores;
        let scale = scale * query.factor * key.factor;
        let value = self.settle(call, value)?;
        let views = [&query, &key, &value].map(|view| view.by_heads().filter(|view| view.padding == [0; 4]));
        let [Some(by_heads), Some(keys), Some(values)] = views else {
            return Err(self.layout(&query, expected));
        };
        let (heads, per_head) = (extent(&by_heads.axes[1]), extent(&by_heads.axes[3]));
        let (node, tokens) = self.queries_keys_values(call, [by_heads, keys, values], [heads, per_head], expected)?;
        let dims = self.dims(node);
        let mut attention = Attention::new(heads, scale).tokens(tokens);
        self.check_mask(&attention, dims, mask.as_ref())?;
        let name = self.name(call, None);
        if let Some(bias) = bias {
            let &[_, tokens, _] = bias.extents() else {
                return Err(refuse("bias", format!("of extents {:?}", bias.extents()), "heads and tokens"));
            };
            attention = attention.with_dense_bias(tokens);
            if attention.groups(dims).is_none() {
                let problem = format!("a bias of {tokens} tokens for groups of another number on {dims}");
                return Err(CallError::Extents { problem });
            }
            self.keep(format!("{name}.bias"), &[heads, tokens, tokens], &bias)?;
        }
        let node = self.builder.attention(&name, node, attention);
        let node = self.note(node, Dims { channels: dims.channels / 3, ..dims })?;
        let mut axes = query.axes.clone();
        let rank = axes.len();
        axes[rank - 3] = channels(heads, per_head);
        axes[rank - 1] = channels(per_head, 1);
        Ok(vec![Value::View(View { node, axes, first_channel: 0, factor: 1.0, ..query })])
    }

    /// Whether `mask` keeps those tokens apart that the engine keeps apart, and none else: in the windows of a turned map those that
    /// were not adjacent.
    fn check_mask(&self, attention: &Attention, dims: Dims, mask: Option<&Constant>) -> Result<(), CallError> {
        let groups =
            attention.groups(dims).ok_or_else(|| CallError::Extents { problem: format!("windows on {dims}") })?;
        let size = groups.size;
        let count = groups.tokens.len() / size.max(1);
        let apart = |group: usize, query: usize, key: usize| {
            let regions = groups.regions.as_ref();
            regions.is_some_and(|regions| regions[group * size + query] != regions[group * size + key])
        };
        let fits = match mask {
            None => groups.regions.is_none(),
            Some(mask) => {
                let expected = (0..count * size * size).map(|at| {
                    let (group, query, key) = (at / (size * size), at / size % size, at % size);
                    if apart(group, query, key) { Attention::MASK } else { 0.0 }
                });
                mask.tensor.values().iter().copied().eq(expected)
            }
        };
        match fits {
            true => Ok(()),
            false => Err(refuse("mask", "another", "that of windows of a map that was turned")),
        }
    }

    /// A node whose channels are queries, keys and values, and which of its tokens see each other.
    fn queries_keys_values(
        &mut self,
        call: &Call,
        views: [View; 3],
        [heads, per_head]: [usize; 2],
        expected: &str,
    ) -> Result<(NodeId, Tokens), CallError> {
        let width = heads * per_head;
        let tokens = views[0].token_groups(self.batch, self.dims(views[0].node));
        let of_channels = |axis: &[Piece]| axis.iter().all(|piece| piece.dim == Dim::Channel);
        for view in &views {
            let arranged = of_channels(&view.axes[1])
                && of_channels(&view.axes[3])
                && [extent(&view.axes[1]), extent(&view.axes[3])] == [heads, per_head]
                && view.turn == views[0].turn
                && [0, 2].iter().all(|&axis| view.axes[axis] == views[0].axes[axis]);
            if !arranged {
                return Err(self.layout(view, expected));
            }
        }
        let Some(tokens) = tokens else {
            return Err(self.layout(&views[0], expected));
        };
        let [query, key, value] = &views;
        let dims = self.dims(query.node);
        let same_node = query.node == key.node && key.node == value.node && dims.channels == 3 * width;
        let in_turn = [query, key, value].map(|view| view.first_channel) == [0, width, 2 * width];
        let in_order =
            views.iter().all(|view| view.axes[1] == channels(heads, per_head) && view.axes[3] == channels(per_head, 1));
        if same_node && in_turn && in_order {
            return Ok((query.node, tokens));
        }
        let parts = [query, key, value].map(|view| (view.node, view.channel_order()));
        let same = [key, value].iter().all(|view| {
            let other = self.dims(view.node);
            (other.height, other.width) == (dims.height, dims.width)
        });
        if !same {
            return Err(self.layout(key, expected));
        }
        let node = self.pick_channels(call, &parts)?;
        Ok((node, tokens))
    }
}
