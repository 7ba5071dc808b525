//! Groups of layers that several families have.

use flipcast_graph::{Activation, Conv2d, GraphBuilder, NodeId, NormKind};

/// A convolution, a batch norm and an activation, called `<name>.0`, `.1` and `.2`.
pub(crate) fn conv_norm_activation(
    g: &mut GraphBuilder,
    name: &str,
    x: NodeId,
    conv: Conv2d,
    eps: f32,
    activation: Activation,
) -> NodeId {
    let y = g.conv(&format!("{name}.0"), x, conv);
    let y = g.batch_norm(&format!("{name}.1"), y, eps);
    g.activation(&format!("{name}.2"), y, activation)
}

/// Squeeze-excite with SiLU: the mean over all pixels goes through two 1x1 convolutions, `fc1` to `squeezed` channels and
/// `fc2` back, and gates every channel.
pub(crate) fn squeeze_excite(g: &mut GraphBuilder, name: &str, x: NodeId, squeezed: usize) -> NodeId {
    let channels = g.channels(x);
    let mut gate = g.global_avg_pool(&format!("{name}.avgpool"), x);
    let reduce = Conv2d::new(channels, squeezed, 1).with_bias();
    gate = g.conv(&format!("{name}.fc1"), gate, reduce);
    gate = g.activation(&format!("{name}.activation"), gate, Activation::Silu);
    let expand = Conv2d::new(squeezed, channels, 1).with_bias();
    gate = g.conv(&format!("{name}.fc2"), gate, expand);
    gate = g.activation(&format!("{name}.scale_activation"), gate, Activation::Sigmoid);
    g.mul(name, x, gate)
}

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
