//! Where the time of a step goes, by kind of work and extents.

use flipcast_exec::Network;
use flipcast_graph::{BackwardStep, Graph, NodeId, Op, Plan, Step, ValueId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Time and operations of steps that do the same work.
#[derive(Default, Serialize)]
pub struct Share {
    work: String,
    ms: f64,
    steps: usize,
    gflop: f64,
}

/// What `net` spent its time on, most expensive first, per adaptation step of `images` images.
pub fn shares(net: &Network, graph: &Graph, images: usize, rounds: usize) -> Vec<Share> {
    let Some(times) = net.profile() else {
        return Vec::new();
    };
    let plan = net.plan();
    let algorithms = net.algorithms();
    let algorithm = |node: NodeId, backward: bool| {
        let name = graph.node(node).name.as_str();
        let found = algorithms.iter().find(|(layer, ..)| *layer == name);
        found.and_then(|(_, f, b)| if backward { *b } else { Some(*f) }).unwrap_or("")
    };
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    let mut add = |key: String, time: std::time::Duration, gflop: f64| {
        let share = shares.entry(key).or_default();
        share.ms += time.as_secs_f64() * 1e3 / rounds as f64;
        share.steps += 1;
        share.gflop += gflop;
    };
    for (step, time) in plan.forward().iter().zip(&times.forward) {
        let key = match step {
            Step::Conv { node, source, target, .. } => {
                conv_key("forward", algorithm(*node, false), graph, plan, *node, *source, *target)
            }
            other => format!("forward {}", short(&format!("{other:?}"))),
        };
        let gflop = match step {
            Step::Conv { node, target, .. } => conv_gflop(graph, plan, *node, *target, images),
            _ => 0.0,
        };
        add(key, *time, gflop);
    }
    for (step, time) in plan.backward().iter().zip(&times.backward) {
        let (key, gflop) = match step {
            BackwardStep::Conv { node, .. } => {
                let ends = plan.forward().iter().find_map(|step| match step {
                    Step::Conv { node: layer, source, target, .. } if layer == node => Some((*source, *target)),
                    _ => None,
                });
                match ends {
                    Some((source, target)) => (
                        conv_key("backward", algorithm(*node, true), graph, plan, *node, source, target),
                        conv_gflop(graph, plan, *node, target, images),
                    ),
                    None => ("backward conv".to_owned(), 0.0),
                }
            }
            other => (format!("backward {}", short(&format!("{other:?}"))), 0.0),
        };
        add(key, *time, gflop);
    }
    let mut shares: Vec<Share> = shares.into_iter().map(|(work, share)| Share { work, ..share }).collect();
    shares.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    shares
}

/// The same as a table.
pub fn render(shares: &[Share]) -> String {
    let total: f64 = shares.iter().map(|share| share.ms).sum();
    let rows: Vec<Vec<String>> = shares
        .iter()
        .map(|share| {
            let rate = if share.gflop > 0.0 { format!("{:.0}", share.gflop / share.ms * 1e3) } else { String::new() };
            vec![
                format!("{:.1}", share.ms),
                format!("{:.1}", 100.0 * share.ms / total),
                share.steps.to_string(),
                rate,
                share.work.clone(),
            ]
        })
        .collect();
    crate::table::render(&[">ms", ">%", ">steps", ">GFLOP/s", "work"], &rows)
}

fn conv_key(
    direction: &str,
    algorithm: &str,
    graph: &Graph,
    plan: &Plan,
    node: NodeId,
    source: ValueId,
    target: ValueId,
) -> String {
    let (input, output) = (plan.value(source).dims, plan.value(target).dims);
    let kernel = match &graph.node(node).op {
        Op::Conv2d(conv) => format!("{}x{}/{}", conv.kernel[0], conv.kernel[1], conv.stride),
        _ => "linear".to_owned(),
    };
    format!("{direction} {algorithm} {kernel}, {input} -> {}", output.channels)
}

fn conv_gflop(graph: &Graph, plan: &Plan, node: NodeId, target: ValueId, images: usize) -> f64 {
    let per_pixel = match &graph.node(node).op {
        Op::Conv2d(conv) => conv.out_channels * conv.in_channels / conv.groups * conv.kernel[0] * conv.kernel[1],
        Op::Linear { inputs, outputs } | Op::Projection { inputs, outputs } => inputs * outputs,
        _ => 0,
    };
    2.0 * (per_pixel * plan.value(target).dims.pixels() * images) as f64 / 1e9
}

/// The name of a step: what stands before its fields.
fn short(debug: &str) -> String {
    debug.split([' ', '{']).next().unwrap_or_default().to_lowercase()
}
