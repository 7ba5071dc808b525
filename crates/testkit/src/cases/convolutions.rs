use super::Case;
use super::sketch::Sketch;
use flipcast_graph::{Conv2d, Padding};

/// One convolution each, between two norms, so that gradients pass through it and its output has statistics.
pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = table().into_iter().map(|(name, conv, size)| between_norms(name, conv, size)).collect();
    cases.push(stem_7x7());
    cases
}

/// Name, convolution, and height, width and batch size.
fn table() -> Vec<(&'static str, Conv2d, [usize; 3])> {
    let conv = Conv2d::new;
    vec![
        ("conv3x3_16_to_16", conv(16, 16, 3).padding(1), [8, 8, 3]),
        ("conv3x3_32_at_7x7", conv(32, 32, 3).padding(1), [7, 7, 3]),
        ("conv3x3_16_at_14x9", conv(16, 32, 3).padding(1), [14, 9, 3]),
        ("conv3x3_5_to_17", conv(5, 17, 3).padding(1), [7, 7, 5]),
        ("conv3x3_33_to_12", conv(33, 12, 3).padding(1), [6, 5, 3]),
        ("conv3x3_unpadded", conv(12, 24, 3), [9, 6, 3]),
        ("conv3x3_bias", conv(12, 16, 3).padding(1).with_bias(), [5, 8, 3]),
        ("conv3x3_s2_odd", conv(12, 24, 3).stride(2).padding(1), [9, 7, 5]),
        ("conv3x3_s2_even", conv(16, 17, 3).stride(2).padding(1), [10, 8, 3]),
        ("conv1x1", conv(24, 33, 1), [7, 5, 3]),
        ("conv1x1_s2_odd", conv(12, 24, 1).stride(2), [9, 7, 5]),
        ("conv1x1_s2_even", conv(16, 32, 1).stride(2), [8, 10, 3]),
        ("conv5x5", conv(5, 12, 5).padding(2), [9, 6, 3]),
        ("conv5x5_s3", conv(5, 12, 5).stride(3).padding(2), [11, 8, 3]),
        ("conv7x7_s2", conv(5, 12, 7).stride(2).padding(3), [11, 8, 3]),
        ("conv3x3_dilated", conv(12, 17, 3).dilation(2).padding(2), [9, 11, 3]),
        ("conv3x3_dilated_s2", conv(5, 12, 3).dilation(2).stride(2).padding(2), [9, 10, 3]),
        ("groups_4", conv(12, 24, 3).padding(1).groups(4), [7, 6, 3]),
        ("groups_8", conv(32, 32, 3).padding(1).groups(8), [7, 5, 3]),
        ("groups_8_s2", conv(24, 32, 3).stride(2).padding(1).groups(8), [8, 9, 3]),
        ("groups_4_1x1", conv(24, 12, 1).groups(4), [5, 6, 3]),
        ("depthwise3x3", conv(24, 24, 3).padding(1).groups(24), [9, 7, 3]),
        ("depthwise3x3_33_channels", conv(33, 33, 3).padding(1).groups(33), [5, 6, 5]),
        ("depthwise3x3_s2_odd", conv(17, 17, 3).stride(2).padding(1).groups(17), [9, 7, 5]),
        ("depthwise3x3_s2_even", conv(24, 24, 3).stride(2).padding(1).groups(24), [10, 8, 3]),
        ("depthwise5x5", conv(12, 12, 5).padding(2).groups(12), [7, 9, 3]),
        ("depthwise5x5_s2", conv(33, 33, 5).stride(2).padding(2).groups(33), [9, 8, 3]),
        ("depthwise_multiplier_2", conv(12, 24, 3).padding(1).groups(12), [6, 7, 3]),
        ("same_s2_even", conv(12, 17, 3).stride(2).pad_same(), [8, 10, 3]),
        ("same_s2_odd", conv(5, 12, 3).stride(2).pad_same(), [9, 7, 3]),
        ("same_5x5_s2_even", conv(5, 12, 5).stride(2).pad_same(), [10, 8, 3]),
        ("same_depthwise3x3_s2_even", conv(24, 24, 3).stride(2).pad_same().groups(24), [8, 6, 3]),
        ("same_depthwise5x5_s2_even", conv(12, 12, 5).stride(2).pad_same().groups(12), [6, 10, 3]),
        ("oblong_1x3", oblong([1, 3], [0, 0], [1, 1]), [6, 7, 3]),
        ("oblong_5x2_uneven_padding", oblong([5, 2], [3, 1], [0, 1]), [7, 6, 3]),
    ]
}

fn oblong(kernel: [usize; 2], rows: [usize; 2], columns: [usize; 2]) -> Conv2d {
    let mut conv = Conv2d::new(12, 17, 1);
    conv.kernel = kernel;
    conv.padding = Padding::Explicit { rows, columns };
    conv
}

fn between_norms(name: &str, conv: Conv2d, size: [usize; 3]) -> Case {
    let (mut s, x) = Sketch::with_stem(conv.in_channels);
    let x = s.bn_relu(x);
    let x = s.conv(x, conv);
    let x = s.bn_relu(x);
    s.pooled_case(name, x, size)
}

/// The ImageNet stem: nothing before it adapts.
fn stem_7x7() -> Case {
    let (mut s, x) = Sketch::new(3);
    let x = s.conv(x, Conv2d::new(3, 24, 7).stride(2).padding(3));
    let x = s.bn_relu(x);
    s.pooled_case("stem7x7_s2", x, [17, 12, 3])
}
