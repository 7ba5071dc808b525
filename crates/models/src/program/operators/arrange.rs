//! Brings views into the arrangement that a layer needs.

use crate::program::CallError;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Dim, Piece, View, channel_axis, whole};
use flipcast_graph::{ChannelRun, Dims, NodeId};

impl Lowering<'_> {
    pub(super) fn layout(&self, view: &View, expected: &str) -> CallError {
        let padded = if view.padding == [0; 4] { "" } else { " with zeros around" };
        let turned = if view.turn == [0; 2] { "" } else { " of a turned map" };
        CallError::Layout { found: format!("{view}{turned}{padded}"), expected: expected.to_owned() }
    }

    /// `view` with the factor that waits for it applied.
    pub(super) fn settle(&mut self, call: &Call, view: View) -> Result<View, CallError> {
        if view.factor == 1.0 {
            return Ok(view);
        }
        let (factor, padding) = (view.factor, view.padding);
        let view = self.in_order(call, &View { factor: 1.0, padding: [0; 4], ..view })?;
        let dims = self.dims(view.node);
        let factors = Constant::of(vec![dims.channels], vec![factor; dims.channels], false)?;
        let name = self.name(call, Some(&format!("{}.factor", call.name)));
        self.keep(name.clone(), &[dims.channels, 1, 1], &factors)?;
        let node = self.builder.scale(&name, view.node);
        let node = self.note(node, dims)?;
        Ok(View { padding, ..view.of(node) })
    }

    /// The node whose value is the map `view`.
    pub(super) fn map_node(&mut self, call: &Call, view: &View) -> Result<NodeId, CallError> {
        let view = &self.settle(call, view.clone())?;
        if !view.is_map(self.batch, self.dims(view.node)) || view.turn != [0; 2] {
            return Err(self.layout(view, "batch, channels, rows, columns"));
        }
        let node = self.in_order(call, view)?.node;
        if view.padding == [0; 4] {
            return Ok(node);
        }
        let [above, below, left, right] = view.padding;
        let dims = self.dims(node);
        let name = self.name(call, Some(&format!("{}.pad", call.name)));
        let padded = self.builder.pad(&name, node, [above, below], [left, right]);
        self.note(padded, Dims::new(dims.height + above + below, dims.width + left + right, dims.channels))
    }

    /// `view` of a node that holds nothing else.
    pub(super) fn whole_view(&mut self, call: &Call, view: View) -> Result<View, CallError> {
        if view.padding != [0; 4] {
            return Err(self.layout(&view, "some without zeros around"));
        }
        let view = self.settle(call, view)?;
        let view = self.cut_corner(call, view)?;
        if view.is_whole(self.batch, self.dims(view.node)) {
            return Ok(view);
        }
        self.in_order(call, &view)
    }

    /// `view` of a node without the rows and columns behind those that the view has.
    fn cut_corner(&mut self, call: &Call, view: View) -> Result<View, CallError> {
        let dims = self.dims(view.node);
        let along = |dim: Dim| {
            let mut pieces = view.axes.iter().flatten().filter(|piece| piece.dim == dim);
            match (pieces.next(), pieces.next()) {
                (Some(Piece { size, stride: 1, .. }), None) => Some(*size),
                _ => None,
            }
        };
        let (Some(rows), Some(columns)) = (along(Dim::Row), along(Dim::Column)) else {
            return Ok(view);
        };
        if (rows, columns) == (dims.height, dims.width) || view.first_pixel != [0; 2] || view.turn != [0; 2] {
            return Ok(view);
        }
        let like = self.node_of_size(rows, columns);
        let like = like.ok_or_else(|| self.layout(&view, "rows and columns that another layer has as well"))?;
        let name = self.name(call, Some(&format!("{}.crop", call.name)));
        let node = self.builder.crop_like(&name, view.node, like);
        let node = self.note(node, Dims::new(rows, columns, dims.channels))?;
        Ok(view.of(node))
    }

    /// `view` with pixels and channels exchanged in memory, if that arranges it as `like`: batch, tokens, channels.
    pub(super) fn transposed_as(&mut self, call: &Call, view: View, like: &View) -> Result<View, CallError> {
        let (dims, wanted) = (self.dims(view.node), self.dims(like.node));
        let exchanged = view.axes.len() == 3
            && like.axes.len() == 3
            && like.is_pixels(1, wanted)
            && like.is_channels(2, wanted)
            && view.is_channels(1, dims)
            && view.is_pixels(2, dims)
            && [like.turn, view.turn] == [[0; 2]; 2]
            && (dims.channels, dims.pixels()) == (wanted.pixels(), wanted.channels);
        if !exchanged || view.axes == like.axes {
            return Ok(view);
        }
        let node = self.transpose(call, view.node, wanted.height)?;
        Ok(like.of(node))
    }

    /// A node with pixels and channels of `node` exchanged, and its pixels in `rows` rows.
    fn transpose(&mut self, call: &Call, node: NodeId, rows: usize) -> Result<NodeId, CallError> {
        let dims = self.dims(node);
        self.bind_to_size(call);
        let name = self.name(call, Some(&format!("{}.transpose", call.name)));
        let node = self.builder.transpose(&name, node, dims.pixels(), rows);
        self.note(node, Dims::new(rows, dims.channels / rows, dims.pixels()))
    }

    /// `view` of a node whose channels are those on `axis`.
    pub(super) fn channels_on(&mut self, call: &Call, view: View, axis: usize) -> Result<View, CallError> {
        let view = match view.merged_patches(self.batch, self.dims(view.node)) {
            true => self.merge_patches(call, view)?,
            false => view,
        };
        if axis >= view.axes.len() || !view.has_channels_on(axis) || view.padding != [0; 4] {
            return Err(self.layout(&view, &format!("all channels on axis {axis}")));
        }
        let view = self.settle(call, view)?;
        self.in_order(call, &view)
    }

    /// As [`Self::channels_on`] the last axis. A map whose channels, rows and columns are on it is flattened.
    pub(super) fn channels_last(&mut self, call: &Call, view: View) -> Result<View, CallError> {
        let view = self.settle(call, view)?;
        let dims = self.dims(view.node);
        let map = View::map(view.node, self.batch, dims);
        let flat = vec![map.axes[0].clone(), map.axes[1..].concat()];
        if view.axes == flat && view.padding == [0; 4] && view.turn == [0; 2] && dims.pixels() > 1 {
            let name = self.name(call, Some(&format!("{}.flatten", call.name)));
            let node = self.builder.flatten(&name, view.node);
            let node = self.note(node, Dims::new(1, 1, dims.len()))?;
            return Ok(View { axes: vec![view.axes[0].clone(), channel_axis(dims.len())], ..view.of(node) });
        }
        // Tokens on the last axis, and channels on the one before: a layer across tokens.
        if view.axes.len() == 3
            && dims.pixels() > 1
            && view.is_channels(1, dims)
            && view.is_pixels(2, dims)
            && view.turn == [0; 2]
            && view.padding == [0; 4]
        {
            let node = self.transpose(call, view.node, dims.channels)?;
            let axes = vec![view.axes[0].clone(), whole(Dim::Row, dims.channels), channel_axis(dims.pixels())];
            return Ok(View { axes, ..view.of(node) });
        }
        let last = view.axes.len().saturating_sub(1);
        self.channels_on(call, view, last)
    }

    /// The pixels of 2 x 2 patches, each of which is one of `views`, as the channels of one pixel; `None` where they are not.
    fn joined_patches(&mut self, call: &Call, views: &[View], axis: usize) -> Result<Option<View>, CallError> {
        let [first, ..] = views else {
            return Ok(None);
        };
        let dims = self.dims(first.node);
        let tokens = View::map(first.node, self.batch, dims).permute(&[0, 2, 3, 1]).expect("a map has four axes");
        let patch = |first_pixel: [usize; 2]| {
            let rows = tokens.every(1, dims, first_pixel[0], 2)?;
            rows.every(2, dims, first_pixel[1], 2)
        };
        let wanted: Option<Vec<View>> = [[0, 0], [1, 0], [0, 1], [1, 1]].into_iter().map(patch).collect();
        match wanted {
            Some(wanted) if axis == 3 && wanted == views => self.merge_patches(call, tokens).map(Some),
            _ => Ok(None),
        }
    }

    /// Patches of 2 x 2 pixels as the channels of one, on the last axis.
    fn merge_patches(&mut self, call: &Call, view: View) -> Result<View, CallError> {
        let view = self.settle(call, view)?;
        let dims = self.dims(view.node);
        let name = self.name(call, Some(&format!("{}.merge", call.name)));
        let node = self.builder.merge_patches(&name, view.node);
        let merged = Dims::new(dims.height / 2, dims.width / 2, 4 * dims.channels);
        let node = self.note(node, merged)?;
        let map = View::map(node, self.batch, merged);
        Ok(map.permute(&[0, 2, 3, 1]).expect("a map has four axes"))
    }

    /// `view` with its channels picked out and put in order.
    fn in_order(&mut self, call: &Call, view: &View) -> Result<View, CallError> {
        let dims = self.dims(view.node);
        let order = view.channel_order();
        if order.iter().copied().eq(0..dims.channels) {
            return Ok(view.clone());
        }
        let pixels = order.len().checked_mul(self.batch * dims.pixels());
        if pixels != Some(view.shape().iter().product()) {
            return Err(self.layout(view, "all pixels"));
        }
        let node = self.pick_channels(call, &[(view.node, order)])?;
        Ok(view.with_channels_in_order(node))
    }

    /// Maps whose channels on `axis` follow each other.
    pub(super) fn join_channels(&mut self, call: &Call, views: &[View], axis: usize) -> Result<Vec<Value>, CallError> {
        if let Some(merged) = self.joined_patches(call, views, axis)? {
            return Ok(vec![Value::View(merged)]);
        }
        let first = &views[0];
        if let Some(part) = views.iter().find(|view| !view.is_whole(self.batch, self.dims(view.node))) {
            return Err(self.layout(part, "all pixels"));
        }
        let mut parts = Vec::new();
        for view in views {
            let (dims, wanted) = (self.dims(view.node), self.dims(first.node));
            let others = |view: &View| {
                let kept = view.axes.iter().enumerate().filter(|(other, _)| *other != axis);
                kept.map(|(_, pieces)| pieces.clone()).collect::<Vec<_>>()
            };
            let alike = view.has_channels_on(axis)
                && view.turn == first.turn
                && others(view) == others(first)
                && (dims.height, dims.width) == (wanted.height, wanted.width);
            if !alike {
                return Err(self.layout(view, &format!("those of the first tensor, {first}, but for channels")));
            }
            parts.push((view.node, view.channel_order()));
        }
        let node = self.pick_channels(call, &parts)?;
        let mut joined = View { node, first_channel: 0, ..first.clone() };
        joined.axes[axis] = channel_axis(self.dims(node).channels);
        Ok(vec![Value::View(joined)])
    }

    /// A node with these channels of these nodes.
    pub(super) fn pick_channels(&mut self, call: &Call, parts: &[(NodeId, Vec<usize>)]) -> Result<NodeId, CallError> {
        let nodes: Vec<NodeId> = parts.iter().map(|(node, _)| *node).collect();
        let first = self.dims(nodes[0]);
        let mut runs: Vec<ChannelRun> = Vec::new();
        for (input, (_, channels)) in parts.iter().enumerate() {
            for &channel in channels {
                match runs.last_mut() {
                    Some(run) if run.input == input && run.first + run.count == channel => run.count += 1,
                    _ => runs.push(ChannelRun { input, first: channel, count: 1 }),
                }
            }
        }
        let channels = runs.iter().map(|run| run.count).sum();
        let name = self.name(call, None);
        let node = self.builder.pick_channels(&name, &nodes, runs);
        self.note(node, Dims { channels, ..first })
    }
}
