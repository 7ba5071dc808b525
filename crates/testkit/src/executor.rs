use crate::{Reference, ReferenceError, ReferenceRun, ReferenceValue};
use flipcast_executor::{ExecError, Executor, ExecutorState, Logits, checks};
use flipcast_graph::{Graph, Plan, PlanOptions};
use flipcast_tensor::{Batch, Tensor};
use std::collections::HashMap;

/// The [`Reference`] as an executor: `f64` inside, `f32` where the trait says so (batch, logits, logit gradient, affine
/// vector and its gradient). Slow, and right to within that rounding.
///
/// It refuses what other executors refuse, in the same words, so that an adapter proved here asks nothing a real executor
/// would not do.
#[derive(Clone, Debug)]
pub struct ReferenceExecutor {
    reference: Reference,
    plan: Plan,
    state: ExecutorState,
    run: Option<ReferenceRun>,
    logits: Vec<f32>,
    gradient: Vec<f32>,
}

impl ReferenceExecutor {
    /// Takes the parameters the graph names from `params`.
    pub fn new(graph: &Graph, params: &HashMap<String, Tensor>, options: PlanOptions) -> Result<Self, ExecError> {
        let plan = Plan::new(graph, options)?;
        let reference = Reference::new(graph, params).map_err(exec_error)?;
        for spec in graph.params() {
            let tensor = params.get(&spec.name);
            if tensor.is_some_and(|tensor| !checks::all_finite(tensor.values())) {
                return Err(ExecError::NonFiniteParam { name: spec.name });
            }
        }
        let affine = narrow(&reference.affine());
        Ok(Self {
            plan,
            state: ExecutorState::of_parts(graph.affine_table(), affine, graph.num_classes()),
            run: None,
            logits: Vec::new(),
            gradient: Vec::new(),
            reference,
        })
    }

    /// Every node's value in the last forward pass, in `f64`.
    pub fn run(&self) -> Option<&ReferenceRun> {
        self.run.as_ref()
    }
}

impl Executor for ReferenceExecutor {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.state.ready = false;
        checks::check_extents(self.reference.graph(), &self.plan, self.norm_mode(), batch)?;
        checks::check_images(batch)?;
        let affine = widen(self.affine());
        let run = self.reference.forward(batch, self.norm_mode().into(), &affine);
        let run = self.run.insert(run.map_err(exec_error)?);
        self.logits = narrow(run.logits());
        let logits = Logits::new(&self.logits, self.reference.graph().num_classes());
        let logits = checks::check_logits(logits)?;
        self.state.ready = true;
        Ok(logits)
    }

    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        let expected = self.logits.len();
        checks::check_backward(&self.plan, &mut self.state, logit_gradient, expected)?;
        let run = self.run.as_ref().expect("ready means that there is one");
        let gradient = self.reference.backward(run, &widen(logit_gradient));
        self.gradient = narrow(&gradient.map_err(exec_error)?);
        checks::check_gradient(&self.state, &self.gradient)?;
        Ok(&self.gradient)
    }

    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        checks::find_tap(self.reference.graph(), &self.plan, name)?;
        let value = self.run.as_ref().and_then(|run| run.value(name));
        checks::check_predicted(value.map_or(0, ReferenceValue::images))?;
        let value = value.expect("it has images");
        let values = narrow(&value.values);
        Ok(checks::tap_tensor(value.images(), value.dims, values))
    }

    fn state(&self) -> &ExecutorState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ExecutorState {
        &mut self.state
    }
}

/// The executors' word for what the reference says.
fn exec_error(error: ReferenceError) -> ExecError {
    match error {
        ReferenceError::MissingParam { name, expected } => ExecError::MissingParam { name, expected },
        ReferenceError::ShapeMismatch { name, expected, found } => ExecError::ParamShape { name, expected, found },
        ReferenceError::Dims(error) => ExecError::Plan(error),
        // Lengths were checked before, so only an operator that the planner knows and the reference lacks is left.
        other => panic!("the reference is behind the graph: {other}"),
    }
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

#[cfg(test)]
mod tests;
