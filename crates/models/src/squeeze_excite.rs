use flipcast_graph::{Activation, Conv2d, GraphBuilder, NodeId};

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
