//! Where networks run.

use crate::RunError;
use crate::network_pool::PooledNetwork;
use flipcast_cuda::Precision;
use flipcast_exec::Isa;
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

    /// `model` planned for batches of up to `batch` images of its input size, with its running statistics. The network is on loan: a
    /// model makes one of each kind once, and again only while others of the kind are in use or where too many kinds are asked for in turn.
    ///
    /// ```
    /// use flipcast_graph::Purpose;
    /// use flipcast_run::Device;
    ///
    /// let model = flipcast_models::Model::random("cifar_resnet8_w4", 10, 1)?;
    /// let mut net = Device::cpu(1).network(&model, Purpose::Adapt, 4)?;
    /// net.affine_mut().fill(0.5);
    /// drop(net);
    /// // The same network, as it was when it was made.
    /// let again = Device::cpu(1).network(&model, Purpose::Adapt, 4)?;
    /// assert_eq!(again.affine(), again.source_affine());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn network(&self, model: &Model, purpose: Purpose, batch: usize) -> Result<PooledNetwork, RunError> {
        PooledNetwork::lease(*self, model, purpose, batch)
    }

    /// Whether networks on both devices take the same memory.
    pub(crate) fn shares_memory_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Cpu { .. }, Self::Cpu { .. }) => true,
            (Self::Cuda { index, .. }, Self::Cuda { index: other, .. }) => index == other,
            _ => false,
        }
    }

    /// The arithmetic, where it is another than the processor's single precision: part of what defines a number.
    fn arithmetic(&self) -> Option<&'static str> {
        match self {
            Self::Cpu { .. } => None,
            Self::Cuda { precision, .. } => Some(precision.name()),
        }
    }

    /// Whether cells made on both devices have the same records: all GPUs of one precision do.
    pub fn records_like(&self, other: &Self) -> bool {
        self.arithmetic() == other.arithmetic()
    }

    /// `protocol` with what the device adds to it.
    pub fn describe(&self, protocol: Protocol) -> Result<Protocol, RunError> {
        Ok(match self.arithmetic() {
            Some(arithmetic) => protocol.with("arithmetic", &arithmetic)?,
            None => protocol,
        })
    }
}
