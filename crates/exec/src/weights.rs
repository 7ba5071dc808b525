use crate::{Exactness, ExecError, Isa, Network, NetworkOptions};
use flipcast_graph::{Graph, NodeId};
use flipcast_kernels::{Conv, ConvShape};
use flipcast_tensor::Tensor;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A graph and its weights, packed for the kernels once for all networks that are made of them.
///
/// Packing takes far longer than everything else a network needs. What one network packed is kept for the next, and dropped with
/// this value and its last network.
#[derive(Debug)]
pub struct Weights {
    graph: Arc<Graph>,
    params: Arc<HashMap<String, Tensor>>,
    packed: PackedConvs,
}

impl Weights {
    /// Packs nothing yet.
    pub fn new(graph: Arc<Graph>, params: Arc<HashMap<String, Tensor>>) -> Self {
        Self { graph, params, packed: PackedConvs::default() }
    }

    /// A network as `options` ask.
    pub fn network(&self, options: &NetworkOptions) -> Result<Network, ExecError> {
        Network::with_packed(&self.graph, &self.params, &self.packed, options)
    }
}

/// The way through a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// All that a packed convolution depends on besides the weights themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConvKey {
    pub node: NodeId,
    pub shape: ConvShape,
    pub direction: Direction,
    pub isa: Isa,
    pub exactness: Exactness,
}

/// The packed convolutions of one set of weights.
#[derive(Debug, Default)]
pub(crate) struct PackedConvs(Mutex<HashMap<ConvKey, Arc<Conv>>>);

impl PackedConvs {
    /// The convolutions of `wanted`, in order. Those that are not there yet are packed from their weights, on `threads` threads; 0 means
    /// one per core. Two callers never pack the same.
    pub fn get_all(&self, wanted: &[(ConvKey, &[f32])], threads: usize) -> Vec<Arc<Conv>> {
        // Entries are complete, so that a panic elsewhere leaves nothing broken behind.
        let mut packed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing: Vec<&(ConvKey, &[f32])> = wanted.iter().filter(|(key, _)| !packed.contains_key(key)).collect();
        // Large ones first: the last to end must not be one of them.
        missing.sort_by_key(|(_, weights)| std::cmp::Reverse(weights.len()));
        packed.extend(pack_all(&missing, threads));
        wanted.iter().map(|(key, _)| Arc::clone(&packed[key])).collect()
    }
}

fn pack_all(missing: &[&(ConvKey, &[f32])], threads: usize) -> Vec<(ConvKey, Arc<Conv>)> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        while let Some((key, weights)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            made.push((*key, Arc::new(key.pack(weights))));
        }
        made
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(missing.len())).map(|_| scope.spawn(work)).collect();
        let mut made = work();
        for other in others {
            made.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        made
    })
}

impl ConvKey {
    fn pack(&self, weights: &[f32]) -> Conv {
        let make = match self.direction {
            Direction::Forward => Conv::forward,
            Direction::Backward => Conv::backward,
        };
        make(self.isa, &self.shape, weights, self.exactness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_testkit::cases;

    #[test]
    fn networks_of_the_same_weights_share_what_is_packed() {
        let case = cases().into_iter().next().unwrap();
        let weights = Weights::new(Arc::new(case.graph.clone()), Arc::new(case.params.clone()));
        let count = || weights.packed.0.lock().unwrap().len();
        let predict = NetworkOptions::predict(case.batch_size, case.height, case.width);
        let adapt = NetworkOptions::adapt(case.batch_size, case.height, case.width);
        let first = weights.network(&predict).unwrap();
        let forward = count();
        assert!(forward > 0);
        drop(first);
        let _second = weights.network(&predict).unwrap();
        assert_eq!(count(), forward);
        let larger = NetworkOptions { batch: 2 * case.batch_size, ..adapt };
        let _third = weights.network(&larger).unwrap();
        assert!(count() > forward, "the way back is packed when it is needed");
        let held = weights.packed.0.lock().unwrap();
        let shared = held.iter().filter(|(key, _)| key.direction == Direction::Forward);
        assert!(shared.into_iter().all(|(_, conv)| Arc::strong_count(conv) == 3));
    }
}
