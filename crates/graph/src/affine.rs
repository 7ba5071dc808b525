use crate::{NormGroup, NormKind};
use std::ops::Range;

/// Where one normalisation layer's scale and shift lie in the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffineEntry {
    /// The layer's name; its parameters are `<name>.weight` and `<name>.bias`.
    pub name: String,
    /// Channels of the layer.
    pub channels: usize,
    /// Which values share a mean and a variance.
    pub kind: NormKind,
    /// The part of the network it belongs to.
    pub group: NormGroup,
    /// First element of the scale; the shift follows it directly.
    pub offset: usize,
}

impl AffineEntry {
    /// The scale (`weight`).
    pub fn scale(&self) -> Range<usize> {
        self.offset..self.offset + self.channels
    }

    /// The shift (`bias`).
    pub fn shift(&self) -> Range<usize> {
        self.offset + self.channels..self.offset + 2 * self.channels
    }
}

/// The name table of the flat vector that adapts: scale then shift of every norm layer, in node order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AffineTable {
    entries: Vec<AffineEntry>,
    len: usize,
}

impl AffineTable {
    /// Adds a layer behind those that are there.
    pub(crate) fn push(&mut self, name: &str, channels: usize, kind: NormKind, group: NormGroup) {
        self.entries.push(AffineEntry { name: name.to_owned(), channels, kind, group, offset: self.len });
        self.len += 2 * channels;
    }

    /// One entry per norm layer, in node order.
    pub fn entries(&self) -> &[AffineEntry] {
        &self.entries
    }

    /// Length of the flat vector.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the network has no norm layer, so that nothing can adapt.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether any layer has running statistics.
    pub fn has_batch_norm(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == NormKind::Batch)
    }

    /// The range of the parameter called `name`, such as `bn1.weight`.
    pub fn find(&self, name: &str) -> Option<Range<usize>> {
        let (layer, suffix) = name.rsplit_once('.')?;
        let entry = self.entries.iter().find(|entry| entry.name == layer)?;
        match suffix {
            "weight" => Some(entry.scale()),
            "bias" => Some(entry.shift()),
            _ => None,
        }
    }

    /// Every parameter name with its range, in the order of the vector.
    pub fn names(&self) -> impl Iterator<Item = (String, Range<usize>)> + '_ {
        self.entries.iter().flat_map(|entry| {
            [(format!("{}.weight", entry.name), entry.scale()), (format!("{}.bias", entry.name), entry.shift())]
        })
    }
}
