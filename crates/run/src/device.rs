//! Where networks run.

use crate::RunError;
use flipcast_cuda::{CudaError, CudaNetwork, CudaOptions, Precision, release_image_sets};
use flipcast_exec::{ExecError, Executor, Isa, NetworkOptions, NormMode, Weights};
use flipcast_graph::Purpose;
use flipcast_models::Model;
use flipcast_record::Protocol;

/// Where networks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    Cpu {
        /// Threads; 0 means one per core.
        threads: usize,
        /// Instruction set; `None` means the best there is.
        isa: Option<Isa>,
    },
    /// An NVIDIA GPU.
    Cuda {
        /// Which one, counted from 0.
        index: usize,
        /// How numbers are stored and multiplied.
        precision: Precision,
    },
}

impl Device {
    /// The processor, with this many threads; 0 means one per core.
    pub fn cpu(threads: usize) -> Self {
        Self::Cpu { threads, isa: None }
    }

    /// `model` planned for batches of up to `batch` images of its input size, with its running statistics.
    pub fn network(&self, model: &Model, purpose: Purpose, batch: usize) -> Result<Box<dyn Executor>, RunError> {
        let size = model.input_size();
        let mut net: Box<dyn Executor> = match *self {
            Self::Cpu { threads, isa } => {
                let options =
                    NetworkOptions { purpose, threads, isa, ..NetworkOptions::adapt(batch, size.height, size.width) };
                // Packed weights are the same for every network of a model.
                let weights = model.derived(|| Weights::new(model.graph().clone(), model.params().clone()));
                Box::new(weights.network(&options)?)
            }
            Self::Cuda { index, precision } => {
                let options = CudaOptions {
                    device: index,
                    precision,
                    purpose,
                    ..CudaOptions::adapt(batch, size.height, size.width)
                };
                let make = || CudaNetwork::new(model.graph(), model.params(), &options);
                let net = match make() {
                    // Images that were kept on the GPU can be sent from the host instead.
                    Err(CudaError::OutOfMemory { .. }) if release_image_sets(index) => make(),
                    made => made,
                };
                Box::new(net.map_err(ExecError::from)?)
            }
        };
        net.set_norm_mode(NormMode::Running)?;
        Ok(net)
    }

    /// The arithmetic, where it is another than the processor's single precision: part of what defines a number.
    fn arithmetic(&self) -> Option<&'static str> {
        match self {
            Self::Cpu { .. } => None,
            Self::Cuda { precision, .. } => Some(precision.name()),
        }
    }

    /// `protocol` with what the device adds to it.
    pub fn describe(&self, protocol: Protocol) -> Result<Protocol, RunError> {
        Ok(match self.arithmetic() {
            Some(arithmetic) => protocol.with("arithmetic", &arithmetic)?,
            None => protocol,
        })
    }
}
