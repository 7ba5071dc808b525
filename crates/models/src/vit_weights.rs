//! Where a vision transformer's weight file and its parameters differ: two heads that are one, and positions of other images.

use crate::fit::{Fit, Sources};
use crate::layout::Layout;
use crate::{ArchitectureConfig, ClassToken, TensorInfo, VitConfig};
use flipcast_graph::{Graph, ParamSpec};
use flipcast_tensor::{Shape, Tensor};

const POSITIONS: &str = "encoder.pos_embedding";
const HEAD: &str = "heads.head";
const DISTILLED_HEAD: &str = "heads.head_dist";
/// Positions that are made at most; the largest published networks have some thousands.
const MOST_POSITIONS: usize = 1 << 20;

/// The parameters of `graph` as files hold them: a distilled network's classifier as two.
pub(crate) fn file_params(config: &ArchitectureConfig, graph: &Graph) -> Vec<ParamSpec> {
    let mut params = graph.params();
    let ArchitectureConfig::Vit(vit) = config else {
        return params;
    };
    if vit.class_token != ClassToken::Distilled {
        return params;
    }
    let mut second = Vec::new();
    for param in &mut params {
        let Some(suffix) = param.name.strip_prefix(HEAD) else {
            continue;
        };
        if let [_, inputs] = &mut param.shape[..] {
            *inputs /= 2;
        }
        second.push(ParamSpec { name: format!("{DISTILLED_HEAD}{suffix}"), shape: param.shape.clone() });
    }
    params.extend(second);
    params
}

/// The file's second part of the parameter called `name`, if it has one there.
pub(crate) fn second_head(name: &str) -> Option<String> {
    let suffix = name.strip_prefix(HEAD)?;
    suffix.starts_with('.').then(|| format!("{DISTILLED_HEAD}{suffix}"))
}

/// The mean of two heads as one that reads both tokens, the channels of the two in turns.
pub(crate) fn join_heads(class: &Tensor, distilled: &Tensor) -> Tensor {
    let pairs = class.values().iter().zip(distilled.values());
    match class.shape().extents() {
        &[outputs, inputs] => {
            let values = pairs.flat_map(|(a, b)| [0.5 * a, 0.5 * b]).collect();
            Tensor::new([outputs, 2 * inputs], values).expect("two values for each one")
        }
        extents => {
            let values = pairs.map(|(a, b)| 0.5 * (a + b)).collect();
            Tensor::new(Shape::new(extents), values).expect("as many values as before")
        }
    }
}

/// Whose way of resampling positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resampling {
    /// torchvision's `interpolate_embeddings`: bicubic with -0.75, corners on corners.
    AlignedCorners,
    /// timm's `resample_abs_pos_embed`: bicubic with -0.5, widened where the grid shrinks.
    AntiAliased,
}

/// How positions of one grid become those of another.
///
/// *Idea.* A network for other images has other patches; a learned position belongs to a place in the picture, so the grid of
/// positions is resampled like a picture. Tokens in front keep theirs.
/// *Formula.* Separable bicubic convolution; weights of a row or column sum to 1.
/// *Reference.* `torchvision.models.vision_transformer.interpolate_embeddings`, `timm.layers.resample_abs_pos_embed`. The names in the
/// file tell whose it is.
/// *Departures from the reference.* Sums are made in double precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    /// Tokens in front.
    prefix: usize,
    from: [usize; 2],
    to: [usize; 2],
    resampling: Resampling,
}

impl Positions {
    /// What turns positions of extents `found`, called `name` in the file, into those of `config`.
    fn find(config: &VitConfig, found: &[usize], name: &str) -> Option<Self> {
        let prefix = config.class_token.positions();
        let &[1, tokens, channels] = found else {
            return None;
        };
        let patches = tokens.checked_sub(prefix)?;
        let side = patches.isqrt();
        let to = config.image_size.map(|side| side / config.patch_size);
        let fits = side > 0
            && side * side == patches
            && channels == config.hidden_dim
            && to[0].checked_mul(to[1])? <= MOST_POSITIONS;
        fits.then_some(Self {
            prefix,
            from: [side, side],
            to,
            resampling: if name.ends_with("pos_embed") { Resampling::AntiAliased } else { Resampling::AlignedCorners },
        })
    }

    /// The positions of the other grid.
    pub(crate) fn resample(&self, tensor: &Tensor) -> Vec<f32> {
        let channels = tensor.shape().extents().last().copied().unwrap_or(0);
        let (front, grid) = tensor.values().split_at(self.prefix * channels);
        let [rows, columns] = [0, 1].map(|axis| self.weights(axis));
        let mut values = front.to_vec();
        let mut sums = vec![0.0f64; channels];
        for row in &rows {
            for column in &columns {
                sums.fill(0.0);
                for &(y, vertical) in row {
                    for &(x, horizontal) in column {
                        let cell = &grid[(y * self.from[1] + x) * channels..][..channels];
                        for (sum, &value) in sums.iter_mut().zip(cell) {
                            *sum += vertical * horizontal * f64::from(value);
                        }
                    }
                }
                values.extend(sums.iter().map(|&sum| sum as f32));
            }
        }
        values
    }

    /// For every place along an axis of the result, the places of the input and their weights.
    fn weights(&self, axis: usize) -> Vec<Vec<(usize, f64)>> {
        let (from, to) = (self.from[axis], self.to[axis]);
        (0..to)
            .map(|place| match self.resampling {
                Resampling::AlignedCorners => aligned(place, from, to),
                Resampling::AntiAliased => anti_aliased(place, from, to),
            })
            .collect()
    }
}

fn aligned(place: usize, from: usize, to: usize) -> Vec<(usize, f64)> {
    let scale = if to > 1 { (from - 1) as f64 / (to - 1) as f64 } else { 0.0 };
    let centre = place as f64 * scale;
    let first = centre.floor();
    let last = (from - 1) as f64;
    (-1..=2)
        .map(|tap| {
            let at = first + f64::from(tap);
            let weight = cubic(at - centre, -0.75);
            (at.clamp(0.0, last) as usize, weight)
        })
        .collect()
}

fn anti_aliased(place: usize, from: usize, to: usize) -> Vec<(usize, f64)> {
    let scale = from as f64 / to as f64;
    let width = scale.max(1.0);
    let centre = scale * (place as f64 + 0.5);
    let first = (centre - 2.0 * width + 0.5).max(0.0) as usize;
    let end = ((centre + 2.0 * width + 0.5) as usize).min(from);
    let weight = |at: usize| cubic((at as f64 - centre + 0.5) / width, -0.5);
    let total: f64 = (first..end).map(weight).sum();
    (first..end).map(|at| (at, weight(at) / total)).collect()
}

/// Keys' cubic kernel with the slope `a` at 1.
fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// Takes positions of another grid as fitting, with the way they become the network's own.
pub(crate) fn accept_positions(
    config: &ArchitectureConfig,
    tensors: &[TensorInfo],
    fit: &mut Fit,
    sources: &mut Sources,
) {
    let ArchitectureConfig::Vit(vit) = config else {
        return;
    };
    let is_positions = |name: &str| crate::vit::FAMILY.canonical_name(name) == POSITIONS;
    let Some(place) = fit.mismatched.iter().position(|m| m.name == POSITIONS) else {
        return;
    };
    let Some(tensor) = tensors.iter().find(|tensor| is_positions(&tensor.name)) else {
        return;
    };
    if let Some(positions) = Positions::find(vit, tensor.shape.extents(), &tensor.name) {
        fit.mismatched.remove(place);
        fit.matched += 1;
        let source = (tensor.name.clone(), Layout::Positions(positions));
        sources.insert(POSITIONS.to_owned(), source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resampling(resampling: Resampling, from: usize, to: usize) -> Positions {
        Positions { prefix: 1, from: [from, from], to: [to, to + 1], resampling }
    }

    #[test]
    fn a_constant_stays_one_and_tokens_in_front_stay_as_they_are() {
        for kind in [Resampling::AlignedCorners, Resampling::AntiAliased] {
            for (from, to) in [(3, 5), (5, 2), (1, 4), (4, 1)] {
                let mut values = vec![0.25; (1 + from * from) * 2];
                values[..2].copy_from_slice(&[7.0, 8.0]);
                let tensor = Tensor::new([1, 1 + from * from, 2], values).unwrap();
                let found = resampling(kind, from, to).resample(&tensor);
                assert_eq!(found.len(), (1 + to * (to + 1)) * 2);
                assert_eq!(found[..2], [7.0, 8.0]);
                assert!(found[2..].iter().all(|v| (v - 0.25).abs() < 1e-6));
            }
        }
    }

    #[test]
    fn hostile_extents_are_no_positions() {
        let config = VitConfig::new(32, 8, [12, 2, 3], 5);
        for found in [
            &[1usize, 10, 12][..],
            &[1, 9, 12],
            &[1, 0, 12],
            &[1, usize::MAX, 12],
            &[2, 10, 12],
            &[1, 10, 11],
            &[10, 12],
        ] {
            let accepted = Positions::find(&config, found, "pos_embed").is_some();
            assert_eq!(accepted, found == [1, 10, 12], "{found:?}");
        }
        let vast = VitConfig::new(16_384, 1, [12, 2, 3], 5);
        assert_eq!(Positions::find(&vast, &[1, 10, 12], "pos_embed"), None);
    }

    #[test]
    fn two_heads_are_joined_channel_by_channel() {
        let class = Tensor::new([1, 2], vec![2.0, 4.0]).unwrap();
        let distilled = Tensor::new([1, 2], vec![6.0, 8.0]).unwrap();
        let joined = join_heads(&class, &distilled);
        assert_eq!(joined.shape().extents(), [1, 4]);
        assert_eq!(joined.values(), [1.0, 3.0, 2.0, 4.0]);
        let bias = |value| Tensor::new([1], vec![value]).unwrap();
        assert_eq!(join_heads(&bias(1.0), &bias(3.0)).values(), [2.0]);
    }
}
