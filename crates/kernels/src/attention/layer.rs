use super::backward::Backward;
use super::forward::Forward;
use crate::conv::Exactness;
use crate::gemm::{Panels, Run};
use crate::isa::Isa;
use crate::shared::Shared;
use crate::{ScratchSize, Target, Team};

/// Most queries worked on at once: five tiles of the widest instruction set, so that their scores stay near the core.
const QUERIES: usize = 70;

/// What an attention layer is made of.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape<'a> {
    /// Tokens per image.
    pub tokens: usize,
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_channels: usize,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Tokens per group.
    pub group: usize,
    /// Positions of an image's tokens, group after group.
    pub order: &'a [u32],
    /// Added to the scores, `[head][query][key]` of a group.
    pub bias: Option<&'a [f32]>,
    /// The region of every entry of `order`, and what is added to the score of two tokens of different regions.
    pub regions: Option<(&'a [u8], f32)>,
}

/// Self-attention ready to run.
#[derive(Debug)]
pub struct Attention {
    isa: Isa,
    exactness: Exactness,
    tokens: usize,
    pub(super) heads: usize,
    pub(super) head_channels: usize,
    pub(super) scale: f32,
    pub(super) group: usize,
    order: Vec<u32>,
    /// `[head][query][key]`, or one row for all; rows are padded to `keys` with minus infinity.
    bias: Vec<f32>,
    /// Masks that occur, `[query][key]` with rows padded likewise, and the one of every group.
    masks: Vec<Vec<f32>>,
    mask_of: Vec<Option<usize>>,
}

/// One head of one group of one image.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a> {
    pub attention: &'a Attention,
    image: usize,
    head: usize,
    /// Positions of the group's tokens in the image.
    order: &'a [u32],
    mask: Option<&'a [f32]>,
}

/// Parts of a token's channels.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Query,
    Key,
    Value,
}

impl Attention {
    /// # Panics
    /// If a table does not have the length the others call for, or a token lies outside the image.
    pub fn new(isa: Isa, shape: &AttentionShape, exactness: Exactness) -> Self {
        let AttentionShape { tokens, group, .. } = *shape;
        assert!(
            group > 0 && shape.order.len().is_multiple_of(group),
            "groups of {group} among {} tokens",
            shape.order.len()
        );
        assert!(shape.order.iter().all(|&token| (token as usize) < tokens), "a token outside the image");
        let pairs = group * group;
        assert!(shape.bias.is_none_or(|bias| bias.len() == shape.heads * pairs), "bias of the wrong length");
        let keys = group.next_multiple_of(isa.lanes());
        let none = vec![0.0; group];
        let bias = pad_rows(shape.bias.unwrap_or(&none), group, keys, f32::NEG_INFINITY);
        let (masks, mask_of) = masks(shape, keys);
        Self {
            isa,
            exactness,
            tokens,
            heads: shape.heads,
            head_channels: shape.head_channels,
            scale: shape.scale,
            group,
            order: shape.order.to_vec(),
            bias,
            masks,
            mask_of,
        }
    }

    /// Channels of the result.
    pub(super) fn channels(&self) -> usize {
        self.heads * self.head_channels
    }

    /// Most queries in a block.
    pub(super) fn queries(&self) -> usize {
        QUERIES.min(self.group)
    }

    /// Keys of a group, padded to whole vectors.
    pub(super) fn keys(&self) -> usize {
        self.group.next_multiple_of(self.isa.lanes())
    }

    /// Scratch that both directions need.
    pub fn scratch(&self) -> ScratchSize {
        let lanes = self.isa.lanes();
        let floats = Forward::floats(self, lanes).max(Backward::floats(self, lanes));
        ScratchSize { floats, offsets: 2 * self.group, partials: 0 }
    }

    fn groups(&self) -> usize {
        self.order.len() / self.group
    }

    fn unit(&self, index: usize) -> Unit<'_> {
        let (group, head) = (index / self.heads % self.groups(), index % self.heads);
        Unit {
            attention: self,
            image: index / self.heads / self.groups(),
            head,
            order: &self.order[group * self.group..][..self.group],
            mask: self.mask_of[group].map(|mask| self.masks[mask].as_slice()),
        }
    }

    /// `out = softmax(scale * q k' + bias + mask) v`, of `[q | k | v]` in the channels of `values`.
    ///
    /// # Panics
    /// If a slice or the scratch is too short.
    pub fn forward(&self, team: &mut Team, images: usize, values: &[f32], out: &mut [f32]) {
        self.check(images, values.len(), out.len());
        let out = Shared::new(out);
        team.each(images * self.groups() * self.heads, |index, scratch| {
            self.isa.run(Forward { unit: self.unit(index), values, out, scratch });
        });
    }

    /// The gradient of `values` from that of the result.
    ///
    /// # Panics
    /// If a slice or the scratch is too short.
    pub fn backward(&self, team: &mut Team, images: usize, values: &[f32], gradient: &[f32], target: Target) {
        self.check(images, values.len(), gradient.len());
        self.check(images, target.values.len(), gradient.len());
        let (target, accumulate) = (Shared::new(target.values), target.accumulate);
        team.each(images * self.groups() * self.heads, |index, scratch| {
            self.isa.run(Backward { unit: self.unit(index), values, gradient, target, accumulate, scratch });
        });
    }

    fn check(&self, images: usize, input: usize, output: usize) {
        let len = images * self.tokens * self.channels();
        assert!(input >= 3 * len, "attention input of {input} < {}", 3 * len);
        assert!(output >= len, "attention output of {output} < {len}");
    }
}

impl<'a> Unit<'a> {
    /// Offset of the unit's `i`-th token's channels in the layer's input.
    pub fn input(self, part: Part, i: usize) -> usize {
        let Attention { heads, head_channels, .. } = self.attention;
        let head = part as usize * heads + self.head;
        self.token(i) * 3 * self.attention.channels() + head * head_channels
    }

    /// The same in its output.
    pub fn output(self, i: usize) -> usize {
        self.token(i) * self.attention.channels() + self.head * self.attention.head_channels
    }

    fn token(self, i: usize) -> usize {
        self.image * self.attention.tokens + self.order[i] as usize
    }

    /// Smallest offset of the image in the layer's input and output: row offsets count from there.
    pub fn bases(self) -> [usize; 2] {
        let start = self.image * self.attention.tokens * self.attention.channels();
        [3 * start, start]
    }

    /// Bias and mask of the scores of the unit's `i`-th query, `keys` floats each.
    pub fn addends(self, i: usize) -> (*const f32, Option<*const f32>) {
        let Attention { group, bias, .. } = self.attention;
        let keys = self.attention.keys();
        let row = |table: &[f32], row: usize| table[row * keys..][..keys].as_ptr();
        let at = if bias.len() == keys { 0 } else { self.head * group + i };
        (row(bias, at), self.mask.map(|mask| row(mask, i)))
    }

    /// First query and number of queries of every block, nearly equal in size.
    pub fn blocks(self) -> impl Iterator<Item = (usize, usize)> {
        let group = self.attention.group;
        let count = group.div_ceil(QUERIES);
        (0..count).map(move |i| {
            let (start, end) = (i * group / count, (i + 1) * group / count);
            (start, end - start)
        })
    }

    /// A matrix in panels at `data`: rows of `columns`, multiplied with rows of one run, whose factors are `step` apart.
    pub fn panels(self, data: &'a [f32], run: &'a [Run; 1], columns: usize, step: usize) -> Panels<'a> {
        Panels {
            data: data.as_ptr(),
            runs: run,
            len: run[0].len as usize,
            columns,
            step,
            exactness: self.attention.exactness,
        }
    }
}

/// Rows of `len` floats with `padding` behind each, to make `padded`.
fn pad_rows(table: &[f32], len: usize, padded: usize, padding: f32) -> Vec<f32> {
    let mut rows = vec![padding; table.len() / len * padded];
    for (to, from) in rows.chunks_exact_mut(padded).zip(table.chunks_exact(len)) {
        to[..len].copy_from_slice(from);
    }
    rows
}

/// The different masks of all groups, with rows of `keys`, and which of them each group has.
fn masks(shape: &AttentionShape, keys: usize) -> (Vec<Vec<f32>>, Vec<Option<usize>>) {
    let groups = shape.order.len() / shape.group;
    let Some((regions, apart)) = shape.regions else {
        return (Vec::new(), vec![None; groups]);
    };
    assert_eq!(regions.len(), shape.order.len(), "regions of the wrong length");
    let (mut masks, mut mask_of): (Vec<Vec<f32>>, Vec<Option<usize>>) = Default::default();
    for regions in regions.chunks_exact(shape.group) {
        if regions.iter().all(|region| *region == regions[0]) {
            mask_of.push(None);
            continue;
        }
        let pairs = regions.iter().flat_map(|query| regions.iter().map(move |key| query == key));
        let mask: Vec<f32> = pairs.map(|same| if same { 0.0 } else { apart }).collect();
        let mask = pad_rows(&mask, shape.group, keys, 0.0);
        let known = masks.iter().position(|known| *known == mask);
        mask_of.push(Some(known.unwrap_or_else(|| {
            masks.push(mask);
            masks.len() - 1
        })));
    }
    (masks, mask_of)
}
