//! The arithmetic of constants: tensors that are known before any image is.

use crate::program::CallError;
use crate::program::lower::Constant;
use crate::program::room::Room;

/// More products than a matrix is made of when a file is read.
const MOST_PRODUCTS: usize = 1 << 26;

impl Constant {
    /// A constant of `extents`, one value for each element.
    pub fn of(extents: Vec<usize>, values: Vec<f32>, integer: bool) -> Result<Self, CallError> {
        let problem = format!("{} values for extents {extents:?}", values.len());
        let constant = Self::new(extents, values).ok_or(CallError::Extents { problem })?;
        Ok(Self { integer, ..constant })
    }

    pub fn map(&self, function: impl Fn(f32) -> f32) -> Self {
        let values = self.tensor.values().iter().map(|&value| function(value)).collect();
        let made = Self::new(self.extents().to_vec(), values).expect("as many values as before");
        Self { integer: self.integer, ..made }
    }

    /// The elements at `indices` along `axis`, which are then on axes of extents `shape`.
    pub fn take(&self, room: Room, axis: usize, indices: &[usize], shape: &[usize]) -> Result<Self, CallError> {
        let inner: usize = self.extents()[axis + 1..].iter().product();
        let size = self.extents()[axis];
        let made = [&self.extents()[..axis], shape, &self.extents()[axis + 1..]].concat();
        room.count(&made)?;
        let rows = self.tensor.values().chunks((size * inner).max(1));
        let values = rows.flat_map(|row| indices.iter().flat_map(move |&at| &row[at * inner..(at + 1) * inner]));
        Self::of(made, values.copied().collect(), self.integer)
    }

    /// Means over the axes `over`, all of them if there are none, which then have one position or are left out.
    pub fn mean(&self, over: &[usize], keep: bool) -> Result<Self, CallError> {
        let is_over = |axis: usize| over.is_empty() || over.contains(&axis);
        let all: Vec<(usize, &usize)> = self.extents().iter().enumerate().collect();
        let kept: Vec<usize> = all.iter().map(|&(axis, &size)| if is_over(axis) { 1 } else { size }).collect();
        let places = spread(self.extents(), &kept).expect("every extent is 1 or as it was");
        let mut sums = vec![0.0f64; kept.iter().product()];
        for (place, &value) in places.into_iter().zip(self.tensor.values()) {
            sums[place as usize] += f64::from(value);
        }
        let count = (self.tensor.values().len() / sums.len().max(1)).max(1) as f64;
        let shape = match keep {
            true => kept,
            false => all.iter().filter(|(axis, _)| !is_over(*axis)).map(|&(_, &size)| size).collect(),
        };
        Self::of(shape, sums.into_iter().map(|sum| (sum / count) as f32).collect(), false)
    }

    /// One value, whichever number of axes it has.
    pub fn single(&self) -> Option<f32> {
        match self.tensor.values() {
            [value] => Some(*value),
            _ => None,
        }
    }
}

/// Extents that both can be spread to.
fn common(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |extents: &[usize], axis: usize| (axis + extents.len()).checked_sub(rank).map_or(1, |at| extents[at]);
    let both = |axis| match (at(a, axis), at(b, axis)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    (0..rank).map(both).collect()
}

/// For every element of a tensor of extents `large`, the element of one of extents `small` that meets it.
fn spread(large: &[usize], small: &[usize]) -> Option<Vec<u32>> {
    let skipped = large.len().checked_sub(small.len())?;
    let mut places = vec![0u32];
    for (axis, &size) in large.iter().enumerate() {
        let extent = if axis < skipped { 1 } else { small[axis - skipped] };
        if extent != 1 && extent != size {
            return None;
        }
        let (size, extent, step) = (size as u32, extent as u32, u32::from(extent != 1));
        places = places.iter().flat_map(|&place| (0..size).map(move |i| place * extent + i * step)).collect();
    }
    Some(places)
}

/// A function of two constants, one of which may be spread over the other.
pub(super) fn combine(
    room: Room,
    a: &Constant,
    b: &Constant,
    function: impl Fn(f32, f32) -> f32,
) -> Result<Constant, CallError> {
    let problem = || format!("{:?} and {:?}", a.extents(), b.extents());
    let unfit = || CallError::Extents { problem: problem() };
    let extents = common(a.extents(), b.extents()).ok_or_else(unfit)?;
    room.count(&extents)?;
    let places = |part: &Constant| spread(&extents, part.extents()).ok_or_else(unfit);
    let pairs = places(a)?.into_iter().zip(places(b)?);
    let values = pairs.map(|(i, j)| function(a.tensor.values()[i as usize], b.tensor.values()[j as usize])).collect();
    Constant::of(extents, values, a.integer && b.integer)
}

/// `constant` spread to `wanted`.
pub(super) fn expand(room: Room, constant: &Constant, wanted: &[usize]) -> Result<Constant, CallError> {
    if constant.extents() == wanted {
        return Ok(constant.clone());
    }
    room.count(wanted)?;
    let problem = || format!("{:?} spread to {wanted:?}", constant.extents());
    let places = spread(wanted, constant.extents()).ok_or_else(|| CallError::Extents { problem: problem() })?;
    let values = places.into_iter().map(|place| constant.tensor.values()[place as usize]).collect();
    Constant::of(wanted.to_vec(), values, constant.integer)
}

/// Constants behind each other along `axis`.
pub(super) fn concatenate(room: Room, parts: &[Constant], axis: usize) -> Result<Constant, CallError> {
    let problem = || format!("{:?} behind each other", parts.iter().map(Constant::extents).collect::<Vec<_>>());
    let unfit = || CallError::Extents { problem: problem() };
    let first = parts.first().ok_or_else(unfit)?;
    let others = |part: &Constant| {
        let mut extents = part.extents().to_vec();
        extents[axis] = 0;
        extents
    };
    let rank = first.extents().len();
    if axis >= rank || parts.iter().any(|part| part.extents().len() != rank || others(part) != others(first)) {
        return Err(unfit());
    }
    let mut extents = first.extents().to_vec();
    extents[axis] = parts.iter().map(|part| part.extents()[axis]).sum();
    room.count(&extents)?;
    let outer: usize = extents[..axis].iter().product();
    let mut values = Vec::with_capacity(extents.iter().product());
    for row in 0..outer {
        for part in parts {
            let len: usize = part.extents()[axis..].iter().product();
            values.extend(&part.tensor.values()[row * len..(row + 1) * len]);
        }
    }
    Constant::of(extents, values, parts.iter().all(|part| part.integer))
}

/// `a` times `b`, matrices in the last two axes of `a`.
pub(super) fn product(room: Room, a: &Constant, b: &Constant) -> Result<Constant, CallError> {
    let problem = || format!("{:?} times {:?}", a.extents(), b.extents());
    let (&[ref outer @ .., rows, inner], &[found, columns]) = (a.extents(), b.extents()) else {
        return Err(CallError::Extents { problem: problem() });
    };
    if inner != found {
        return Err(CallError::Extents { problem: problem() });
    }
    let extents = [outer, &[rows, columns]].concat();
    let all = room.count(&extents)?;
    if all.checked_mul(inner).is_none_or(|work| work > MOST_PRODUCTS) {
        return Err(CallError::Extents { problem: problem() });
    }
    let (a, b) = (a.tensor.values(), b.tensor.values());
    let element = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let terms = (0..inner).map(|i| f64::from(a[row * inner + i]) * f64::from(b[i * columns + column]));
        terms.sum::<f64>() as f32
    };
    Constant::of(extents, (0..all).map(element).collect(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room::of_file(0)
    }

    fn constant(extents: &[usize], values: &[f32]) -> Constant {
        Constant::of(extents.to_vec(), values.to_vec(), false).unwrap()
    }

    #[test]
    fn a_small_tensor_meets_the_elements_of_its_axes() {
        assert_eq!(spread(&[2, 3], &[3]), Some(vec![0, 1, 2, 0, 1, 2]));
        assert_eq!(spread(&[2, 3], &[2, 1]), Some(vec![0, 0, 0, 1, 1, 1]));
        assert_eq!(spread(&[2, 3], &[]), Some(vec![0; 6]));
        assert_eq!(spread(&[2, 3], &[2]), None);
    }

    #[test]
    fn means_are_taken_over_some_axes_or_all() {
        let table = constant(&[2, 3], &[1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
        let mean = |over: &[usize], keep| {
            let mean = table.mean(over, keep).unwrap();
            (mean.extents().to_vec(), mean.tensor.values().to_vec())
        };
        assert_eq!(mean(&[1], true), (vec![2, 1], vec![2.0, 7.0]));
        assert_eq!(mean(&[0], false), (vec![3], vec![3.0, 4.5, 6.0]));
        assert_eq!(mean(&[], false), (vec![], vec![4.5]));
    }

    #[test]
    fn both_constants_may_be_spread() {
        let sum = combine(room(), &constant(&[2, 1], &[10.0, 20.0]), &constant(&[3], &[1.0, 2.0, 3.0]), |a, b| a + b)
            .unwrap();
        assert_eq!(sum.extents(), [2, 3]);
        assert_eq!(sum.tensor.values(), [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
        assert!(combine(room(), &constant(&[2], &[0.0; 2]), &constant(&[3], &[0.0; 3]), |a, _| a).is_err());
    }

    #[test]
    fn constants_are_joined_along_an_axis() {
        let joined =
            concatenate(room(), &[constant(&[2, 1], &[1.0, 2.0]), constant(&[2, 2], &[3.0, 4.0, 5.0, 6.0])], 1)
                .unwrap();
        assert_eq!(joined.tensor.values(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    }

    #[test]
    fn matrices_are_multiplied() {
        let made = product(room(), &constant(&[1, 2], &[1.0, 2.0]), &constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!(made.tensor.values(), [7.0, 10.0]);
        assert!(product(room(), &constant(&[1, 2], &[1.0, 2.0]), &constant(&[1, 2], &[1.0, 2.0])).is_err());
    }

    #[test]
    fn rows_are_taken_by_number() {
        let taken = constant(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).take(room(), 0, &[2, 0], &[2]).unwrap();
        assert_eq!(taken.tensor.values(), [4.0, 5.0, 0.0, 1.0]);
    }
}
