use super::{activations, blocks, convolutions, norms, pools, tokens};
use crate::{Random, Reference, ReferenceNorm};
use flipcast_graph::{Graph, ParamSpec};
use flipcast_tensor::{Batch, Shape, Tensor};
use std::collections::HashMap;

/// Distance from a kink that `f32` rounding cannot bridge in these small networks.
const CLEARANCE: f64 = 2e-5;

/// Batches tried before settling for the one with the largest clearance.
const ATTEMPTS: u64 = 64;

/// A small network with parameters, and the batches it is run on.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is about.
    pub name: String,
    /// The network.
    pub graph: Graph,
    /// Every parameter of the network.
    pub params: HashMap<String, Tensor>,
    /// Rows per image.
    pub height: usize,
    /// Columns per image.
    pub width: usize,
    /// Images per batch.
    pub batch_size: usize,
}

/// All named cases, in a fixed order.
pub fn cases() -> Vec<Case> {
    [convolutions::cases(), activations::cases(), norms::cases(), pools::cases(), blocks::cases(), tokens::cases()]
        .concat()
}

impl Case {
    /// The modes worth running: batch norms differ between them, other norms do not.
    pub fn modes(&self) -> Vec<ReferenceNorm> {
        if self.graph.has_batch_norm() { ALL_MODES.to_vec() } else { vec![ReferenceNorm::Batch] }
    }

    /// The `f64` interpreter of this case.
    pub fn reference(&self) -> Reference {
        Reference::new(&self.graph, &self.params).expect("a case has every parameter of its graph")
    }

    /// Scales and shifts in the order of [`Graph::affine_table`].
    pub fn affine(&self) -> Vec<f32> {
        self.graph.affine_table().names().flat_map(|(name, _)| self.params[&name].values().iter().copied()).collect()
    }

    /// The batch to compare on: seeded, and away from kinks in every mode, so that no rounding switches a branch.
    pub fn batch(&self) -> Batch {
        let reference = self.reference();
        let affine = reference.affine();
        let clearance = |batch: &Batch| {
            let modes = self.modes().into_iter();
            modes
                .map(|mode| match reference.forward(batch, mode, &affine) {
                    Ok(run) => run.kink_clearance(),
                    Err(error) => panic!("`{}` does not run: {error}", self.name),
                })
                .fold(f64::INFINITY, f64::min)
        };
        let mut best = (self.random_batch(self.batch_size, 0), 0.0);
        for seed in 0..ATTEMPTS {
            let batch = self.random_batch(self.batch_size, seed);
            let found = clearance(&batch);
            if found > best.1 {
                best = (batch, found);
            }
            if found >= CLEARANCE {
                break;
            }
        }
        best.0
    }

    /// `images` seeded images with values of about mean 0 and variance 1, different in each channel.
    pub fn random_batch(&self, images: usize, seed: u64) -> Batch {
        let mut random = Random::from_text(&format!("{} batch {seed}", self.name));
        let channels = self.graph.input_channels();
        let extents = [images, self.height, self.width, channels];
        let values = (0..extents.iter().product())
            .map(|i| {
                let c = (i % channels) as f64;
                let middle = (channels - 1) as f64 / 2.0;
                let spread = 1.0 + 0.15 * (c - middle);
                (spread.max(0.4) * random.normal() + 0.3 * (c - middle)) as f32
            })
            .collect();
        Batch::new(extents, values).expect("one value was made per element")
    }

    pub(super) fn new(name: &str, graph: Graph, [height, width, batch_size]: [usize; 3]) -> Self {
        let mut random = Random::from_text(name);
        let params = graph
            .params()
            .into_iter()
            .map(|spec| {
                let tensor = random_param(&spec, &mut random);
                (spec.name, tensor)
            })
            .collect();
        let mut case = Self { name: name.to_owned(), graph, params, height, width, batch_size };
        case.fit_running_statistics(&mut random);
        case
    }

    /// Sets the running statistics near those of a batch, as training does; otherwise values would grow from norm to
    /// norm in `Running` mode until the entropy is flat.
    fn fit_running_statistics(&mut self, random: &mut Random) {
        let reference = self.reference();
        let batch = self.random_batch(2 * self.batch_size, u64::MAX);
        let run = match reference.forward(&batch, ReferenceNorm::Batch, &reference.affine()) {
            Ok(run) => run,
            Err(error) => panic!("`{}` does not run: {error}", self.name),
        };
        for node in self.graph.clone().nodes() {
            let mean_name = format!("{}.running_mean", node.name);
            if !self.params.contains_key(&mean_name) {
                continue;
            }
            let input = &run.values[node.inputs[0].index()];
            let mut means = Vec::with_capacity(input.dims.channels);
            let mut variances = Vec::with_capacity(input.dims.channels);
            for c in 0..input.dims.channels {
                let values = || input.values.iter().skip(c).step_by(input.dims.channels);
                let count = values().count() as f64;
                let mean = values().sum::<f64>() / count;
                let variance = values().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
                means.push((mean + 0.25 * variance.sqrt() * random.normal()) as f32);
                // A channel of zeros still gets a variance above zero.
                variances.push((variance.max(0.1) * random.between(0.6, 1.6)) as f32);
            }
            self.param_mut(&mean_name).copy_from_slice(&means);
            let variance_name = format!("{}.running_var", node.name);
            self.param_mut(&variance_name).copy_from_slice(&variances);
        }
    }

    /// Multiplies a parameter, to bring a part of a function into play that moderate values never reach.
    pub(super) fn magnify(mut self, param: &str, factor: f32) -> Self {
        self.param_mut(param).iter_mut().for_each(|v| *v *= factor);
        self
    }

    /// The values of a parameter, to change in place.
    pub(crate) fn param_mut(&mut self, param: &str) -> &mut [f32] {
        match self.params.get_mut(param) {
            Some(tensor) => tensor.values_mut(),
            None => panic!("`{}` has no parameter `{param}`", self.name),
        }
    }
}

const ALL_MODES: [ReferenceNorm; 4] = [
    ReferenceNorm::Running,
    ReferenceNorm::Batch,
    ReferenceNorm::Mixed { source_weight: 0.375 },
    ReferenceNorm::Early { share: 0.5 },
];

fn random_param(spec: &ParamSpec, random: &mut Random) -> Tensor {
    let fan_in: usize = spec.shape.iter().skip(1).product();
    let is_norm = spec.shape.len() == 1 && spec.name.ends_with(".weight");
    let len: usize = spec.shape.iter().product();
    let values = (0..len).map(|_| {
        let value = match spec.name.rsplit('.').next() {
            Some("weight") if is_norm => {
                let sign = if random.chance(0.125) { -1.0 } else { 1.0 };
                sign * random.between(0.6, 1.5)
            }
            Some("weight") => random.normal() * (2.0 / fan_in as f64).sqrt(),
            Some("running_var") => 1.0,
            _ => 0.3 * random.normal(),
        };
        value as f32
    });
    Tensor::new(Shape::new(spec.shape.clone()), values.collect()).expect("one value was made per element")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loss, random_graph};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let cases = cases();
        let names: HashSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn every_case_has_something_to_adapt_and_is_away_from_kinks() {
        for case in cases() {
            assert!(!case.affine().is_empty(), "{}", case.name);
            let reference = case.reference();
            let batch = case.batch();
            for mode in case.modes() {
                let run = reference.forward(&batch, mode, &reference.affine()).unwrap();
                let clearance = run.kink_clearance();
                assert!(clearance >= CLEARANCE, "{}: {clearance:e}", case.name);
                assert!(run.logits().iter().all(|v| v.is_finite()), "{}", case.name);
            }
        }
    }

    #[test]
    fn predictions_are_neither_certain_nor_uniform() {
        for case in cases().into_iter().chain((0..60).map(random_graph)) {
            let reference = case.reference();
            let batch = case.random_batch(case.batch_size, 0);
            let classes = case.graph.num_classes();
            for mode in case.modes() {
                let run = reference.forward(&batch, mode, &reference.affine()).unwrap();
                let entropy = Loss::MeanEntropy { classes }.value(run.logits());
                assert!((0.05..1.945).contains(&entropy), "{} ({mode:?}): {entropy}", case.name);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_batch() {
        let case = cases().swap_remove(0);
        assert_eq!(case.random_batch(2, 5), case.random_batch(2, 5));
        assert_ne!(case.random_batch(2, 5), case.random_batch(2, 6));
    }

    #[test]
    fn no_affine_parameter_is_one_or_zero_unless_the_case_is_about_it() {
        for case in cases().iter().filter(|case| case.name != "zero_scale") {
            let plain = |v: &f32| *v == 0.0 || *v == 1.0;
            assert!(!case.affine().iter().any(plain), "{}", case.name);
        }
    }
}
