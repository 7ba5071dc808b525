use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Dim, Piece, View};
use flipcast_graph::{Attention, Dims, NodeId, Tokens};

/// `scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)` of all tokens of
/// an image, or of those of a window or a grid.
pub(super) fn attention(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if call.argument("attn_mask").is_some() {
        return Err(refuse("attn_mask", "given", "nothing"));
    }
    if call.bool("is_causal", false)? || call.bool("enable_gqa", false)? {
        return Err(refuse("is_causal", "`true`", "`false`"));
    }
    if call.float("dropout_p", Some(0.0))? != 0.0 {
        return Err(CallError::Training);
    }
    let views = [lowering.view(call, 0)?, lowering.view(call, 1)?, lowering.view(call, 2)?];
    let [.., per_head] = views[0].shape()[..] else {
        return Err(lowering.layout(&views[0], "batch, heads, tokens, channels of a head"));
    };
    let scale = call.float("scale", Some(1.0 / (per_head as f64).sqrt()))?;
    lowering.attention_layer(call, views, scale as f32)
}

impl Lowering<'_> {
    /// `softmax(scale * query key') value`.
    pub(super) fn attention_layer(
        &mut self,
        call: &Call,
        [query, key, value]: [View; 3],
        scale: f32,
    ) -> Result<Vec<Value>, CallError> {
        let [_, heads, _, per_head] = query.shape()[..] else {
            return Err(self.layout(&query, "batch, heads, tokens, channels of a head"));
        };
        let scale = scale * query.factor * key.factor;
        let value = self.settle(call, value)?;
        let first = View { factor: 1.0, ..query.clone() };
        let (node, tokens) = self.queries_keys_values(call, [query, key, value], [heads, per_head])?;
        let dims = self.dims(node);
        let name = self.name(call, None);
        let attention = Attention::new(heads, scale).tokens(tokens);
        let node = self.builder.attention(&name, node, attention);
        let node = self.note(node, Dims { channels: dims.channels / 3, ..dims })?;
        Ok(vec![Value::View(View { node, first_channel: 0, ..first })])
    }

    /// A node whose channels are queries, keys and values, and which of its tokens see each other.
    fn queries_keys_values(
        &mut self,
        call: &Call,
        views: [View; 3],
        [heads, per_head]: [usize; 2],
    ) -> Result<(NodeId, Tokens), CallError> {
        let width = heads * per_head;
        let piece = |size: usize, stride: usize| match size {
            1 => Vec::new(),
            _ => vec![Piece { dim: Dim::Channel, size, stride }],
        };
        let expected = "batch, heads, tokens, channels of a head, with all tokens or those of windows or grids";
        let tokens = views[0].token_groups(self.batch, self.dims(views[0].node));
        for view in &views {
            let arranged = view.axes.len() == 4
                && view.padding == [0; 4]
                && view.axes[1] == piece(heads, per_head)
                && view.axes[3] == piece(per_head, 1)
                && [0, 2].iter().all(|&axis| view.axes[axis] == views[0].axes[axis]);
            if !arranged || tokens.is_none() {
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
        if same_node && in_turn {
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
