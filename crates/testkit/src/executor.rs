use crate::{Reference, ReferenceError, ReferenceNorm, ReferenceRun};
use flipcast_exec::{ExecError, Executor, Logits, NetworkOptions, NormMode};
use flipcast_graph::{AffineTable, Dims, Graph, NormKind, Plan, PlanOptions, Purpose};
use flipcast_tensor::{Batch, Tensor};
use std::collections::HashMap;

/// The [`Reference`] as an executor: `f64` inside, `f32` where the trait says so (batch, logits, logit gradient, affine
/// vector and its gradient). Slow, and right to within that rounding.
///
/// It takes the options of a [`Network`](flipcast_exec::Network) and refuses what that refuses, in the same words, so
/// that an adapter proved here asks nothing a real executor would not do. Threads, exactness and instruction set have
/// no meaning for it.
#[derive(Clone, Debug)]
pub struct ReferenceExecutor {
    reference: Reference,
    plan: Plan,
    table: AffineTable,
    mode: NormMode,
    affine: Vec<f32>,
    source: Vec<f32>,
    run: Option<ReferenceRun>,
    ready: bool,
    logits: Vec<f32>,
    gradient: Vec<f32>,
}

impl ReferenceExecutor {
    /// Takes the parameters the graph names from `params`.
    pub fn new(
        graph: &Graph,
        params: &HashMap<String, Tensor>,
        options: &NetworkOptions,
    ) -> Result<Self, ExecError> {
        let plan = Plan::new(
            graph,
            PlanOptions {
                batch: options.batch,
                height: options.height,
                width: options.width,
                purpose: options.purpose,
                taps: options.taps.clone(),
            },
        )?;
        let reference = Reference::new(graph, params).map_err(exec_error)?;
        for spec in graph.params() {
            let tensor = params.get(&spec.name);
            if tensor.is_some_and(|tensor| !all_finite(tensor.values())) {
                return Err(ExecError::NonFiniteParam { name: spec.name });
            }
        }
        let source = narrow(&reference.affine());
        Ok(Self {
            plan,
            table: graph.affine_table(),
            mode: NormMode::Running,
            affine: source.clone(),
            source,
            run: None,
            ready: false,
            logits: Vec::new(),
            gradient: Vec::new(),
            reference,
        })
    }

    /// Every node's value in the last forward pass, in `f64`.
    pub fn run(&self) -> Option<&ReferenceRun> {
        self.run.as_ref()
    }

    fn check_batch(&self, batch: &Batch) -> Result<(), ExecError> {
        let options = self.plan.options();
        let channels = self.reference.graph().input_channels();
        let expected = Dims::new(options.height, options.width, channels);
        let found = Dims::new(batch.height(), batch.width(), batch.channels());
        if found != expected {
            return Err(ExecError::BatchShape {
                found: found.len(),
                found_extents: found.to_string(),
                expected: expected.to_string(),
            });
        }
        if batch.images() == 0 || batch.images() > options.batch {
            return Err(ExecError::BatchSize {
                found: batch.images(),
                planned: options.batch,
            });
        }
        if self.mode != NormMode::Running {
            let single = self.plan.norms().iter().find(|slot| {
                slot.layer.kind == NormKind::Batch && batch.images() * slot.dims.pixels() < 2
            });
            if let Some(slot) = single {
                let norm = self.reference.graph().node(slot.node).name.clone();
                return Err(ExecError::TooFewValues { norm });
            }
        }
        match (0..batch.images()).find(|&i| !all_finite(batch.image(i))) {
            Some(image) => Err(ExecError::NonFiniteInput { image }),
            None => Ok(()),
        }
    }
}

impl Executor for ReferenceExecutor {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.ready = false;
        self.check_batch(batch)?;
        let mode = match self.mode {
            NormMode::Running => ReferenceNorm::Running,
            NormMode::Batch => ReferenceNorm::Batch,
            NormMode::Mixed { source_weight } => ReferenceNorm::Mixed {
                source_weight: f64::from(source_weight),
            },
        };
        let affine = widen(&self.affine);
        let run = self.reference.forward(batch, mode, &affine);
        let run = self.run.insert(run.map_err(exec_error)?);
        self.logits = narrow(run.logits());
        let logits = Logits::new(&self.logits, self.reference.graph().num_classes());
        if let Some(image) = logits.rows().position(|row| !all_finite(row)) {
            return Err(ExecError::NonFiniteLogits { image });
        }
        self.ready = true;
        Ok(logits)
    }

    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        if self.plan.options().purpose == Purpose::Predict {
            return Err(ExecError::NotReady {
                needed: "a network planned to adapt, not only to predict",
            });
        }
        let run = match &self.run {
            Some(run) if std::mem::take(&mut self.ready) => run,
            _ => return Err(NO_FORWARD_PASS),
        };
        let expected = run.logits().len();
        if logit_gradient.len() != expected {
            return Err(ExecError::Length {
                what: "the logit gradient",
                found: logit_gradient.len(),
                expected,
            });
        }
        let gradient = self.reference.backward(run, &widen(logit_gradient));
        self.gradient = narrow(&gradient.map_err(exec_error)?);
        let bad = |(_, range): &(String, std::ops::Range<usize>)| {
            !all_finite(&self.gradient[range.clone()])
        };
        if let Some((parameter, _)) = self.table.names().find(bad) {
            return Err(ExecError::NonFiniteGradient { parameter });
        }
        Ok(&self.gradient)
    }

    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        let node = self.reference.graph().find(name);
        let Some(node) = node.filter(|&node| self.plan.tap(node).is_some()) else {
            return Err(ExecError::UnknownTap {
                name: name.to_owned(),
            });
        };
        let run = self.run.as_ref().ok_or(NO_FORWARD_PASS)?;
        let value = &run.values[node.index()];
        let (images, dims) = (value.images(), value.dims);
        let values = narrow(&value.values);
        let tensor = if dims.pixels() == 1 {
            Tensor::new([images, dims.channels], values)
        } else {
            Tensor::new([images, dims.height, dims.width, dims.channels], values)
        };
        Ok(tensor.expect("as many values as the extents say"))
    }

    fn affine(&self) -> &[f32] {
        &self.affine
    }

    fn affine_mut(&mut self) -> &mut [f32] {
        &mut self.affine
    }

    fn source_affine(&self) -> &[f32] {
        &self.source
    }

    fn affine_table(&self) -> &AffineTable {
        &self.table
    }

    fn norm_mode(&self) -> NormMode {
        self.mode
    }

    fn set_norm_mode(&mut self, mode: NormMode) -> Result<(), ExecError> {
        if let NormMode::Mixed { source_weight } = mode
            && !(0.0..=1.0).contains(&source_weight)
        {
            return Err(ExecError::SourceWeight {
                found: source_weight,
            });
        }
        self.mode = mode;
        self.ready = false;
        Ok(())
    }

    fn num_classes(&self) -> usize {
        self.reference.graph().num_classes()
    }

    fn reset_affine(&mut self) {
        self.affine.copy_from_slice(&self.source);
    }
}

const NO_FORWARD_PASS: ExecError = ExecError::NotReady {
    needed: "a forward pass of its own",
};

/// The executors' word for what the reference says.
fn exec_error(error: ReferenceError) -> ExecError {
    match error {
        ReferenceError::MissingParam { name, expected } => {
            ExecError::MissingParam { name, expected }
        }
        ReferenceError::ShapeMismatch {
            name,
            expected,
            found,
        } => ExecError::ParamShape {
            name,
            expected,
            found,
        },
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

fn all_finite(values: &[f32]) -> bool {
    values.iter().all(|v| v.is_finite())
}

#[cfg(test)]
mod tests;
