use super::Case;
use super::sketch::Sketch;
use flipcast_graph::{Activation, ChannelRun, Conv2d, NodeId};

/// Residual blocks, gates and shortcuts as networks have them.
pub(super) fn cases() -> Vec<Case> {
    vec![
        residual_identity(),
        residual_downsample(),
        bottleneck(),
        widening_bottleneck("widening_bottleneck", [8, 24], [6, 5, 3]),
        widening_bottleneck("widening_bottleneck_128", [64, 128], [4, 5, 3]),
        widening_shortcut("widening_shortcut", [8, 24], 1),
        widening_shortcut("widening_shortcut_strided", [8, 128], 2),
        inverted_residual(),
        pre_activation(),
        pre_activation_shared(),
        squeeze_excite(),
        inverted_residual_with_gate(),
        full_size_gate(),
        shortcut_a("shortcut_a", [12, 24], [8, 6, 3]),
        shortcut_a("shortcut_a_odd", [5, 12], [7, 9, 3]),
        normed_shortcut_a(),
        activation_with_two_consumers(),
        sum_of_sums(),
        add_to_itself(),
        dense_block(),
        shuffled_halves(),
        joined_with_itself(),
    ]
}

/// Two layers that each read everything before them, of channels that share only a factor of 2.
fn dense_block() -> Case {
    let (mut s, x) = Sketch::with_stem(10);
    let y = s.bn_relu(x);
    let y = s.conv3x3(y, 6);
    let joined = s.concat(&[x, y]);
    let z = s.bn_relu(joined);
    let z = s.conv3x3(z, 4);
    let all = s.concat(&[x, y, z]);
    let all = s.bn_relu(all);
    s.pooled_case("dense_block", all, [6, 5, 3])
}

/// One half of the channels goes through a branch and comes back in turns with the other.
fn shuffled_halves() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let half = |first: usize| vec![ChannelRun { input: 0, first, count: 6 }];
    let kept = s.pick_channels(&[x], half(0));
    let branch = s.pick_channels(&[x], half(6));
    let branch = s.conv1x1(branch, 6);
    let branch = s.bn_relu(branch);
    let turns = (0..6).flat_map(|first| [0, 1].map(|input| ChannelRun { input, first, count: 1 })).collect();
    let x = s.pick_channels(&[kept, branch], turns);
    let x = s.conv3x3(x, 8);
    let x = s.bn_relu(x);
    s.pooled_case("shuffled_halves", x, [5, 7, 3])
}

/// A value beside itself, and a norm that only a join of channels reads.
fn joined_with_itself() -> Case {
    let (mut s, x) = Sketch::with_stem(7);
    let x = s.bn(x);
    let y = s.concat(&[x, x]);
    let y = s.conv1x1(y, 9);
    let y = s.bn_relu(y);
    s.pooled_case("joined_with_itself", y, [4, 5, 3])
}

fn residual_identity() -> Case {
    let (mut s, x) = Sketch::with_stem(16);
    let x = s.bn_relu(x);
    let x = basic_body(&mut s, x, 16);
    let x = s.relu(x);
    let x = basic_body(&mut s, x, 16);
    let x = s.relu(x);
    s.pooled_case("residual_identity", x, [7, 6, 3])
}

/// Convolution, norm, ReLU, convolution, norm, plus `x`.
fn basic_body(s: &mut Sketch, x: NodeId, channels: usize) -> NodeId {
    let y = s.conv3x3(x, channels);
    let y = s.bn_relu(y);
    let y = s.conv3x3(y, channels);
    let y = s.bn(y);
    s.add(y, x)
}

fn residual_downsample() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let y = s.conv(x, Conv2d::new(12, 17, 3).stride(2).padding(1));
    let y = s.bn_relu(y);
    let y = s.conv3x3(y, 17);
    let y = s.bn(y);
    let shortcut = s.conv(x, Conv2d::new(12, 17, 1).stride(2));
    let shortcut = s.bn(shortcut);
    let x = s.add(y, shortcut);
    let x = s.relu(x);
    s.pooled_case("residual_downsample", x, [9, 8, 3])
}

fn bottleneck() -> Case {
    let (mut s, x) = Sketch::with_stem(24);
    let x = s.bn_relu(x);
    let y = s.conv1x1(x, 12);
    let y = s.bn_relu(y);
    let y = s.conv3x3(y, 12);
    let y = s.bn_relu(y);
    let y = s.conv1x1(y, 24);
    let y = s.bn(y);
    let x = s.add(y, x);
    let x = s.relu(x);
    s.pooled_case("bottleneck", x, [6, 7, 3])
}

/// A bottleneck of a ResNet, from many channels to few and back.
fn widening_bottleneck(name: &str, [few, many]: [usize; 2], size: [usize; 3]) -> Case {
    let (mut s, x) = Sketch::with_stem(many);
    let x = s.bn_relu(x);
    let y = widening_body(&mut s, x, [few, many], 1);
    let x = s.add(y, x);
    let x = s.relu(x);
    s.pooled_case(name, x, size)
}

/// The first bottleneck of a stage, with a convolution in its shortcut.
fn widening_shortcut(name: &str, [few, many]: [usize; 2], stride: usize) -> Case {
    let (mut s, x) = Sketch::with_stem(few);
    let x = s.bn_relu(x);
    let y = widening_body(&mut s, x, [few, many], stride);
    let shortcut = s.conv(x, Conv2d::new(few, many, 1).stride(stride));
    let shortcut = s.bn(shortcut);
    let x = s.add(y, shortcut);
    let x = s.relu(x);
    s.pooled_case(name, x, [6, 5, 3])
}

/// To few channels, over pixels, and back to many, with norms and two activations.
fn widening_body(s: &mut Sketch, x: NodeId, [few, many]: [usize; 2], stride: usize) -> NodeId {
    let y = s.conv1x1(x, few);
    let y = s.bn_relu(y);
    let y = s.conv(y, Conv2d::new(few, few, 3).stride(stride).padding(1));
    let y = s.bn_relu(y);
    let y = s.conv1x1(y, many);
    s.bn(y)
}

/// MobileNetV2: expand, depthwise, project, add, and no activation after the sum.
fn inverted_residual() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let y = s.conv1x1(x, 24);
    let y = s.bn(y);
    let y = s.act(y, Activation::Relu6);
    let y = s.conv(y, Conv2d::new(24, 24, 3).padding(1).groups(24));
    let y = s.bn(y);
    let y = s.act(y, Activation::Relu6);
    let y = s.conv1x1(y, 12);
    let y = s.bn(y);
    let x = s.add(x, y);
    let x = s.conv1x1(x, 33);
    let x = s.bn(x);
    let x = s.act(x, Activation::Relu6);
    s.pooled_case("inverted_residual", x, [6, 7, 3])
        .magnify("bn2.weight", 4.0)
        .magnify("bn3.weight", 4.0)
        .magnify("fc.weight", 0.5)
}

/// The norm reads a sum that is also carried on raw.
fn pre_activation() -> Case {
    let (mut s, mut x) = Sketch::with_stem(12);
    for _ in 0..2 {
        let y = s.bn_relu(x);
        let y = s.conv3x3(y, 12);
        let y = s.bn_relu(y);
        let y = s.conv3x3(y, 12);
        x = s.add(x, y);
    }
    let x = s.bn_relu(x);
    s.pooled_case("pre_activation", x, [7, 6, 3])
}

/// The first block of a stage in wide ResNets: body and shortcut both read the activated value.
fn pre_activation_shared() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let y = s.conv(x, Conv2d::new(12, 17, 3).stride(2).padding(1));
    let y = s.bn_relu(y);
    let y = s.conv3x3(y, 17);
    let shortcut = s.conv(x, Conv2d::new(12, 17, 1).stride(2));
    let x = s.add(y, shortcut);
    let x = s.bn_relu(x);
    s.pooled_case("pre_activation_shared", x, [8, 7, 3])
}

fn squeeze_excite() -> Case {
    let (mut s, x) = Sketch::with_stem(17);
    let x = s.bn(x);
    let x = s.act(x, Activation::Silu);
    let x = s.squeeze_excite(x, 5);
    let x = s.conv1x1(x, 24);
    let x = s.bn(x);
    s.pooled_case("squeeze_excite", x, [6, 7, 3])
}

/// The block of EfficientNet.
fn inverted_residual_with_gate() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let y = s.conv1x1(x, 24);
    let y = s.bn(y);
    let y = s.act(y, Activation::Silu);
    let y = s.conv(y, Conv2d::new(24, 24, 5).padding(2).groups(24));
    let y = s.bn(y);
    let y = s.act(y, Activation::Silu);
    let y = s.squeeze_excite(y, 5);
    let y = s.conv1x1(y, 12);
    let y = s.bn(y);
    let x = s.add(y, x);
    s.pooled_case("inverted_residual_with_gate", x, [6, 5, 3])
}

/// A product of two values of the same extents.
fn full_size_gate() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let gate = s.conv3x3(x, 12);
    let gate = s.bn(gate);
    let gate = s.act(gate, Activation::Sigmoid);
    let x = s.mul(x, gate);
    let x = s.conv1x1(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case("full_size_gate", x, [5, 7, 3])
}

fn shortcut_a(name: &str, [from, to]: [usize; 2], size: [usize; 3]) -> Case {
    let (mut s, x) = Sketch::with_stem(from);
    let x = s.bn_relu(x);
    let y = s.conv(x, Conv2d::new(from, to, 3).stride(2).padding(1));
    let y = s.bn_relu(y);
    let y = s.conv3x3(y, to);
    let y = s.bn(y);
    let shortcut = s.shortcut_a(x, 2, to);
    let x = s.add(y, shortcut);
    let x = s.relu(x);
    s.pooled_case(name, x, size)
}

/// A norm sees the zero channels: their variance is 0 and only `eps` keeps them finite.
fn normed_shortcut_a() -> Case {
    let (mut s, x) = Sketch::with_stem(5);
    let x = s.bn_relu(x);
    let x = s.shortcut_a(x, 2, 12);
    let x = s.bn_relu(x);
    let x = s.conv3x3(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case("norm_of_shortcut_a", x, [9, 8, 3])
}

fn activation_with_two_consumers() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let x = s.act(x, Activation::Silu);
    let left = s.conv3x3(x, 17);
    let left = s.bn_relu(left);
    let right = s.conv1x1(x, 17);
    let right = s.bn_relu(right);
    let x = s.add(left, right);
    s.pooled_case("activation_with_two_consumers", x, [6, 7, 3])
}

/// Three branches meet without an activation between the sums.
fn sum_of_sums() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let a = s.conv3x3(x, 12);
    let a = s.bn(a);
    let b = s.conv1x1(x, 12);
    let b = s.bn_relu(b);
    let sum = s.add(a, b);
    let x = s.add(x, sum);
    let x = s.relu(x);
    let x = s.conv1x1(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case("sum_of_sums", x, [5, 6, 3])
}

/// Both operands of a sum, and of a product, are the same node.
fn add_to_itself() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let x = s.add(x, x);
    let x = s.conv3x3(x, 17);
    let x = s.bn(x);
    let x = s.mul(x, x);
    s.pooled_case("add_and_mul_with_itself", x, [5, 6, 3])
}
