use crate::{Crossing, ReferenceExecutor, relative_l2};
use flipcast_executor::{ExecError, Executor, ExecutorState, Logits};
use flipcast_tensor::{Batch, Tensor};

/// Who decides where a [`Pair`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// The executor under test.
    Engine,
    /// The double-precision reference.
    Reference,
}

/// What one forward pass of a [`Pair`], and the backward pass after it, showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// Relative L2 distance of the engine's logits.
    pub logits: f64,
    /// Relative L2 distance of the engine's affine gradient; `None` without a backward pass.
    pub gradient: Option<f64>,
    /// Where the engine took another branch than the reference.
    pub crossings: Vec<Crossing>,
}

/// An engine and the double-precision reference on the same path: every pass runs both on the same batch, in the same
/// mode, with the leader's affine vector and from the same logit gradient. To others it is the leader alone.
///
/// The engine must tap what [`crossing_taps`](crate::crossing_taps) names.
pub struct Pair {
    lead: Lead,
    engine: Box<dyn Executor>,
    reference: ReferenceExecutor,
    passes: Vec<Pass>,
    /// The leader's last logits.
    logits: Vec<f32>,
}

impl Pair {
    /// A pair that has made no pass. Both must be made of the same graph and parameters.
    pub fn new(lead: Lead, engine: Box<dyn Executor>, reference: ReferenceExecutor) -> Self {
        Self { lead, engine, reference, passes: Vec::new(), logits: Vec::new() }
    }

    /// All passes so far.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// The crossings of all passes.
    pub fn crossings(&self) -> impl Iterator<Item = &Crossing> {
        self.passes.iter().flat_map(|pass| &pass.crossings)
    }

    fn lead(&self) -> &dyn Executor {
        match self.lead {
            Lead::Engine => self.engine.as_ref(),
            Lead::Reference => &self.reference,
        }
    }

    fn lead_mut(&mut self) -> &mut dyn Executor {
        match self.lead {
            Lead::Engine => self.engine.as_mut(),
            Lead::Reference => &mut self.reference,
        }
    }

    fn find_crossings(&mut self) -> Result<Vec<Crossing>, ExecError> {
        let Some(run) = self.reference.run() else {
            return Ok(Vec::new());
        };
        run.crossings(|name| Ok(self.engine.tap(name)?.into_values()))
    }
}

impl Executor for Pair {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        let (affine, mode) = (self.affine().to_vec(), self.norm_mode());
        for net in [self.engine.as_mut(), &mut self.reference] {
            net.affine_mut().copy_from_slice(&affine);
            net.set_norm_mode(mode)?;
        }
        let of_engine = self.engine.forward(batch)?.values().to_vec();
        let of_reference = self.reference.forward(batch)?.values().to_vec();
        let crossings = self.find_crossings()?;
        self.passes.push(Pass {
            logits: relative_l2(&widen(&of_engine), &widen(&of_reference)),
            gradient: None,
            crossings,
        });
        self.logits = match self.lead {
            Lead::Engine => of_engine,
            Lead::Reference => of_reference,
        };
        Ok(Logits::new(&self.logits, self.reference.num_classes()))
    }

    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        let of_engine = self.engine.backward(logit_gradient)?;
        let of_reference = self.reference.backward(logit_gradient)?;
        let distance = relative_l2(&widen(of_engine), &widen(of_reference));
        let pass = self.passes.last_mut();
        pass.expect("a forward pass came first").gradient = Some(distance);
        Ok(match self.lead {
            Lead::Engine => of_engine,
            Lead::Reference => of_reference,
        })
    }

    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        self.lead_mut().tap(name)
    }

    fn state(&self) -> &ExecutorState {
        self.lead().state()
    }

    fn state_mut(&mut self) -> &mut ExecutorState {
        self.lead_mut().state_mut()
    }
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Loss, cases, crossing_taps};
    use flipcast_exec::{Network, NetworkOptions};
    use flipcast_executor::NormMode;

    fn case() -> Case {
        let mut cases = cases();
        cases.retain(|case| case.name == "max_pool3x3_s2_odd");
        cases.swap_remove(0)
    }

    /// One forward and one backward pass in batch mode, with the leader's first scale moved.
    fn run(lead: Lead) -> (Pair, Vec<f32>) {
        let case = case();
        let options = NetworkOptions {
            threads: 1,
            taps: crossing_taps(&case.graph),
            ..NetworkOptions::adapt(case.batch_size, case.height, case.width)
        };
        let engine = Network::new(&case.graph, &case.params, &options).unwrap();
        let reference = ReferenceExecutor::new(&case.graph, &case.params, options.plan_options()).unwrap();
        let mut pair = Pair::new(lead, Box::new(engine), reference);
        pair.set_norm_mode(NormMode::Batch).unwrap();
        pair.affine_mut()[0] += 0.125;
        let logits = widen(pair.forward(&case.batch()).unwrap().values());
        let classes = case.graph.num_classes();
        let gradient = Loss::MeanEntropy { classes }.gradient(&logits);
        let gradient: Vec<f32> = gradient.iter().map(|&g| g as f32).collect();
        let affine_gradient = pair.backward(&gradient).unwrap().to_vec();
        (pair, affine_gradient)
    }

    #[test]
    fn both_go_where_the_leader_goes() {
        for lead in [Lead::Engine, Lead::Reference] {
            let (pair, _) = run(lead);
            assert_eq!(pair.engine.affine(), pair.reference.affine());
            assert_eq!(pair.engine.norm_mode(), NormMode::Batch);
            assert_eq!(pair.reference.norm_mode(), NormMode::Batch);
            let [pass] = pair.passes() else {
                panic!("{} passes", pair.passes().len());
            };
            assert_eq!(pass.crossings, []);
            // What single precision leaves of a network of two layers; measured 2.3e-7 and 2.6e-7.
            assert!(pass.logits <= 9e-7, "{pass:?}");
            assert!(pass.gradient.unwrap() <= 1e-6, "{pass:?}");
        }
    }

    #[test]
    fn the_results_are_those_of_the_leader() {
        let ((engine, of_engine), (reference, of_reference)) = (run(Lead::Engine), run(Lead::Reference));
        assert_ne!(engine.logits, reference.logits);
        assert_ne!(of_engine, of_reference);
        let run = reference.reference.run().unwrap();
        assert!(reference.logits.iter().zip(run.logits()).all(|(&a, &b)| a == b as f32));
    }

    #[test]
    fn an_engine_without_the_taps_is_refused() {
        let case = case();
        let options = NetworkOptions::adapt(case.batch_size, case.height, case.width);
        let engine = Network::new(&case.graph, &case.params, &options).unwrap();
        let reference = ReferenceExecutor::new(&case.graph, &case.params, options.plan_options()).unwrap();
        let mut pair = Pair::new(Lead::Engine, Box::new(engine), reference);
        let error = pair.forward(&case.batch()).unwrap_err();
        assert!(matches!(error, ExecError::UnknownTap { .. }), "{error}");
    }
}
