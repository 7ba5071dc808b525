//! Gradients of norms, and of the joins of what they normalise.

use crate::network::{Identity, Network};
use crate::norms::{Norm, Sums};
use crate::places::{cut, views};
use flipcast_graph::{Activation, BufferId, GradTarget, JoinBackward, Plan, Storage, ValueId};
use flipcast_kernels as k;
use flipcast_kernels::{
    Carried, JoinGradient, JoinedNorm, LayerNorm, LayerNormGradients, NormGradient, Passage, Target,
};
use std::ops::Range;

impl Network {
    pub(crate) fn norm_sums(&mut self, value: ValueId, gradient: BufferId) {
        let Some((norm, activation)) = norm_of(&self.plan, value) else {
            return;
        };
        let extent = self.extent(value);
        let values = self.base_range(value).expect("norms read stored values");
        let gradient = self.gradient_range(gradient);
        let mut sums = std::mem::take(&mut self.norms[norm].sums);
        let input = NormGradient {
            gradient: &self.arena[gradient],
            values: &self.arena[values],
            norm: self.norms[norm].tables(),
            activation,
            centre: &self.norms[norm].centre,
        };
        k::norm_sums(&mut self.team, extent, input, &mut sums.sum, &mut sums.product);
        self.norms[norm].sums = sums;
        self.norms[norm].passed = false;
        self.finish_norm(norm);
    }

    pub(crate) fn finish_norm(&mut self, norm: usize) {
        let entry = &self.state.affine_table().entries()[norm];
        let (scale, shift) = (entry.scale(), entry.shift());
        // The shift's gradient follows the scale's directly.
        let (scale_gradient, shift_gradient) = self.gradient[scale.start..shift.end].split_at_mut(scale.len());
        self.norms[norm].finish(
            self.images,
            self.state.statistics_of(norm),
            &self.state.affine()[scale],
            scale_gradient,
            shift_gradient,
        );
    }

    pub(crate) fn through_norm(&mut self, value: ValueId, gradient: BufferId, target: GradTarget) {
        let extent = self.extent(value);
        let values = self.base_range(value).expect("norms read stored values");
        let (from, to) = (self.gradient_range(gradient), self.gradient_range(target.buffer));
        let passage = |values| passage(&self.plan, &self.norms, &self.identity, value, values);
        if from == to {
            let [values, gradient] = views(&mut self.arena, [values, to]);
            k::through_norm(&mut self.team, extent, passage(values), Carried::InPlace(gradient));
        } else {
            let [base, gradient, values] = views(&mut self.arena, [values, from, to]);
            let target = Target { values, accumulate: target.accumulate };
            k::through_norm(&mut self.team, extent, passage(base), Carried::Into { gradient, target });
        }
    }

    pub(crate) fn join_backward(&mut self, gradient: BufferId, join: &JoinBackward) {
        let extent = self.extent(join.joined);
        let gradient = self.gradient_range(gradient);
        let mut below = self.take_below(&join.sums);
        let parts = cut(&mut self.arena, [Some(gradient), below[0].range(), below[1].range()]);
        let [Some(gradient), a, b] = parts else { unreachable!("a gradient has a place") };
        let through = join_gradient(&self.masks[join.joined.index()], &self.norms, &mut below, [a, b]);
        k::join_backward(&mut self.team, extent, gradient, through);
        self.put_below(below);
    }

    /// Takes the sums of the norms below up to two values, to be filled.
    pub(crate) fn take_below(&mut self, values: &[ValueId]) -> [Below; 2] {
        std::array::from_fn(|i| {
            let Some(&value) = values.get(i) else {
                return Below::default();
            };
            let (norm, _) = norm_of(&self.plan, value).expect("sums are of norms");
            let sums = std::mem::take(&mut self.norms[norm].sums);
            Below { norm: Some((norm, self.base_range(value).expect("norms read stored values"))), sums }
        })
    }

    /// Gives filled sums back and makes of them what a norm needs.
    pub(crate) fn put_below(&mut self, below: [Below; 2]) {
        for Below { norm, sums } in below {
            if let Some((norm, _)) = norm {
                self.norms[norm].sums = sums;
                self.finish_norm(norm);
            }
        }
    }

    pub(crate) fn layer_norm_backward(
        &mut self,
        norm: usize,
        source: ValueId,
        gradient: BufferId,
        target: Option<GradTarget>,
    ) {
        let extent = self.extent(source);
        let eps = self.norms[norm].slot.layer.eps;
        let entry = &self.state.affine_table().entries()[norm];
        let (scale, shift) = (entry.scale(), entry.shift());
        let to = target.map(|target| self.gradient_range(target.buffer));
        let ranges = [Some(self.stored_range(source)), Some(self.gradient_range(gradient)), to];
        let [Some(values), Some(gradient), to] = cut(&mut self.arena, ranges) else {
            unreachable!("values and gradients have a place")
        };
        let to = Option::zip(to, target).map(|(values, target)| Target { values, accumulate: target.accumulate });
        let (scale_gradient, shift_gradient) = self.gradient[scale.start..shift.end].split_at_mut(scale.len());
        let norm = LayerNorm { values, scale: &self.state.affine()[scale], shift: &self.state.affine()[shift], eps };
        let gradients = LayerNormGradients { scale: scale_gradient, shift: shift_gradient, values: to };
        k::layer_norm_backward(&mut self.team, extent, norm, gradient, gradients);
    }
}

/// The norm below a derived value, and the activation on top of it.
pub(crate) fn norm_of(plan: &Plan, value: ValueId) -> Option<(usize, Activation)> {
    match plan.value(value).storage {
        Storage::Derived { norm: Some(norm), activation, .. } => Some((norm.index(), activation)),
        _ => None,
    }
}

/// A norm whose sums are being gathered: its number, the place of its base, and the sums.
#[derive(Default)]
pub(crate) struct Below {
    pub norm: Option<(usize, Range<usize>)>,
    pub sums: Sums,
}

impl Below {
    pub fn range(&self) -> Option<Range<usize>> {
        self.norm.as_ref().map(|(_, range)| range.clone())
    }

    /// The norm as a join sees it, given the numbers of its base.
    fn joined<'a>(&'a mut self, norms: &'a [Norm], values: Option<&'a mut [f32]>) -> Option<JoinedNorm<'a>> {
        let (norm, _) = self.norm.as_ref()?;
        let Sums { sum, product } = &mut self.sums;
        Some(JoinedNorm { values: values?, centre: &norms[*norm].centre, sum, product })
    }
}

/// What the gradient of a join passes, given the noted slopes and the numbers of the norms' bases.
pub(crate) fn join_gradient<'a>(
    mask: &'a [u8],
    norms: &'a [Norm],
    [first, second]: &'a mut [Below; 2],
    [a, b]: [Option<&'a mut [f32]>; 2],
) -> JoinGradient<'a> {
    let mask = (!mask.is_empty()).then_some(mask);
    JoinGradient { mask, norms: [first.joined(norms, a), second.joined(norms, b)] }
}

/// How a gradient passes from a derived value to its base.
pub(crate) fn passage<'a>(
    plan: &Plan,
    norms: &'a [Norm],
    identity: &'a Identity,
    value: ValueId,
    values: &'a [f32],
) -> Passage<'a> {
    let Storage::Derived { norm, activation, .. } = plan.value(value).storage else {
        unreachable!("gradients pass only derived values");
    };
    match norm {
        Some(norm) => {
            let norm = &norms[norm.index()];
            Passage {
                values,
                norm: norm.tables(),
                activation: if norm.passed { Activation::Identity } else { activation },
                through: norm.through(),
            }
        }
        None => Passage { values, norm: identity.tables(), activation, through: identity.through() },
    }
}
