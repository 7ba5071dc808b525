//! Networks that are used again.

use crate::{Device, RunError};
use flipcast_cuda::{CudaError, CudaNetwork, CudaOptions, release_image_sets};
use flipcast_exec::{ExecError, Executor, NetworkOptions, Weights};
use flipcast_graph::Purpose;
use flipcast_images::preprocess::Size;
use flipcast_models::Model;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Idle networks that a model keeps at most on each device. A cell takes three: to predict, to predict the probe, to adapt.
const MOST_IDLE: usize = 4;

/// The pools of all models that live, so that one model's idle networks make room for another's.
static POOLS: Mutex<Vec<Weak<NetworkPool>>> = Mutex::new(Vec::new());

/// Networks of one model that nobody uses at the moment. It belongs to the model and goes with it.
#[derive(Default)]
pub(crate) struct NetworkPool {
    /// Those that were used last come last.
    idle: Mutex<Vec<(Kind, Box<dyn Executor>)>>,
}

/// What a network is made for; two of a kind compute the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    device: Device,
    purpose: Purpose,
    batch: usize,
    size: Size,
}

/// A network on loan from its model, [`Device::network`]. When dropped it is restored to what it was when it was made and kept, since making
/// one may take longer than using it.
pub struct PooledNetwork {
    /// `None` only while it is dropped.
    net: Option<Box<dyn Executor>>,
    kind: Kind,
    pool: Arc<NetworkPool>,
}

impl PooledNetwork {
    /// A network of `model` as it is when it is made: one that is idle, or a new one.
    pub(crate) fn lease(device: Device, model: &Model, purpose: Purpose, batch: usize) -> Result<Self, RunError> {
        let pool = model.derived(NetworkPool::default);
        let kind = Kind { device, purpose, batch, size: model.input_size() };
        let net = match pool.take(kind) {
            Some(net) => net,
            None => {
                register(&pool);
                kind.make_with_room(model)?
            }
        };
        Ok(Self { net: Some(net), kind, pool })
    }
}

impl Deref for PooledNetwork {
    type Target = dyn Executor;

    fn deref(&self) -> &Self::Target {
        &**self.net.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for PooledNetwork {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut **self.net.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for PooledNetwork {
    fn drop(&mut self) {
        // After a panic nobody knows in which state it is.
        if let Some(mut net) = self.net.take()
            && !std::thread::panicking()
            && net.reset().is_ok()
        {
            self.pool.keep(self.kind, net);
        }
    }
}

impl fmt::Debug for PooledNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledNetwork").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl NetworkPool {
    fn lock(&self) -> MutexGuard<'_, Vec<(Kind, Box<dyn Executor>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, kind: Kind) -> Option<Box<dyn Executor>> {
        let mut idle = self.lock();
        let at = idle.iter().rposition(|(other, _)| *other == kind)?;
        Some(idle.remove(at).1)
    }

    /// Keeps a network, in place of the one that was idle longest where there are too many.
    fn keep(&self, kind: Kind, net: Box<dyn Executor>) {
        let mut idle = self.lock();
        idle.push((kind, net));
        let there = |(other, _): &(Kind, _)| other.device.shares_memory_with(kind.device);
        let too_many = idle.iter().filter(|one| there(one)).count() > MOST_IDLE;
        let oldest = idle.iter().position(there).filter(|_| too_many).map(|at| idle.remove(at));
        // Freeing takes time, in which others may use the pool.
        drop(idle);
        drop(oldest);
    }
}

/// Makes the idle networks of a pool known to [`release_idle`].
fn register(pool: &Arc<NetworkPool>) {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(pool)));
    pools.push(Arc::downgrade(pool));
}

/// Frees the idle networks of all models on `device`. Tells whether there were any.
fn release_idle(device: Device) -> bool {
    let pools: Vec<Arc<NetworkPool>> =
        POOLS.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    let released: Vec<_> = pools
        .iter()
        .flat_map(|pool| {
            let mut idle = pool.lock();
            let there = |(kind, _): &mut (Kind, _)| kind.device.shares_memory_with(device);
            idle.extract_if(.., there).collect::<Vec<_>>()
        })
        .collect();
    !released.is_empty()
}

impl Kind {
    /// Makes a network; where memory is short, idle networks and images on a GPU go first.
    fn make_with_room(self, model: &Model) -> Result<Box<dyn Executor>, ExecError> {
        let mut made = self.make(model);
        if is_short_of_memory(&made) && release_idle(self.device) {
            made = self.make(model);
        }
        if let Device::Cuda { index, .. } = self.device
            && is_short_of_memory(&made)
            // Images that were kept on the GPU can be sent from the host instead.
            && release_image_sets(index)
        {
            made = self.make(model);
        }
        Ok(made?)
    }

    fn make(self, model: &Model) -> Result<Box<dyn Executor>, CudaError> {
        let Self { device, purpose, batch, size } = self;
        match device {
            Device::Cpu { threads, isa } => {
                let options =
                    NetworkOptions { purpose, threads, isa, ..NetworkOptions::adapt(batch, size.height, size.width) };
                // Packed weights are the same for every network of a model.
                let weights = model.derived(|| Weights::new(model.graph().clone(), model.params().clone()));
                Ok(Box::new(weights.network(&options)?))
            }
            Device::Cuda { index, precision } => {
                let options = CudaOptions {
                    device: index,
                    precision,
                    purpose,
                    ..CudaOptions::adapt(batch, size.height, size.width)
                };
                Ok(Box::new(CudaNetwork::new(model.graph(), model.params(), &options)?))
            }
        }
    }
}

fn is_short_of_memory<T>(made: &Result<T, CudaError>) -> bool {
    matches!(made, Err(CudaError::OutOfMemory { .. } | CudaError::Network(ExecError::OutOfMemory { .. })))
}

#[cfg(test)]
mod tests;
