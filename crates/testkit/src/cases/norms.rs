use super::Case;
use super::sketch::Sketch;
use flipcast_graph::{Activation, Conv2d, NormKind};

/// Norms of every kind, and norms in unusual places.
pub(super) fn cases() -> Vec<Case> {
    vec![
        plain("group_norm", NormKind::Group { groups: 4 }, [12, 24]),
        plain("group_norm_one_group", NormKind::Group { groups: 1 }, [5, 17]),
        instance_norm(),
        plain("layer_norm", NormKind::Layer, [17, 33]),
        group_norm_residual(),
        layer_norm_gelu(),
        mixed_kinds(),
        on_input(),
        two_on_one_conv(),
        two_in_a_row(),
        two_consumers(),
        zero_scale(),
        on_pooled(),
    ]
}

/// Convolution, norm and ReLU twice, to the given channels.
fn plain(name: &str, kind: NormKind, channels: [usize; 2]) -> Case {
    let (mut s, x) = Sketch::with_stem(channels[0]);
    let x = s.norm(x, kind);
    let x = s.relu(x);
    let x = s.conv3x3(x, channels[1]);
    let x = s.norm(x, kind);
    let x = s.relu(x);
    s.pooled_case(name, x, [7, 6, 3])
}

/// As many groups as channels.
fn instance_norm() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.norm(x, NormKind::Group { groups: 12 });
    let x = s.relu(x);
    let x = s.conv3x3(x, 17);
    let x = s.norm(x, NormKind::Group { groups: 17 });
    let x = s.relu(x);
    s.pooled_case("group_norm_one_channel_each", x, [6, 7, 3])
}

fn group_norm_residual() -> Case {
    let kind = NormKind::Group { groups: 3 };
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.norm(x, kind);
    let x = s.relu(x);
    let y = s.conv3x3(x, 12);
    let y = s.norm(y, kind);
    let x = s.add(y, x);
    let x = s.relu(x);
    s.pooled_case("group_norm_residual", x, [6, 5, 3])
}

/// The block of ConvNeXt in small: depthwise, layer norm, expand, GELU, project, add.
fn layer_norm_gelu() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.norm(x, NormKind::Layer);
    let depthwise = Conv2d::new(12, 12, 5).padding(2).groups(12);
    let y = s.conv(x, depthwise.with_bias());
    let y = s.norm(y, NormKind::Layer);
    let y = s.conv1x1(y, 24);
    let y = s.act(y, Activation::Gelu);
    let y = s.conv1x1(y, 12);
    let x = s.add(x, y);
    s.pooled_case("layer_norm_gelu_residual", x, [6, 7, 3])
}

fn mixed_kinds() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let x = s.conv3x3(x, 24);
    let x = s.norm(x, NormKind::Group { groups: 8 });
    let x = s.relu(x);
    let x = s.conv1x1(x, 17);
    let x = s.norm(x, NormKind::Layer);
    let x = s.act(x, Activation::Silu);
    let x = s.conv1x1(x, 12);
    let x = s.bn_relu(x);
    s.pooled_case("batch_group_and_layer_norm", x, [5, 6, 3])
}

/// Nothing lies before the first norm, and its input is the batch itself.
fn on_input() -> Case {
    let (mut s, x) = Sketch::new(3);
    let x = s.bn(x);
    let x = s.conv3x3(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case("norm_on_input", x, [7, 9, 5])
}

fn two_on_one_conv() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let left = s.bn_relu(x);
    let left = s.conv3x3(left, 17);
    let right = s.bn(x);
    let right = s.act(right, Activation::Silu);
    let right = s.conv1x1(right, 17);
    let x = s.add(left, right);
    let x = s.bn_relu(x);
    s.pooled_case("two_norms_on_one_conv", x, [6, 7, 3])
}

fn two_in_a_row() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let x = s.norm(x, NormKind::Group { groups: 2 });
    let x = s.relu(x);
    let x = s.conv3x3(x, 16);
    let x = s.bn_relu(x);
    s.pooled_case("norm_after_norm", x, [5, 6, 3])
}

/// One norm's output is read by a convolution raw and by another after a ReLU.
fn two_consumers() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let left = s.conv3x3(x, 17);
    let right = s.relu(x);
    let right = s.conv3x3(right, 17);
    let x = s.add(left, right);
    let x = s.bn_relu(x);
    s.pooled_case("norm_with_two_consumers", x, [6, 5, 3])
}

/// A residual block whose last norm has scale 0 in some channels, as after zero initialisation: the normalised value
/// cannot be found from the output.
fn zero_scale() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let y = s.conv3x3(x, 12);
    let y = s.bn(y);
    let x = s.add(y, x);
    let x = s.relu(x);
    let mut case = s.pooled_case("zero_scale", x, [6, 7, 3]);
    case.param_mut("bn1.weight")[3] = 0.0;
    case.param_mut("bn2.weight")[..9].fill(0.0);
    case
}

/// A norm over single pixels: its batch statistics come from the images alone.
fn on_pooled() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let x = s.conv3x3(x, 17);
    let x = s.global_avg_pool(x);
    let x = s.bn(x);
    s.pooled_case("norm_on_single_pixels", x, [5, 6, 5])
}
