//! Properties of plans that hold for any graph.

use super::steps::*;
use super::types::*;
use crate::{Activation, Attention, Conv2d, Graph, GraphBuilder, NodeId, NormKind, PlanError, Pool, Tokens};
use proptest::prelude::*;

/// A random network over most operators: a chain with branches that join again.
fn random_graph(choices: &[u8]) -> Graph {
    let (mut g, input) = GraphBuilder::new(3);
    let mut x = g.conv("stem", input, Conv2d::new(3, 8, 3).padding(1));
    let mut open: Vec<NodeId> = vec![x];
    for (i, choice) in choices.iter().enumerate() {
        let name = format!("n{i}");
        let c = g.channels(x);
        x = match choice % 16 {
            0 => g.conv(&name, x, Conv2d::new(c, c, 3).padding(1)),
            1 => g.conv(&name, x, Conv2d::new(c, c, 1)),
            2 => g.conv(&name, x, Conv2d::new(c, c, 3).padding(1).groups(c)),
            3 | 4 => g.batch_norm(&name, x, 1e-5),
            5 => g.activation(&name, x, Activation::Relu),
            6 => g.activation(&name, x, Activation::Silu),
            7 => g.norm(&name, x, NormKind::Group { groups: 2 }, 1e-5),
            8 => g.norm(&name, x, NormKind::Layer, 1e-5),
            9 => {
                let other = open[usize::from(choice / 16) % open.len()];
                g.add(&name, x, other)
            }
            10 => {
                let pooled = g.global_avg_pool(&format!("{name}.pool"), x);
                let gate = g.activation(&format!("{name}.gate"), pooled, Activation::Sigmoid);
                g.mul(&name, x, gate)
            }
            11 => {
                let qkv = g.linear(&format!("{name}.qkv"), x, c, 3 * c);
                g.attention(&name, qkv, Attention::new(2, 0.5))
            }
            12 => {
                let padded = g.pad_to_multiple(&format!("{name}.pad"), x, 4);
                let qkv = g.linear(&format!("{name}.qkv"), padded, c, 3 * c);
                let tokens = Tokens::Window { size: 4, shift: 1 };
                let attention = Attention::new(1, 0.5).tokens(tokens);
                let attended = g.attention(&format!("{name}.attention"), qkv, attention);
                g.crop_like(&name, attended, x)
            }
            13 => g.scale(&name, x),
            14 => g.linear_without_bias(&name, x, c, c),
            _ => g.max_pool(&name, x, Pool::new(3, 1, 1)),
        };
        open.push(x);
    }
    let x = g.batch_norm("last", x, 1e-5);
    let x = g.global_avg_pool("pool", x);
    let c = g.channels(x);
    let x = g.linear("fc", x, c, 5);
    g.finish(x).expect("every choice keeps the extents")
}

fn plan(graph: &Graph, batch: usize, purpose: Purpose) -> Plan {
    let options = PlanOptions { batch, height: 6, width: 5, purpose, taps: Vec::new() };
    Plan::new(graph, options).expect("the graph fits the images")
}

/// Panics if two buffers that are live at the same step overlap, or one leaves the arena.
fn check_places(plan: &Plan) {
    let live: Vec<&BufferPlan> = plan.buffers.iter().filter(|buffer| buffer.first <= buffer.last).collect();
    let batch = plan.options.batch;
    for (i, a) in live.iter().enumerate() {
        assert!(a.offset + a.per_image * batch <= plan.arena_len);
        for b in &live[i + 1..] {
            let together = a.first <= b.last && b.first <= a.last;
            let apart = a.offset + a.per_image * batch <= b.offset || b.offset + b.per_image * batch <= a.offset;
            assert!(!together || apart, "{a:?} and {b:?}");
        }
    }
}

/// Panics if a forward step reads a value that no earlier step wrote, or a norm gets its tables after it is read.
fn check_order(plan: &Plan) {
    let mut written = vec![false; plan.values.len()];
    let mut measured = vec![false; plan.norms.len()];
    for step in &plan.forward {
        for source in step.sources() {
            let value = plan.value(source);
            let base = plan.base(source);
            assert!(written[base.0] || plan.value(base).storage == Storage::Input, "{step:?}");
            if let Storage::Derived { norm: Some(norm), .. } = value.storage {
                assert!(measured[norm.0], "{step:?} reads a norm without statistics");
            }
        }
        match step {
            Step::Conv { statistics: Some(norm), .. } | Step::Statistics { norm, .. } => measured[norm.0] = true,
            _ => {}
        }
        if let Some(target) = step.target() {
            written[target.0] = true;
        }
    }
}

/// The norms whose scale and shift get a gradient.
fn reached(plan: &Plan) -> Vec<usize> {
    let norm_of = |value: &ValueId| match plan.value(*value).storage {
        Storage::Derived { norm: Some(norm), .. } => norm.0,
        _ => panic!("sums of a value without a norm"),
    };
    let mut norms: Vec<usize> = Vec::new();
    for step in &plan.backward {
        match step {
            BackwardStep::NormSums { value, .. } => norms.push(norm_of(value)),
            BackwardStep::Conv { then: Then::Sums(value), .. } => norms.push(norm_of(value)),
            BackwardStep::Join { join, .. } | BackwardStep::Conv { then: Then::Join(join), .. } => {
                norms.extend(join.sums.iter().map(norm_of));
            }
            BackwardStep::LayerNorm { norm, .. } => norms.push(norm.0),
            _ => {}
        }
    }
    norms.sort_unstable();
    norms
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_of_random_graphs_hold_together(choices in prop::collection::vec(any::<u8>(), 0..24), batch in 1usize..4) {
        let graph = random_graph(&choices);
        let adapt = plan(&graph, batch, Purpose::Adapt);
        let predict = plan(&graph, batch, Purpose::Predict);
        for plan in [&adapt, &predict] {
            check_places(plan);
            check_order(plan);
            prop_assert!(plan.arena_len() >= plan.peak_len());
        }
        prop_assert!(predict.peak_len() <= adapt.peak_len());
        prop_assert!(predict.backward().is_empty());
        // Every norm here leads to the logits, and its gradient is gathered exactly once.
        prop_assert_eq!(reached(&adapt), (0..adapt.norms().len()).collect::<Vec<_>>());
    }
}

#[test]
fn a_norm_and_its_activation_take_no_memory() {
    let (mut g, x) = GraphBuilder::new(3);
    let x = g.conv("conv1", x, Conv2d::new(3, 16, 3).padding(1));
    let x = g.batch_norm("bn1", x, 1e-5);
    let x = g.activation("relu", x, Activation::Relu);
    let x = g.conv("conv2", x, Conv2d::new(16, 16, 3).padding(1));
    let x = g.batch_norm("bn2", x, 1e-5);
    let x = g.global_avg_pool("pool", x);
    let x = g.linear("fc", x, 16, 4);
    let plan = plan(&g.finish(x).unwrap(), 2, Purpose::Adapt);
    let stored = plan.values().iter().filter(|value| matches!(value.storage, Storage::Buffer(_))).count();
    assert_eq!(stored, 4, "two convolutions, the pool and the logits");
    assert_eq!(plan.forward().len(), 4);
}

#[test]
fn the_backward_pass_stops_at_the_first_norm() {
    let (mut g, x) = GraphBuilder::new(3);
    let x = g.conv("stem", x, Conv2d::new(3, 8, 3).padding(1));
    let x = g.conv("second", x, Conv2d::new(8, 8, 3).padding(1));
    let x = g.batch_norm("bn", x, 1e-5);
    let x = g.conv("third", x, Conv2d::new(8, 8, 3).padding(1));
    let x = g.global_avg_pool("pool", x);
    let x = g.linear("fc", x, 8, 4);
    let graph = g.finish(x).unwrap();
    let undone: Vec<String> = plan(&graph, 2, Purpose::Adapt)
        .backward()
        .iter()
        .filter_map(|step| match step {
            BackwardStep::Conv { node, .. } => Some(graph.node(*node).name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(undone, ["fc", "third"]);
}

#[test]
fn an_unknown_tap_names_the_nearest_node() {
    let graph = random_graph(&[3, 5]);
    let options = PlanOptions { batch: 1, height: 6, width: 5, purpose: Purpose::Predict, taps: vec!["poool".into()] };
    let error = Plan::new(&graph, options).unwrap_err();
    assert_eq!(error, PlanError::UnknownTap { name: "poool".into(), nearest: "`pool`, `input`, `stem`".into() });
}

#[test]
fn images_too_small_for_a_layer_are_refused() {
    let (mut g, x) = GraphBuilder::new(3);
    let x = g.conv("big", x, Conv2d::new(3, 8, 7));
    let x = g.global_avg_pool("pool", x);
    let x = g.linear("fc", x, 8, 4);
    let options = PlanOptions { batch: 1, height: 5, width: 9, purpose: Purpose::Predict, taps: Vec::new() };
    let error = Plan::new(&g.finish(x).unwrap(), options).unwrap_err();
    assert_eq!(error.to_string(), "images of 5 x 9 x 3 leave nothing for `big`, whose input is 5 x 9 x 3");
}

#[test]
fn windows_that_do_not_tile_the_map_are_refused() {
    let (mut g, x) = GraphBuilder::new(6);
    let attention = Attention::new(1, 1.0).tokens(Tokens::Grid { size: 4 });
    let x = g.attention("attn", x, attention);
    let x = g.global_avg_pool("pool", x);
    let x = g.linear("fc", x, 2, 4);
    let error = g.finish(x).unwrap().infer_dims(8, 6).unwrap_err();
    assert_eq!(error.to_string(), "`attn` cuts 8 x 6 x 6 into windows of 4 x 4, which do not tile it; pad first");
}

#[test]
fn positions_for_another_image_size_are_refused() {
    let (mut g, x) = GraphBuilder::new(3);
    let x = g.prepend_tokens("class_token", x, 1);
    let x = g.add_position("positions", x, 17);
    let x = g.token_range("first", x, 0, 1);
    let x = g.linear("fc", x, 3, 4);
    let graph = g.finish(x).unwrap();
    assert!(graph.infer_dims(4, 4).is_ok());
    assert_eq!(
        graph.infer_dims(4, 5).unwrap_err().to_string(),
        "`positions` has values for 17 tokens, found 21 x 1 x 3"
    );
}

#[test]
fn logits_of_several_tokens_are_refused() {
    let (mut g, x) = GraphBuilder::new(3);
    let x = g.linear("fc", x, 3, 4);
    let error = g.finish(x).unwrap().infer_dims(2, 2).unwrap_err();
    assert!(matches!(error, PlanError::NotFlat { .. }), "{error}");
}

#[test]
fn a_residual_branch_that_ends_in_a_linear_layer_shares_the_gradient_of_the_sum() {
    let (mut g, x) = GraphBuilder::new(6);
    let x = g.norm("ln_1", x, NormKind::Layer, 1e-5);
    let y = g.norm("ln_2", x, NormKind::Layer, 1e-5);
    let y = g.linear("mlp", y, 6, 6);
    let x = g.add("add", x, y);
    let x = g.global_avg_pool("pool", x);
    let x = g.linear("fc", x, 6, 4);
    let plan = plan(&g.finish(x).unwrap(), 2, Purpose::Adapt);
    let copies = |step: &&BackwardStep| matches!(step, BackwardStep::Copy { .. });
    assert_eq!(plan.backward().iter().find(copies), None);
}
