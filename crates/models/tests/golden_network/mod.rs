//! What PyTorch computed with a network of `golden/programs`, and how far an executor is from it.

use flipcast_exec::{Executor, NetworkOptions, NormMode};
use flipcast_tensor::Batch;
use flipcast_testkit::{Loss, TensorFile, relative_l2};
use std::path::Path;

/// Both kinds of statistics.
pub const BOTH: &[NormMode] = &[NormMode::Running, NormMode::Batch];

/// A network's images, and what PyTorch computed for them.
pub struct Expected {
    pub file: TensorFile,
    pub batch: Batch,
}

impl Expected {
    pub fn load(path: &Path) -> Self {
        let file = TensorFile::load(path).unwrap();
        let shape: [usize; 4] = file.shape("images").unwrap().try_into().unwrap();
        let values: Vec<f32> = file.values("images").unwrap().iter().map(|&value| value as f32).collect();
        Self { batch: Batch::from_channels_first(shape, &values).unwrap(), file }
    }

    pub fn options(&self) -> NetworkOptions {
        NetworkOptions {
            threads: 2,
            ..NetworkOptions::adapt(self.batch.images(), self.batch.height(), self.batch.width())
        }
    }

    /// The gradients of mode `mode` as one vector in the order of the affine table, and which of its values PyTorch has too:
    /// norms without scale and shift have none there.
    fn gradient(&self, mode: &str, executor: &dyn Executor) -> (Vec<f64>, Vec<bool>) {
        let table = executor.affine_table();
        let mut values = vec![0.0; table.len()];
        let mut known = vec![false; table.len()];
        for name in self.file.names() {
            let Some(parameter) = name.strip_prefix(&format!("{mode}.gradient.")) else {
                continue;
            };
            let Some(range) = table.find(parameter) else {
                continue;
            };
            values[range.clone()].copy_from_slice(self.file.values(name).unwrap());
            known[range].fill(true);
        }
        (values, known)
    }

    /// Whether the executor has a scale and a shift for each that PyTorch has.
    pub fn has_all_norms(&self, executor: &dyn Executor) -> bool {
        let mut parameters = self.file.names().filter_map(|name| name.strip_prefix("running.gradient."));
        parameters.all(|parameter| executor.affine_table().find(parameter).is_some())
    }

    /// Relative errors of logits and gradients, the larger of running and batch statistics.
    /// Gradients are compared where the executor has every norm that PyTorch has.
    pub fn compare(&self, executor: &mut dyn Executor, modes: &[NormMode]) -> [f64; 2] {
        let mut errors = [0.0f64; 2];
        for &mode in modes {
            let name = if mode == NormMode::Running { "running" } else { "batch" };
            executor.set_norm_mode(mode).unwrap();
            let logits = wide(executor.forward(&self.batch).unwrap().values());
            let expected = self.file.values(&format!("{name}.logits")).unwrap();
            errors[0] = errors[0].max(relative_l2(&logits, expected));
            if executor.affine().is_empty() || !self.has_all_norms(executor) {
                continue;
            }
            let loss = Loss::MeanEntropy { classes: executor.num_classes() };
            let logit_gradient: Vec<f32> = loss.gradient(&logits).iter().map(|&v| v as f32).collect();
            let found = wide(executor.backward(&logit_gradient).unwrap());
            let (expected, known) = self.gradient(name, executor);
            let found: Vec<f64> =
                found.iter().zip(known).map(|(&value, known)| if known { value } else { 0.0 }).collect();
            errors[1] = errors[1].max(relative_l2(&found, &expected));
        }
        errors
    }
}

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

pub fn assert_within(name: &str, found: [f64; 2], bounds: [f64; 2]) {
    println!("{name}: logits {:.1e}, gradients {:.1e}", found[0], found[1]);
    assert!(found[0] <= bounds[0], "{name}: logits off by {:e}, bound {:e}", found[0], bounds[0]);
    assert!(found[1] <= bounds[1], "{name}: gradients off by {:e}, bound {:e}", found[1], bounds[1]);
}
