use crate::{Family, TensorInfo};
use std::collections::HashMap;

/// Blocks or stages beyond which counting stops.
const MOST: usize = 1_000;

/// The extents of a file's tensors by canonical name, from which settings are read.
pub(crate) struct Shapes<'a>(HashMap<String, &'a [usize]>);

impl<'a> Shapes<'a> {
    pub(crate) fn new(family: Family, tensors: &'a [TensorInfo]) -> Self {
        let named = tensors.iter().map(|tensor| {
            let name = family.canonical_name(&tensor.name).into_owned();
            (name, tensor.shape.extents())
        });
        Self(named.collect())
    }

    /// The extents of `name`, if it is there and has this many.
    pub(crate) fn get<const RANK: usize>(&self, name: &str) -> Option<[usize; RANK]> {
        (*self.0.get(name)?).try_into().ok()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// How many of `name(0)`, `name(1)`, ... are there.
    pub(crate) fn count(&self, name: impl Fn(usize) -> String) -> usize {
        (0..MOST).take_while(|&i| self.has(&name(i))).count()
    }

    /// For every stage, how many of `name(stage, 0)`, `name(stage, 1)`, ... are there.
    pub(crate) fn count_stages(&self, name: impl Fn(usize, usize) -> String) -> Vec<usize> {
        let stages = self.count(|stage| name(stage, 0));
        (0..stages).map(|stage| self.count(|block| name(stage, block))).collect()
    }

    /// Side of the window and heads of the bias table called `name`, in either layout.
    pub(crate) fn window(&self, name: &str) -> Option<(usize, usize)> {
        let (side, heads) = match **self.0.get(name)? {
            [entries, heads] => (exact_root(entries)?, heads),
            [heads, rows, columns] if rows == columns => (rows, heads),
            _ => return None,
        };
        (side % 2 == 1).then_some((side.div_ceil(2), heads))
    }
}

pub(crate) fn exact_root(square: usize) -> Option<usize> {
    let root = square.isqrt();
    (root.checked_mul(root) == Some(square)).then_some(root)
}

/// `3-4-6-3`, for the name of a network that has none.
pub(crate) fn join(numbers: &[usize]) -> String {
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    texts.join("-")
}
