use crate::{ExecError, NormMode, NormStatistics, affine_params};
use flipcast_graph::{AffineTable, Graph};
use flipcast_tensor::Tensor;
use std::collections::HashMap;
use std::sync::Arc;

/// What every executor holds besides its kernels: the vector that adapts, how batch norms normalise, and whether a forward
/// pass is waiting for its backward pass.
#[derive(Clone, Debug)]
pub struct ExecutorState {
    table: Arc<AffineTable>,
    source: Arc<[f32]>,
    affine: Vec<f32>,
    affine_changed: bool,
    norm_mode: NormMode,
    num_classes: usize,
    /// Whether the last forward pass may still be followed by a backward pass.
    pub ready: bool,
}

impl ExecutorState {
    /// The state of a network of `graph` with the weights in `params`, which normalises with running statistics.
    pub fn new(graph: &Graph, params: &HashMap<String, Tensor>) -> Result<Self, ExecError> {
        let table = graph.affine_table();
        let affine = affine_params(&table, params)?;
        Ok(Self::of_parts(table, affine, graph.num_classes()))
    }

    /// The state of a network whose affine vector starts as `affine`.
    pub fn of_parts(table: AffineTable, affine: Vec<f32>, num_classes: usize) -> Self {
        Self {
            table: Arc::new(table),
            source: affine.as_slice().into(),
            affine,
            affine_changed: true,
            norm_mode: NormMode::Running,
            num_classes,
            ready: false,
        }
    }

    /// The vector that adapts.
    pub fn affine(&self) -> &[f32] {
        &self.affine
    }

    /// The vector that adapts, to change in place.
    pub fn affine_mut(&mut self) -> &mut [f32] {
        self.affine_changed = true;
        &mut self.affine
    }

    /// Takes over the vector that a device has moved, which therefore need not be sent there.
    pub fn receive_affine(&mut self, moved: &[f32]) {
        self.affine.copy_from_slice(moved);
    }

    /// Whether the vector was changed since this was last asked, for executors that keep a copy of it on a device.
    pub fn take_affine_changed(&mut self) -> bool {
        std::mem::take(&mut self.affine_changed)
    }

    /// The vector as the weights had it.
    pub fn source_affine(&self) -> &[f32] {
        &self.source
    }

    /// The name table of the vector.
    pub fn affine_table(&self) -> &AffineTable {
        &self.table
    }

    /// Restores the vector to [`Self::source_affine`].
    pub fn reset_affine(&mut self) {
        self.affine.copy_from_slice(&self.source);
        self.affine_changed = true;
    }

    /// Which statistics batch norms use.
    pub fn norm_mode(&self) -> NormMode {
        self.norm_mode
    }

    /// What the norm at this place of the affine table uses.
    pub fn statistics_of(&self, index: usize) -> NormStatistics {
        self.norm_mode.of_norm(index, self.table.entries().len())
    }

    /// Sets which statistics batch norms use. What a forward pass before left for a backward pass is void.
    pub fn set_norm_mode(&mut self, mode: NormMode) -> Result<(), ExecError> {
        mode.check()?;
        self.norm_mode = mode;
        self.ready = false;
        Ok(())
    }

    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.num_classes
    }
}
