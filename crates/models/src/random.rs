use flipcast_graph::{Graph, NodeId, Op, ParamSpec};
use flipcast_ground::SplitMix64;
use flipcast_tensor::{Shape, Tensor};
use std::collections::{HashMap, HashSet};

/// Values for every parameter of `graph`, the same for the same seed on every machine.
///
/// Filters have He's variance `2 / inputs`; a layer that feeds a sum gets half of the usual size, so that deep
/// residual networks neither explode nor vanish. Scales and running variances lie around 1 and shifts and running
/// means around 0, but never exactly there, so that a skipped parameter is visible.
pub(crate) fn random_params(graph: &Graph, seed: u64) -> HashMap<String, Tensor> {
    let damped = feeding_a_sum(graph);
    let fill = |param: ParamSpec| {
        let mut stream = stream(seed, &param.name);
        // Tokens, positions and factors are parameters without a layer of their own.
        let (node, suffix) = param.name.rsplit_once('.').unwrap_or(("", &param.name));
        let size = if damped.contains(node) { 0.5 } else { 1.0 };
        let mut tensor = Tensor::zeros(Shape::new(param.shape.clone()));
        let is_filter = param.shape.len() > 1;
        let inputs: usize = param.shape.iter().skip(1).product();
        let (centre, spread) = match suffix {
            // A uniform distribution reaches sqrt(3) standard deviations to each side.
            "weight" if is_filter => (0.0, size * (3.0 * 2.0 / inputs as f64).sqrt()),
            "weight" => (size, 0.2 * size),
            "running_var" => (1.0, 0.2),
            "layer_scale" | "ls1" | "ls2" => (0.5, 0.1),
            _ => (0.0, 0.1),
        };
        for value in tensor.values_mut() {
            *value = (centre + spread * signed(&mut stream)) as f32;
        }
        (param.name, tensor)
    };
    graph.params().into_iter().map(fill).collect()
}

/// Names of the layers whose value is added to another.
fn feeding_a_sum(graph: &Graph) -> HashSet<&str> {
    let sums = graph.nodes().iter().filter(|node| node.op == Op::Add);
    let inputs = sums.flat_map(|node| &node.inputs);
    inputs.map(|&id: &NodeId| graph.node(id).name.as_str()).collect()
}

/// Seeded per parameter, so that values do not depend on the order of parameters.
fn stream(seed: u64, name: &str) -> SplitMix64 {
    SplitMix64::new(SplitMix64::hash_text(name) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Uniform between -1 and 1, never exactly 0: 52 bits, centred between the steps.
fn signed(stream: &mut SplitMix64) -> f64 {
    ((stream.next_u64() >> 12) as f64 + 0.5) / (1u64 << 51) as f64 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ResNetConfig, build_resnet};

    fn graph() -> Graph {
        build_resnet(&ResNetConfig::imagenet_basic([1, 1, 1, 1], 10)).unwrap()
    }

    #[test]
    fn the_seed_alone_decides() {
        assert_eq!(random_params(&graph(), 3), random_params(&graph(), 3));
        assert_ne!(random_params(&graph(), 3), random_params(&graph(), 4));
    }

    #[test]
    fn the_first_value_is_pinned() {
        let params = random_params(&graph(), 1);
        let first = params["conv1.weight"].values()[0];
        // Computed from the formulas above by an independent program.
        assert_eq!(first.to_bits(), 0xbe4c_6984, "{first}");
    }

    #[test]
    fn filters_have_the_expected_variance() {
        let params = random_params(&graph(), 1);
        let values = params["layer4.0.conv1.weight"].values();
        let mean_square: f64 = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64;
        let expected = 2.0 / (256.0 * 9.0);
        // 1.2 million samples leave a relative error of about 1e-3.
        assert!((mean_square / expected - 1.0).abs() < 4e-3, "{mean_square}");
    }

    #[test]
    fn no_affine_value_is_trivial() {
        for (name, tensor) in random_params(&graph(), 1) {
            let trivial = |&v: &f32| v == 0.0 || v == 1.0 || !v.is_finite();
            assert!(!tensor.values().iter().any(trivial), "{name}");
        }
    }
}
