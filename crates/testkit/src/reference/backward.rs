use super::attention::AttentionRun;
use super::norm::normalise_backward;
use super::{Reference, ReferenceError, ReferenceRun, ReferenceValue};
use super::{activation, conv, dense, pool, tokens};
use flipcast_graph::{Node, Op};

impl Reference {
    /// The gradient over the affine vector of the scalar function of the logits whose derivative is `logit_gradient`,
    /// at the scales and shifts that `run` was made with, along the branches of [`ReferenceRun::along`] if it has any.
    pub fn backward(&self, run: &ReferenceRun, logit_gradient: &[f64]) -> Result<Vec<f64>, ReferenceError> {
        let (expected, found) = (run.logits().len(), logit_gradient.len());
        if found != expected {
            return Err(ReferenceError::GradientLength { expected, found });
        }
        let nodes = self.graph().nodes();
        let follows_norm = self.follows_norm();
        let mut affine = vec![0.0; run.affine.len()];
        let mut gradients: Vec<Option<ReferenceValue>> = vec![None; nodes.len()];
        let output = self.graph().output().index();
        gradients[output] = Some(ReferenceValue { dims: run.values[output].dims, values: logit_gradient.to_vec() });
        for (i, node) in nodes.iter().enumerate().rev() {
            if !follows_norm[i] {
                continue;
            }
            // A node that nothing on the way to the logits reads has no gradient.
            let Some(gradient) = gradients[i].take() else {
                continue;
            };
            let taken = run.branches.get(i).and_then(Option::as_ref);
            let passed = self.pass_back((node, taken), &gradient, run, &mut affine)?;
            for (input, gradient) in node.inputs.iter().zip(passed) {
                let sum = &mut gradients[input.index()];
                *sum = Some(match sum.take() {
                    Some(before) => dense::add(&before, &gradient),
                    None => gradient,
                });
            }
        }
        Ok(affine)
    }

    /// The gradients of the inputs of a node, in order, along the branches of the values `taken` if there are any. A norm also
    /// writes those of its scale and shift into `affine`.
    fn pass_back(
        &self,
        (node, taken): (&Node, Option<&ReferenceValue>),
        gradient: &ReferenceValue,
        run: &ReferenceRun,
        affine: &mut [f64],
    ) -> Result<Vec<ReferenceValue>, ReferenceError> {
        let input = |i: usize| run.values[node.inputs[i].index()].as_ref();
        let param = |suffix: &str| self.param(node, suffix);
        let unknown = || ReferenceError::unknown_op(node);
        Ok(match &node.op {
            Op::Conv2d(conv) => {
                let dims = input(0).dims;
                let (corner, _) = conv.resolve(dims).ok_or_else(unknown)?;
                let weight = param("weight");
                vec![conv::convolve_backward(gradient, conv, (corner, dims), weight)]
            }
            Op::Norm(layer) => {
                let params = self.norm_params(node, layer, run);
                let found = normalise_backward(gradient, input(0), layer, self.norm_mode(node, run), &params);
                let (scale, shift) = affine[self.affine_range(node)].split_at_mut(layer.channels);
                scale.copy_from_slice(&found.scale);
                shift.copy_from_slice(&found.shift);
                vec![found.input]
            }
            Op::Activation(kind) => {
                let mut passed = match taken {
                    // Between its kinks, an output of ReLU or ReLU6 is its input.
                    Some(outputs) => outputs.map(activation::slope(*kind)),
                    None => input(0).map(activation::slope(*kind)),
                };
                let pairs = passed.values.iter_mut().zip(&gradient.values);
                pairs.for_each(|(slope, gradient)| *slope *= gradient);
                vec![passed]
            }
            Op::MaxPool(pool) => vec![pool::max_pool_backward(gradient, taken.unwrap_or(input(0)), *pool)],
            Op::AvgPool(pool) => vec![pool::avg_pool_backward(gradient, *pool, input(0).dims)],
            Op::GlobalAvgPool => vec![pool::global_avg_pool_backward(gradient, input(0).dims)],
            Op::Add => vec![gradient.clone(), gradient.clone()],
            Op::Mul => dense::mul_backward(gradient, input(0), input(1)).into(),
            Op::Linear { .. } | Op::Projection { .. } => {
                vec![dense::linear_backward(gradient, param("weight"))]
            }
            Op::Attention(attention) => {
                let table = attention.weights().map_or(&[][..], |(name, _)| param(name));
                let run = AttentionRun::new(input(0), attention, table).ok_or_else(unknown)?;
                vec![run.backward(gradient)]
            }
            Op::Arrange(arrangement) => {
                vec![tokens::arrange_backward(gradient, *arrangement, input(0).dims)]
            }
            Op::PickChannels(runs) => {
                let inputs = 0..node.inputs.len();
                inputs.map(|i| tokens::pick_channels_backward(gradient, runs, i, input(i).dims)).collect()
            }
            Op::AddPosition { .. } => vec![gradient.clone()],
            Op::Scale => vec![tokens::scale(gradient, param(""))],
            Op::Flatten => vec![dense::flatten_backward(gradient, input(0).dims)],
            Op::Transpose { .. } => vec![dense::transpose_backward(gradient, input(0).dims)],
            Op::ShortcutA { stride, .. } => {
                vec![dense::shortcut_a_backward(gradient, *stride, input(0).dims)]
            }
            Op::Input { .. } => return Err(unknown()),
        })
    }

    /// For each node, whether it is a norm or depends on one. Gradients of others lead nowhere.
    fn follows_norm(&self) -> Vec<bool> {
        let nodes = self.graph().nodes();
        let mut follows = Vec::with_capacity(nodes.len());
        for node in nodes {
            let through_input = node.inputs.iter().any(|input| follows[input.index()]);
            follows.push(matches!(node.op, Op::Norm(_)) || through_input);
        }
        follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, CentralDifferences, Coordinates, Loss, cases, random_graph, relative_l2};

    /// Largest relative L2 distance from central differences, over all modes and both losses.
    fn worst_error(case: &Case) -> f64 {
        let reference = case.reference();
        let (batch, affine) = (case.batch(), reference.affine());
        let classes = case.graph.num_classes();
        let mut worst: f64 = 0.0;
        for mode in case.modes() {
            let run = reference.forward(&batch, mode, &affine).unwrap();
            let differences = CentralDifferences::sample(
                &reference,
                &batch,
                mode,
                &affine,
                Coordinates::All,
                CentralDifferences::STEP,
            )
            .unwrap();
            for loss in [Loss::MeanEntropy { classes }, Loss::random_linear(run.logits().len(), 29)] {
                let expected = differences.gradient(&|logits| loss.value(logits)).unwrap();
                let found = reference.backward(&run, &loss.gradient(run.logits())).unwrap();
                let found: Vec<f64> = expected.coordinates.iter().map(|&i| found[i]).collect();
                let error = relative_l2(&found, &expected.values);
                worst = worst.max(error);
            }
        }
        worst
    }

    /// Rounding of the differences, largest where the entropy is nearly flat; measured 5.6e-8.
    const ROUNDING: f64 = 1e-7;

    fn check(cases: impl Iterator<Item = Case>) {
        let mut worst = (0.0, String::new());
        for case in cases {
            let error = worst_error(&case);
            assert!(error <= ROUNDING, "{}: {error:e}", case.name);
            if error > worst.0 {
                worst = (error, case.name);
            }
        }
        println!("largest error {:.1e} in `{}`", worst.0, worst.1);
    }

    #[test]
    fn every_case_equals_central_differences() {
        check(cases().into_iter());
    }

    #[test]
    fn random_graphs_equal_central_differences() {
        check((0..12).map(random_graph));
    }

    #[test]
    fn a_short_logit_gradient_is_refused() {
        let case = cases().swap_remove(0);
        let reference = case.reference();
        let run = reference.forward(&case.batch(), case.modes()[0], &reference.affine()).unwrap();
        let error = reference.backward(&run, &[1.0]).unwrap_err();
        assert!(matches!(error, ReferenceError::GradientLength { found: 1, .. }), "{error}");
    }
}
