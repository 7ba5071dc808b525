use super::Case;
use super::sketch::Sketch;
use flipcast_graph::{Activation, Attention, Conv2d, NodeId, NormKind, Padding, Tokens};

/// Transformers in small, and their operators in unusual places.
pub(super) fn cases() -> Vec<Case> {
    vec![
        class_token(),
        mean_of_tokens(),
        many_tokens(),
        wide_heads(),
        shifted_windows(),
        padded_windows(),
        dense_bias(),
        grid_and_window(),
        layer_scale(),
        norm_before_everything(),
        layers_across_tokens(),
        enlarged_maps(),
        unit_vectors(),
    ]
}

/// Layer norm, projections, attention, and the sum with `x`.
fn attend(s: &mut Sketch, x: NodeId, attention: Attention) -> NodeId {
    let channels = s.channels(x);
    let y = s.norm(x, NormKind::Layer);
    let y = s.linear(y, 3 * channels);
    let y = s.attention(y, attention);
    let y = s.linear(y, channels);
    s.add(x, y)
}

/// Layer norm, expand, activation, reduce, and the sum with `x`.
fn perceive(s: &mut Sketch, x: NodeId, activation: Activation) -> NodeId {
    let channels = s.channels(x);
    let y = s.norm(x, NormKind::Layer);
    let y = s.linear(y, 2 * channels + 1);
    let y = s.act(y, activation);
    let y = s.linear(y, channels);
    s.add(x, y)
}

/// A vision transformer: patches, class token, positions, two blocks.
fn class_token() -> Case {
    let (mut s, x) = Sketch::new(3);
    let x = s.conv(x, Conv2d::new(3, 12, 2).stride(2).with_bias());
    let x = s.prepend_tokens(x, 1);
    let x = s.add_position(x, 13);
    let x = attend(&mut s, x, Attention::new(3, 0.5));
    let x = perceive(&mut s, x, Activation::Gelu);
    let x = attend(&mut s, x, Attention::new(2, 0.4));
    let x = s.token_range(x, 0, 1);
    let x = perceive(&mut s, x, Activation::Gelu);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("class_token", x, [6, 8, 3])
}

/// Gradients pass the stem's own norm, two learned tokens and the positions.
fn mean_of_tokens() -> Case {
    let (mut s, x) = Sketch::with_stem(10);
    let x = s.bn(x);
    let x = s.prepend_tokens(x, 2);
    let x = s.add_position(x, 14);
    let x = attend(&mut s, x, Attention::new(2, 0.45));
    let x = perceive(&mut s, x, Activation::GeluTanh);
    let x = s.drop_tokens(x, 2);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("mean_of_tokens", x, [4, 3, 3])
}

/// More tokens than are worked on at once.
fn many_tokens() -> Case {
    let (mut s, x) = Sketch::with_stem(6);
    let x = attend(&mut s, x, Attention::new(2, 0.6));
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("attention_over_many_tokens", x, [9, 17, 2])
}

/// Heads wider than a vector register.
fn wide_heads() -> Case {
    let (mut s, x) = Sketch::with_stem(38);
    let x = attend(&mut s, x, Attention::new(2, 0.2));
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("attention_with_wide_heads", x, [5, 4, 2])
}

/// Two blocks of a Swin transformer and a merge of patches.
fn shifted_windows() -> Case {
    let (mut s, x) = Sketch::with_stem(8);
    let windows = |shift| {
        let tokens = Tokens::Window { size: 2, shift };
        Attention::new(2, 0.5).tokens(tokens).with_relative_bias()
    };
    let x = attend(&mut s, x, windows(0));
    let x = attend(&mut s, x, windows(1));
    let x = s.merge_patches(x);
    let x = s.norm(x, NormKind::Layer);
    let x = s.projection(x, 15);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("shifted_windows", x, [6, 4, 3])
}

/// Windows that do not tile the map: padded behind the norm, cropped behind the projection, then an odd merge.
fn padded_windows() -> Case {
    let (mut s, x) = Sketch::with_stem(6);
    let tokens = Tokens::Window { size: 3, shift: 1 };
    let attention = Attention::new(3, 0.7).tokens(tokens).with_relative_bias();
    let y = s.norm(x, NormKind::Layer);
    let y = s.pad_to_multiple(y, 3);
    let y = s.linear(y, 18);
    let y = s.attention(y, attention);
    let y = s.linear(y, 6);
    let y = s.crop_like(y, x);
    let x = s.add(x, y);
    let x = s.merge_patches(x);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("padded_windows", x, [5, 7, 3])
}

/// A MaxViT block in small: batch norm and gate, windows, grid, and a head with a hyperbolic tangent.
fn grid_and_window() -> Case {
    let (mut s, x) = Sketch::with_stem(9);
    let x = s.bn(x);
    let x = s.act(x, Activation::Gelu);
    let x = s.squeeze_excite(x, 4);
    let attention = Attention::new(3, 0.33).with_relative_bias();
    let window = Tokens::Window { size: 2, shift: 0 };
    let x = attend(&mut s, x, attention.tokens(window));
    let x = perceive(&mut s, x, Activation::Gelu);
    let x = attend(&mut s, x, attention.tokens(Tokens::Grid { size: 2 }));
    let x = s.global_avg_pool(x);
    let x = s.norm(x, NormKind::Layer);
    let x = s.linear(x, 11);
    let x = s.act(x, Activation::Tanh);
    s.pooled_case("grid_and_window", x, [4, 6, 3])
}

/// A bias of its own for every pair of tokens: of all of an image, behind one that is put in front, and of windows.
fn dense_bias() -> Case {
    let (mut s, x) = Sketch::with_stem(8);
    let window = Attention::new(2, 0.4).tokens(Tokens::Window { size: 2, shift: 1 }).with_dense_bias(4);
    let x = attend(&mut s, x, window);
    let x = s.prepend_tokens(x, 1);
    let x = attend(&mut s, x, Attention::new(4, 0.6).with_dense_bias(25));
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("attention_with_dense_bias", x, [4, 6, 3])
}

/// A mixer block: linear layers across tokens, with pixels and channels exchanged in front of and behind them.
fn layers_across_tokens() -> Case {
    let (mut s, x) = Sketch::with_stem(10);
    let y = s.norm(x, NormKind::Layer);
    let y = s.transpose(y, 24, 5);
    let y = s.linear(y, 13);
    let y = s.act(y, Activation::Gelu);
    let y = s.linear(y, 24);
    let y = s.transpose(y, 10, 4);
    let x = s.add(x, y);
    let x = perceive(&mut s, x, Activation::Gelu);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("layers_across_tokens", x, [4, 6, 3])
}

/// Maps enlarged by the nearest pixel: zeros put between pixels, then a filter of ones.
fn enlarged_maps() -> Case {
    let (mut s, x) = Sketch::with_stem(9);
    let x = s.bn_relu(x);
    let small = s.conv(x, Conv2d::new(9, 9, 3).padding(1).stride(2));
    let small = s.bn(small);
    let spread = s.spread(small, 2);
    let before = Padding::Explicit { rows: [1, 0], columns: [1, 0] };
    let large = s.conv(spread, Conv2d { padding: before, ..Conv2d::new(9, 9, 2).groups(9) });
    let x = s.add(x, large);
    let x = s.bn_relu(x);
    let mut case = s.pooled_case("enlarged_maps", x, [6, 8, 3]);
    case.param_mut("conv3.weight").fill(1.0);
    case
}

/// Vectors divided by their lengths, three for every pixel.
fn unit_vectors() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.norm(x, NormKind::Layer);
    let squares = s.mul(x, x);
    let sums = s.conv(squares, Conv2d::new(12, 12, 1).groups(3));
    let inverse = s.act(sums, Activation::InverseSqrt);
    let y = s.mul(x, inverse);
    let y = s.conv1x1(y, 12);
    let x = s.add(x, y);
    let x = s.norm(x, NormKind::Layer);
    let mut case = s.pooled_case("unit_vectors", x, [4, 6, 3]);
    case.param_mut("conv2.weight").fill(1.0);
    case
}

/// A ConvNeXt block with its layer scale.
fn layer_scale() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.norm(x, NormKind::Layer);
    let y = s.conv(x, Conv2d::new(12, 12, 7).padding(3).groups(12).with_bias());
    let y = s.norm(y, NormKind::Layer);
    let y = s.linear(y, 33);
    let y = s.act(y, Activation::Gelu);
    let y = s.linear(y, 12);
    let y = s.scale(y);
    let x = s.add(y, x);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("layer_scale", x, [6, 5, 3])
}

/// Attention, scale, crop and positions read values that are not stored, and one value is read twice.
fn norm_before_everything() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let left = s.attention(x, Attention::new(2, 0.5));
    let right = s.token_range(x, 3, 20);
    let right = s.act(right, Activation::Silu);
    let right = s.add_position(right, 20);
    let right = s.drop_tokens(right, 5);
    let right = s.linear(right, 4);
    let right = s.scale(right);
    let left = s.token_range(left, 2, 15);
    let x = s.add(left, right);
    let x = s.norm(x, NormKind::Layer);
    s.pooled_case("tokens_of_derived_values", x, [6, 4, 3])
}
