//! Choosing how to run a layer, by trying.

use crate::cudnn::{self, Dnn};
use crate::device::{Device, DeviceMemory};
use crate::error::CudaError;
use crate::gemm::{Blas, Direction, Product, Shape};
use crate::launch::norm::Term;
use crate::layers::{Chosen, Layer, Rooms, Way};
use crate::module::Kernels;
use crate::precision::Element;
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
    pub rooms: Rooms,
    pub batch: usize,
    timer: Timer,
    known: HashMap<Key, (Way, f32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    extents: [usize; 13],
    direction: Direction,
    bias: bool,
    result: Element,
}

impl<'a> Chooser<'a> {
    pub fn new(
        device: &'a Arc<Device>,
        kernels: &'a Kernels,
        (blas, dnn): (&'a Arc<Blas>, &'a Arc<Dnn>),
        rooms: Rooms,
        batch: usize,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            kernels,
            blas,
            dnn,
            rooms,
            batch,
            timer: Timer::new(device)?,
            known: HashMap::new(),
        })
    }

    /// The fastest way to run `layer` in a direction. Layers of one shape are tried once.
    pub fn choose(&mut self, layer: &Layer, direction: Direction) -> Result<Chosen, CudaError> {
        let s = &layer.shape;
        let key = Key {
            extents: [
                s.input[0],
                s.input[1],
                s.in_channels,
                s.output[0],
                s.output[1],
                s.out_channels,
                s.kernel[0],
                s.kernel[1],
                s.stride,
                s.padding[0],
                s.padding[1],
                s.dilation,
                s.groups,
            ],
            direction,
            bias: layer.bias.is_some(),
            result: layer.result,
        };
        let product = self.product(layer, direction)?;
        if let Some((way, milliseconds)) = self.known.get(&key) {
            let product = product.filter(|_| matches!(way, Way::Product(_)));
            return Ok(Chosen {
                way: way.clone(),
                product,
                milliseconds: *milliseconds,
            });
        }
        let mut best = Chosen {
            way: Way::Plain,
            product: None,
            milliseconds: f32::INFINITY,
        };
        for (way, product) in self.candidates(layer, direction, product)? {
            let mut chosen = Chosen {
                way,
                product,
                milliseconds: 0.0,
            };
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
        self.known
            .insert(key, (best.way.clone(), best.milliseconds));
        Ok(best)
    }

    fn product(&self, layer: &Layer, direction: Direction) -> Result<Option<Product>, CudaError> {
        let s = &layer.shape;
        if s.kernel != [1, 1] || s.stride != 1 || s.padding != [0, 0] || s.groups != 1 {
            return Ok(None);
        }
        let precision = self.kernels.precision;
        let (result, bias) = match direction {
            Direction::Forward => (
                layer.result,
                layer.result_bias.as_ref().map(DeviceMemory::slice),
            ),
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
        // Results stored wider than what is read are for the matrix library alone.
        if layer.result == self.kernels.precision.element() || direction == Direction::Backward {
            let plans = cudnn::plans(
                self.dnn,
                self.kernels.precision,
                self.batch,
                &layer.shape,
                direction,
            )?;
            let plans = plans.into_iter().enumerate();
            let fitting = plans.filter(|(_, plan)| plan.workspace <= self.rooms.workspace.bytes());
            ways.extend(fitting.map(|(at, plan)| (Way::Library(Arc::new(plan), at), None)));
        }
        if ways.is_empty() {
            ways.push((Way::Plain, None));
        }
        Ok(ways)
    }

    fn time(&self, layer: &Layer, direction: Direction, chosen: &Chosen) -> Result<f32, CudaError> {
        let Rooms { source, result, .. } = self.rooms;
        let s = &layer.shape;
        let inputs = self.batch * s.input[0] * s.input[1] * s.in_channels;
        let outputs = self.batch * s.output[0] * s.output[1] * s.out_channels;
        self.timer.fastest(RUNS, || match direction {
            Direction::Forward => {
                let out = result.cast(layer.result).first(outputs);
                let source = Term::plain(source.first(inputs));
                layer.run_forward(self.kernels, self.rooms, self.batch, chosen, source, out)
            }
            Direction::Backward => {
                let to = result.first(inputs).into();
                let gradient = source.first(outputs);
                layer.run_backward(self.kernels, self.rooms, self.batch, chosen, gradient, to)
            }
        })
    }
}
