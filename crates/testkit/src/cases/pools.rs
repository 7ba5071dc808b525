use super::Case;
use super::sketch::Sketch;
use flipcast_graph::{Conv2d, Pool};

/// Pools, flatten, and what comes before and after them.
pub(super) fn cases() -> Vec<Case> {
    vec![
        resnet_stem("max_pool3x3_s2_odd", 24, [13, 9, 3]),
        resnet_stem("max_pool3x3_s2_even", 17, [12, 10, 3]),
        max_pool_of_norm(),
        max_pool_overlapping(),
        max_pool_ceil(),
        max_pool_of_zeros(),
        avg_pool("avg_pool2x2", pool(2, 2, 0), [8, 7, 3]),
        avg_pool("avg_pool3x3_s2_padded", pool(3, 2, 1), [9, 8, 3]),
        avg_pool_downsample(),
        flatten(),
        flatten_of_norm(),
    ]
}

fn pool(kernel: usize, stride: usize, padding: usize) -> Pool {
    Pool::new(kernel, stride, padding)
}

/// Norm, ReLU and 3x3 max pool, then a block.
fn resnet_stem(name: &str, channels: usize, size: [usize; 3]) -> Case {
    let (mut s, x) = Sketch::with_stem(channels);
    let x = s.bn_relu(x);
    let x = s.max_pool(x, pool(3, 2, 1));
    let x = s.conv3x3(x, 12);
    let x = s.bn_relu(x);
    s.pooled_case(name, x, size)
}

/// Without a ReLU before it, padding must not count as zero.
fn max_pool_of_norm() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let x = s.max_pool(x, pool(3, 2, 1));
    let x = s.conv1x1(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case("max_pool_of_norm", x, [9, 8, 3])
}

/// Neighbouring windows share winners, and the pool's input has a second consumer.
fn max_pool_overlapping() -> Case {
    let (mut s, x) = Sketch::with_stem(5);
    let x = s.bn_relu(x);
    let y = s.max_pool(x, pool(3, 1, 1));
    let x = s.add(x, y);
    let x = s.conv3x3(x, 12);
    let x = s.bn_relu(x);
    s.pooled_case("max_pool_overlapping", x, [6, 7, 3])
}

/// The last window of each row hangs over the edge, with a norm and no ReLU before it.
fn max_pool_ceil() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let x = s.max_pool(x, Pool { ceil: true, ..pool(3, 2, 0) });
    let x = s.conv3x3(x, 17);
    let x = s.bn_relu(x);
    let x = s.max_pool(x, Pool { ceil: true, ..pool(2, 2, 1) });
    s.pooled_case("max_pool_ceil", x, [12, 10, 3])
}

/// Zeros that were put around a norm's output may win, unlike padding.
fn max_pool_of_zeros() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn(x);
    let x = s.pad(x, [1, 0], [2, 1]);
    let x = s.max_pool(x, pool(3, 2, 0));
    let x = s.conv1x1(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case("max_pool_of_zeros", x, [9, 8, 3])
}

fn avg_pool(name: &str, pool: Pool, size: [usize; 3]) -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let x = s.avg_pool(x, pool);
    let x = s.conv3x3(x, 17);
    let x = s.bn_relu(x);
    s.pooled_case(name, x, size)
}

/// The downsampling path of the ResNet-D variants: average, 1x1 convolution, norm.
fn avg_pool_downsample() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let y = s.conv(x, Conv2d::new(12, 17, 3).stride(2).padding(1));
    let y = s.bn(y);
    let x = s.avg_pool(x, pool(2, 2, 0));
    let x = s.conv1x1(x, 17);
    let x = s.bn(x);
    let x = s.add(y, x);
    let x = s.relu(x);
    s.pooled_case("avg_pool_downsample", x, [8, 6, 3])
}

fn flatten() -> Case {
    let (mut s, x) = Sketch::with_stem(12);
    let x = s.bn_relu(x);
    let x = s.max_pool(x, pool(2, 2, 0));
    s.flat_case("flatten_3x2", x, 6, [6, 5, 5])
}

fn flatten_of_norm() -> Case {
    let (mut s, x) = Sketch::with_stem(5);
    let x = s.bn_relu(x);
    let x = s.conv3x3(x, 17);
    let x = s.bn(x);
    s.flat_case("flatten_of_norm", x, 12, [4, 3, 3])
}
