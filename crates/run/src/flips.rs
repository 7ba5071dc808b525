//! Flips: predict a probe, adapt, predict it again.

use crate::flip_protocol::FlipProtocol;
use crate::images::Images;
use crate::{Device, RunError, Scope, Watcher};
use flipcast_estimate::Outputs;
use flipcast_exec::{Executor, NormMode};
use flipcast_graph::Purpose;
use flipcast_images::loader::Order;
use flipcast_models::Model;
use flipcast_record::results::Adaptation;
use std::collections::HashMap;

/// Below this share of used images a filter is starved: it leaves a method nothing to adapt with, and flips say little.
pub(crate) const STARVED: f64 = 0.05;

/// What a run of weighted flips saw.
#[derive(Clone, Debug)]
pub struct FlipEvidence {
    /// The probe's images, by index in the dataset.
    pub probe: Vec<usize>,
    /// The probe before the first step, with the statistics the method adapts with.
    pub initial: Outputs,
    /// The probe after each of the protocol's stops.
    pub stops: Vec<Stop>,
    /// What the adaptation did.
    pub adaptation: Adaptation,
}

/// The probe after some steps.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Steps made.
    pub step: usize,
    /// The adapted model's outputs for the probe.
    pub outputs: Outputs,
}

/// Runs `protocol` on `images`; outputs are over the alternatives of `scope`.
pub fn collect_flips(
    model: &Model,
    images: &Images,
    scope: &Scope,
    protocol: &FlipProtocol,
    device: Device,
    watcher: &mut dyn Watcher,
) -> Result<FlipEvidence, RunError> {
    let batch_size = protocol.batch_size.min(images.len());
    let probe_images = protocol.probe_images.min(images.len());
    let chunk = even_chunk(probe_images, protocol.probe_chunk);
    let mut probe_net = device.network(model, Purpose::Predict, chunk)?;
    let mut adapter = protocol.method.build(protocol.seed)?;
    let mut probe = Probe {
        images,
        scope,
        seed: protocol.seed,
        len: probe_images,
        chunk,
        net: &mut *probe_net,
        mode: protocol.method.norm_mode(),
    };
    let (indices, initial) = probe.predict(None)?;
    let mut evidence = FlipEvidence { probe: indices, initial, stops: Vec::new(), adaptation: Adaptation::default() };
    let last = protocol.last_stop();
    if protocol.stops.contains(&0) {
        let outputs = evidence.initial.clone();
        evidence.stops.push(Stop { step: 0, outputs });
    }
    if last == 0 {
        return Ok(evidence);
    }
    let mut net = device.network(model, Purpose::Adapt, batch_size)?;
    let mut epoch = 0;
    'epochs: loop {
        let seed = protocol.seed.wrapping_add(1 + epoch);
        let mut pass = images.pass(Order::Shuffled { seed }, None, batch_size)?;
        let mut stepped = false;
        while let Some(loaded) = pass.next_batch()? {
            // A smaller last batch has other statistics; the published loaders drop it.
            if loaded.batch.images() < batch_size {
                break;
            }
            let output = adapter.step(&mut *net, &loaded.batch)?;
            stepped = true;
            let adaptation = &mut evidence.adaptation;
            adaptation.steps += 1;
            adaptation.seen += loaded.batch.images();
            adaptation.reliable += output.reliable;
            adaptation.used += output.used;
            adaptation.resets += usize::from(output.reset);
            let step = adaptation.steps;
            watcher.step(step, last);
            pass.recycle(loaded.batch);
            if protocol.stops.contains(&step) {
                let (_, outputs) = probe.predict(Some(net.affine()))?;
                evidence.stops.push(Stop { step, outputs });
            }
            if step == last {
                break 'epochs;
            }
        }
        if !stepped {
            return Err(RunError::NoImages);
        }
        epoch += 1;
    }
    Ok(evidence)
}

/// The size of the chunks when `images` are cut into as few as possible, none above `most` and all about equal, so that
/// no chunk is too small for batch statistics.
pub(crate) fn even_chunk(images: usize, most: usize) -> usize {
    images.div_ceil(images.div_ceil(most.max(1)).max(1)).max(1)
}

/// The probe and the network that predicts it.
struct Probe<'a> {
    images: &'a Images,
    scope: &'a Scope,
    seed: u64,
    len: usize,
    chunk: usize,
    net: &'a mut dyn Executor,
    mode: NormMode,
}

impl Probe<'_> {
    /// The images' indices and outputs with the affine vector given, or the source's.
    fn predict(&mut self, affine: Option<&[f32]>) -> Result<(Vec<usize>, Outputs), RunError> {
        match affine {
            Some(affine) => self.net.affine_mut().copy_from_slice(affine),
            None => self.net.reset_affine(),
        }
        self.net.set_norm_mode(self.mode)?;
        let order = Order::Shuffled { seed: self.seed };
        let mut pass = self.images.pass(order, Some(self.len), self.chunk)?;
        let (mut indices, mut logits) = (Vec::new(), Vec::new());
        while let Some(loaded) = pass.next_batch()? {
            logits.extend_from_slice(self.net.forward(&loaded.batch)?.values());
            indices.extend(loaded.indices);
            pass.recycle(loaded.batch);
        }
        Ok((indices, self.scope.project(logits)?))
    }
}

impl FlipEvidence {
    /// Where each image of the probe stands in `indices`, the dataset indices of another pass.
    pub fn rows_in(&self, indices: &[usize]) -> Result<Vec<usize>, RunError> {
        let places = indices.iter().enumerate();
        let places: HashMap<usize, usize> = places.map(|(row, &index)| (index, row)).collect();
        let place = |index: &usize| {
            let found = places.get(index).copied();
            found.ok_or(RunError::ProbeNotSeen { index: *index })
        };
        self.probe.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_as_few_and_as_equal_as_can_be() {
        for (images, most, expected) in [(1000, 100, 100), (101, 100, 51), (99, 100, 99), (5, 2, 2), (1, 100, 1)] {
            assert_eq!(even_chunk(images, most), expected, "{images} by {most}");
        }
    }

    #[test]
    fn a_probe_is_found_again_by_its_indices() {
        let outputs = Outputs::new(vec![0.0, 1.0, 1.0, 0.0], 2).unwrap();
        let evidence =
            FlipEvidence { probe: vec![7, 3], initial: outputs, stops: Vec::new(), adaptation: Adaptation::default() };
        assert_eq!(evidence.rows_in(&[3, 5, 7]).unwrap(), [2, 0]);
        let missing = evidence.rows_in(&[3, 5]);
        assert!(matches!(missing, Err(RunError::ProbeNotSeen { index: 7 })));
    }
}
