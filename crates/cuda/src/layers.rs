//! Convolutions and linear layers: weights on the device, and the ways to run each.

use crate::cudnn::ConvPlan;
use crate::device::{Device, DeviceMemory, DeviceSlice};
use crate::error::CudaError;
use crate::gemm::{Direction, Product};
use crate::launch::norm::Term;
use crate::launch::{Target, conv};
use crate::module::Kernels;
use crate::precision::{Element, Precision};
use flipcast_graph::ConvShape;
use std::sync::Arc;

/// Memory that layers share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workspaces {
    /// For what a layer reads, when it must be computed first.
    pub source: DeviceSlice,
    /// For what a layer writes, when it is added to something.
    pub result: DeviceSlice,
    /// For the libraries.
    pub workspace: DeviceSlice,
}

/// A way to run a layer.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Product(usize),
    Library(Arc<ConvPlan>),
    Depthwise,
    Plain,
}

/// A way that was chosen for a layer, and its milliseconds.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub way: Way,
    pub product: Option<Product>,
    pub milliseconds: f32,
}

impl Way {
    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Self::Product(at) => format!("cublaslt {at}"),
            Self::Library(plan) => format!("cudnn {}", plan.number),
            Self::Depthwise => "depthwise".to_owned(),
            Self::Plain => "plain".to_owned(),
        }
    }
}

impl Chosen {
    /// Its way's name.
    pub fn name(&self) -> String {
        self.way.name()
    }
}

/// A convolution or linear layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub shape: ConvShape,
    weights: DeviceMemory,
    /// `[row][column][channel]`, as they are and turned by half a turn.
    pub depthwise: Option<[DeviceMemory; 2]>,
    pub bias: Option<DeviceMemory>,
    /// The bias as the result is stored.
    pub result_bias: Option<DeviceMemory>,
    pub result: Element,
    pub forward: Option<Chosen>,
    pub backward: Option<Chosen>,
}

impl Layer {
    /// Uploads a layer; `weights` are `[out][in of the group][row][column]`, `result` is what it writes.
    pub fn new(
        device: &Arc<Device>,
        precision: Precision,
        shape: ConvShape,
        weights: &[f32],
        bias: Option<&[f32]>,
        result: Element,
    ) -> Result<Self, CudaError> {
        let [rows, columns] = shape.kernel;
        let (taps, ins) = (rows * columns, shape.in_channels / shape.groups);
        // The caller may count channels of zeros that the weights do not have.
        let given = weights.len() / (shape.out_channels * taps).max(1);
        let mut packed = vec![0.0; shape.out_channels * taps * ins];
        for out in 0..shape.out_channels {
            for c in 0..given {
                for tap in 0..taps {
                    packed[(out * taps + tap) * ins + c] = weights[(out * given + c) * taps + tap];
                }
            }
        }
        if precision == Precision::Tf32 {
            // Tensor cores cut off what they do not read.
            packed.iter_mut().for_each(|weight| *weight = to_tf32(*weight));
        }
        let depthwise = conv::is_depthwise(&shape).then(|| {
            let of = |tap: usize| (0..shape.out_channels).map(move |c| weights[c * taps + tap]);
            let straight: Vec<f32> = (0..taps).flat_map(of).collect();
            let turned: Vec<f32> = (0..taps).rev().flat_map(of).collect();
            Ok::<_, CudaError>([
                device.upload("weights", Element::F32, &straight)?,
                device.upload("weights", Element::F32, &turned)?,
            ])
        });
        let of_bias = |element| bias.map(|bias| device.upload("a bias", element, bias)).transpose();
        Ok(Self {
            shape,
            weights: device.upload("weights", precision.element(), &packed)?,
            depthwise: depthwise.transpose()?,
            bias: of_bias(Element::F32)?,
            result_bias: of_bias(result)?,
            result,
            forward: None,
            backward: None,
        })
    }

    /// Whether it is a product of rows.
    pub fn is_pointwise(&self) -> bool {
        let s = &self.shape;
        s.kernel == [1, 1] && s.stride == 1 && s.padding == [0, 0] && s.groups == 1
    }

    /// Its weights, `[out][row][column][in]`.
    pub fn weights(&self) -> DeviceSlice {
        self.weights.slice()
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> usize {
        let depthwise = self.depthwise.iter().flatten().map(|one| one.slice().bytes());
        self.weights.slice().bytes() + depthwise.sum::<usize>()
    }

    /// Whether it reads derived values as they are.
    pub fn reads_derived(&self) -> bool {
        self.forward.as_ref().is_some_and(|chosen| matches!(chosen.way, Way::Depthwise))
    }

    /// Whether it can add to what is there when it carries a gradient back.
    pub fn accumulates(&self) -> bool {
        !matches!(self.backward.as_ref().map(|chosen| &chosen.way), Some(Way::Library(..)))
    }

    /// The way that was chosen for a direction that the plan takes.
    pub fn chosen(&self, direction: Direction) -> &Chosen {
        let chosen = match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        };
        chosen.as_ref().expect("planned layers have a way")
    }

    /// Runs it on the whole planned batch. `source` is stored unless `reads_derived`.
    pub fn run_forward(
        &self,
        kernels: &Kernels,
        workspaces: Workspaces,
        batch: usize,
        chosen: &Chosen,
        source: Term,
        out: DeviceSlice,
    ) -> Result<(), CudaError> {
        let weights = self.weights.slice();
        match (&chosen.way, &chosen.product, &self.depthwise) {
            (Way::Product(at), Some(product), _) => {
                return product.run(*at, weights, source.values, out, false);
            }
            (Way::Depthwise, _, Some([straight, _])) => {
                let bias = self.bias.as_ref().map(DeviceMemory::slice);
                let with = (straight.slice(), bias);
                return conv::depthwise(kernels, batch, &self.shape, source, with, out.into());
            }
            (Way::Library(plan), ..) => {
                plan.run([source.values, weights, out], workspaces.workspace)?;
            }
            _ => conv::plain(kernels, Direction::Forward, batch, &self.shape, [source.values, weights], out.into())?,
        }
        match &self.bias {
            Some(bias) => conv::add_bias(kernels, out, bias.slice()),
            None => Ok(()),
        }
    }

    /// Carries a gradient back, on the whole planned batch.
    pub fn run_backward(
        &self,
        kernels: &Kernels,
        workspaces: Workspaces,
        batch: usize,
        chosen: &Chosen,
        gradient: DeviceSlice,
        to: Target,
    ) -> Result<(), CudaError> {
        let weights = self.weights.slice();
        match (&chosen.way, &chosen.product, &self.depthwise) {
            (Way::Product(at), Some(product), _) => product.run(*at, weights, gradient, to.slice, to.accumulate),
            (Way::Depthwise, _, Some([straight, turned])) => match conv::turned(&self.shape) {
                Some(shape) => {
                    let with = (turned.slice(), None);
                    conv::depthwise(kernels, batch, &shape, Term::plain(gradient), with, to)
                }
                None => {
                    let weights = straight.slice();
                    conv::depthwise_backward(kernels, batch, &self.shape, gradient, weights, to)
                }
            },
            (Way::Library(plan), ..) => plan.run([to.slice, weights, gradient], workspaces.workspace),
            _ => conv::plain(kernels, Direction::Backward, batch, &self.shape, [gradient, weights], to),
        }
    }
}

/// The nearest number with ten bits of mantissa, ties away from zero.
fn to_tf32(x: f32) -> f32 {
    f32::from_bits((x.to_bits() + 0x1000) & 0xffff_e000)
}
