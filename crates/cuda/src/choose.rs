//! Choosing how to run a layer, by trying.

use crate::choices::{Choice, Choices};
use crate::cudnn::{self, ConvPlan, Dnn};
use crate::device::{Device, DeviceMemory};
use crate::error::CudaError;
use crate::gemm::{Blas, Direction, Product, Shape};
use crate::launch::norm::Term;
use crate::layers::{Chosen, Layer, Way, Workspaces};
use crate::module::Kernels;
use crate::timer::Timer;
use std::collections::HashMap;
use std::sync::Arc;

/// Runs to time every candidate.
const RUNS: usize = 3;

/// What is needed to choose.
pub(crate) struct Chooser<'a> {
    pub kernels: &'a Kernels,
    pub blas: &'a Arc<Blas>,
    pub dnn: &'a Arc<Dnn>,
    pub workspaces: Workspaces,
    pub batch: usize,
    timer: Timer,
    /// Of this network's layers; plans of the library are shared between layers of one shape.
    known: HashMap<String, (Way, f32)>,
    choices: Choices,
}

impl<'a> Chooser<'a> {
    pub fn new(
        device: &'a Arc<Device>,
        kernels: &'a Kernels,
        (blas, dnn): (&'a Arc<Blas>, &'a Arc<Dnn>),
        workspaces: Workspaces,
        batch: usize,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            kernels,
            blas,
            dnn,
            workspaces,
            batch,
            timer: Timer::new(device)?,
            known: HashMap::new(),
            choices: Choices::load(device, kernels.precision)?,
        })
    }

    /// The fastest way to run `layer` in a direction. Layers of one shape are tried once.
    pub fn choose(&mut self, layer: &Layer, direction: Direction) -> Result<Chosen, CudaError> {
        let key =
            format!("{} {:?} {direction:?} bias {} {:?}", self.batch, layer.shape, layer.bias.is_some(), layer.result);
        let product = self.product(layer, direction)?;
        if let Some((way, milliseconds)) = self.known.get(&key) {
            let product = product.filter(|_| matches!(way, Way::Product(_)));
            return Ok(Chosen { way: way.clone(), product, milliseconds: *milliseconds });
        }
        let before = self.choices.find(&key).cloned();
        let product = match before {
            Some(choice) => match self.again(layer, direction, product, &choice)? {
                Ok(chosen) => {
                    let entry = (chosen.way.clone(), chosen.milliseconds);
                    self.known.insert(key, entry);
                    return Ok(chosen);
                }
                Err(product) => product,
            },
            None => product,
        };
        let mut best = Chosen { way: Way::Plain, product: None, milliseconds: f32::INFINITY };
        for (way, product) in self.candidates(layer, direction, product)? {
            let mut chosen = Chosen { way, product, milliseconds: 0.0 };
            let most = match &chosen.product {
                Some(product) => product.algorithms(),
                None => 1,
            };
            for at in 0..most {
                if chosen.product.is_some() {
                    chosen.way = Way::Product(at);
                }
                // A way that fails is no way; if none is left, the plain loop is.
                let Ok(time) = self.time(layer, direction, &chosen) else {
                    continue;
                };
                if time < best.milliseconds {
                    best.milliseconds = time;
                    best.way = chosen.way.clone();
                }
            }
            if matches!(best.way, Way::Product(_)) && chosen.product.is_some() {
                best.product = chosen.product;
            }
        }
        if !matches!(best.way, Way::Product(_)) {
            best.product = None;
        }
        let choice = Choice { way: best.name(), milliseconds: best.milliseconds };
        self.choices.keep(key.clone(), choice);
        self.known.insert(key, (best.way.clone(), best.milliseconds));
        Ok(best)
    }

    /// The way that won before, or the product back where the library no longer offers it.
    fn again(
        &self,
        layer: &Layer,
        direction: Direction,
        product: Option<Product>,
        choice: &Choice,
    ) -> Result<Result<Chosen, Option<Product>>, CudaError> {
        let milliseconds = choice.milliseconds;
        let number = |prefix: &str| choice.way.strip_prefix(prefix)?.parse::<usize>().ok();
        let (way, product) = match (product, number("cublaslt "), number("cudnn ")) {
            (Some(product), Some(at), _) if at < product.algorithms() => (Way::Product(at), Some(product)),
            (product, None, Some(at)) => match self.plans(layer, direction, Some(at))?.into_iter().next() {
                Some(way) => (way, None),
                None => return Ok(Err(product)),
            },
            (_, None, None) if choice.way == Way::Plain.name() => (Way::Plain, None),
            (_, None, None) if layer.depthwise.is_some() && choice.way == Way::Depthwise.name() => {
                (Way::Depthwise, None)
            }
            (product, ..) => return Ok(Err(product)),
        };
        Ok(Ok(Chosen { way, product, milliseconds }))
    }

    fn product(&self, layer: &Layer, direction: Direction) -> Result<Option<Product>, CudaError> {
        let s = &layer.shape;
        if !layer.is_pointwise() {
            return Ok(None);
        }
        let precision = self.kernels.precision;
        let (result, bias) = match direction {
            Direction::Forward => (layer.result, layer.result_bias.as_ref().map(DeviceMemory::slice)),
            Direction::Backward => (precision.element(), None),
        };
        let shape = Shape {
            rows: self.batch * s.output[0] * s.output[1],
            ins: s.in_channels,
            outs: s.out_channels,
            direction,
            result,
        };
        let product = Product::new(self.blas, precision, shape, bias)?;
        Ok((product.algorithms() > 0).then_some(product))
    }

    fn candidates(
        &self,
        layer: &Layer,
        direction: Direction,
        product: Option<Product>,
    ) -> Result<Vec<(Way, Option<Product>)>, CudaError> {
        if layer.depthwise.is_some() {
            return Ok(vec![(Way::Depthwise, None)]);
        }
        let mut ways = Vec::new();
        if let Some(product) = product {
            ways.push((Way::Product(0), Some(product)));
        }
        let plans = self.plans(layer, direction, None)?;
        ways.extend(plans.into_iter().map(|way| (way, None)));
        if ways.is_empty() {
            ways.push((Way::Plain, None));
        }
        Ok(ways)
    }

    /// The convolution library's plans that fit into the workspace; with a number only that one.
    fn plans(&self, layer: &Layer, direction: Direction, number: Option<usize>) -> Result<Vec<Way>, CudaError> {
        let precision = self.kernels.precision;
        // Results stored wider than what is read are for the matrix library alone.
        if layer.result != precision.element() && direction == Direction::Forward {
            return Ok(Vec::new());
        }
        let what = (&layer.shape, direction);
        let plans = cudnn::plans(self.dnn, precision, self.batch, what, number)?;
        let fits = |plan: &ConvPlan| plan.workspace <= self.workspaces.workspace.bytes();
        let fitting = plans.into_iter().filter(fits);
        Ok(fitting.map(|plan| Way::Library(Arc::new(plan))).collect())
    }

    fn time(&self, layer: &Layer, direction: Direction, chosen: &Chosen) -> Result<f32, CudaError> {
        let Workspaces { source, result, .. } = self.workspaces;
        let s = &layer.shape;
        let inputs = self.batch * s.input[0] * s.input[1] * s.in_channels;
        let outputs = self.batch * s.output[0] * s.output[1] * s.out_channels;
        self.timer.fastest(RUNS, || match direction {
            Direction::Forward => {
                let out = result.cast(layer.result).first(outputs);
                let source = Term::plain(source.first(inputs));
                layer.run_forward(self.kernels, self.workspaces, self.batch, chosen, source, out)
            }
            Direction::Backward => {
                let to = result.first(inputs).into();
                let gradient = source.first(outputs);
                layer.run_backward(self.kernels, self.workspaces, self.batch, chosen, gradient, to)
            }
        })
    }
}
