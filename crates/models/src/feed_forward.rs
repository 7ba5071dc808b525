use flipcast_graph::{Activation, GraphBuilder, NodeId, NormKind};

/// The second half of a transformer block: layer norm, two linear layers with an activation between, and the residual.
#[derive(Clone, Copy)]
pub(crate) struct FeedForward<'a> {
    /// Name of the norm.
    pub(crate) norm: &'a str,
    /// Names of the two linear layers.
    pub(crate) linear: [&'a str; 2],
    /// Channels between them.
    pub(crate) inner: usize,
    /// What lies between them.
    pub(crate) activation: Activation,
    /// The norm's constant.
    pub(crate) eps: f32,
    /// Name of a learned factor per channel before the residual, where there is one.
    pub(crate) scale: Option<&'a str>,
}

impl FeedForward<'_> {
    /// Adds the layers behind `x`, all below the module `block`.
    pub(crate) fn build(self, g: &mut GraphBuilder, block: &str, x: NodeId) -> NodeId {
        let name = |layer: &str| format!("{block}.{layer}");
        let channels = g.channels(x);
        let [expand, contract] = self.linear;
        let mut y = g.norm(&name(self.norm), x, NormKind::Layer, self.eps);
        y = g.linear(&name(expand), y, channels, self.inner);
        y = g.activation(&name(&format!("{expand}.act")), y, self.activation);
        y = g.linear(&name(contract), y, self.inner, channels);
        if let Some(scale) = self.scale {
            y = g.scale(&name(scale), y);
        }
        g.add(&name(&format!("{contract}.add")), x, y)
    }
}
