use super::Case;
use super::sketch::Sketch;
use flipcast_graph::{Activation, Conv2d};

/// Every activation before and after convolutions of both kinds.
pub(super) fn cases() -> Vec<Case> {
    vec![
        norm_then("bn_relu_conv", Activation::Relu, dense(12, 17)),
        norm_then("bn_relu6_depthwise", Activation::Relu6, depthwise(24))
            .magnify("bn1.weight", 4.0)
            .magnify("bn2.weight", 4.0)
            .magnify("fc.weight", 0.25),
        norm_then("bn_relu6_conv", Activation::Relu6, dense(16, 16))
            .magnify("bn1.weight", 4.0)
            .magnify("bn2.weight", 4.0)
            .magnify("fc.weight", 0.25),
        norm_then("conv_bn_silu", Activation::Silu, dense(12, 24)),
        norm_then("silu_depthwise", Activation::Silu, depthwise(33)),
        norm_then("conv_bn_hard_swish", Activation::HardSwish, dense(5, 12))
            .magnify("bn1.weight", 2.0)
            .magnify("bn2.weight", 2.0),
        norm_then("conv_bn_hard_sigmoid", Activation::HardSigmoid, dense(5, 12))
            .magnify("bn1.weight", 3.0)
            .magnify("bn2.weight", 3.0),
        norm_then("conv_bn_gelu", Activation::Gelu, dense(17, 12)),
        norm_then("conv_bn_sigmoid", Activation::Sigmoid, dense(12, 16)),
        norm_then("conv_bn_identity", Activation::Identity, dense(12, 17)),
        without_norms_between(),
        activation_of_sum(),
        norm_without_activation(),
        two_activations_in_a_row(),
    ]
}

fn dense(from: usize, to: usize) -> Conv2d {
    Conv2d::new(from, to, 3).padding(1)
}

fn depthwise(channels: usize) -> Conv2d {
    dense(channels, channels).groups(channels)
}

/// Norm, activation, convolution, norm, activation.
fn norm_then(name: &str, activation: Activation, conv: Conv2d) -> Case {
    let (mut s, x) = Sketch::with_stem(conv.in_channels);
    let x = s.bn(x);
    let x = s.act(x, activation);
    let x = s.conv(x, conv);
    let x = s.bn(x);
    let x = s.act(x, activation);
    s.pooled_case(name, x, [7, 6, 3])
}

/// An activation directly on a convolution's output, as in networks with folded norms.
fn without_norms_between() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let x = s.conv(x, dense(12, 17).with_bias());
    let x = s.relu(x);
    let x = s.conv(x, dense(17, 12).with_bias());
    let x = s.act(x, Activation::Silu);
    s.pooled_case("conv_bias_relu_conv_bias_silu", x, [6, 5, 3])
}

/// A smooth activation of a sum of two convolutions, none of them normalised.
fn activation_of_sum() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let left = s.conv3x3(x, 17);
    let right = s.conv1x1(x, 17);
    let x = s.add(left, right);
    let x = s.act(x, Activation::Gelu);
    s.pooled_case("sum_of_convs_gelu", x, [6, 7, 3])
}

/// The linear bottleneck: a norm's output goes into the next convolution as it is.
fn norm_without_activation() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let x = s.conv1x1(x, 33);
    let x = s.bn(x);
    let x = s.conv3x3(x, 17);
    let x = s.bn(x);
    s.pooled_case("norms_without_activations", x, [5, 7, 5])
}

fn two_activations_in_a_row() -> Case {
    let (mut s, x) = Sketch::with_stem(17);
    let x = s.bn_relu(x);
    let x = s.act(x, Activation::Sigmoid);
    let x = s.conv3x3(x, 12);
    let x = s.bn_relu(x);
    s.pooled_case("relu_then_sigmoid", x, [5, 6, 3])
}
