use super::errors::ImportError;
use crate::text::shown;
use flipcast_tensor::{DType, Shape, Tensor};
use std::ops::Range;

/// More axes than any layer has; a bound on the work per element of a strided tensor.
pub(super) const MAX_RANK: usize = 16;

/// What a weight file says about one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, without the prefix the whole file shares.
    pub name: String,
    /// Element type in the file.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
}

/// A tensor's place in a file. Every element it names lies inside `storage`, and `storage` inside its source.
#[derive(Clone, Debug)]
pub(super) struct StoredTensor {
    pub(super) info: TensorInfo,
    /// Which of the file's sources it lies in; the file itself comes first.
    source: usize,
    storage: Range<usize>,
    len: usize,
    layout: Layout,
}

#[derive(Clone, Debug)]
enum Layout {
    /// The storage is the tensor, in row-major order.
    Contiguous,
    /// Element `[i, j, ..]` is element `first + i * strides[0] + j * strides[1] + ..` of the storage.
    Strided { first: usize, strides: Vec<usize> },
}

/// A tensor as a torch file declares it: a window into a storage, counted in elements.
pub(super) struct StridedWindow {
    pub(super) storage: Range<usize>,
    pub(super) first: usize,
    pub(super) strides: Vec<usize>,
}

impl StoredTensor {
    /// A tensor that fills `storage` exactly.
    pub(super) fn contiguous(info: TensorInfo, storage: Range<usize>) -> Result<Self, ImportError> {
        let len = check_len(&info)?;
        // Cannot overflow where `check_len` passed; compared in u64 for the message.
        let expected = (len as u64).saturating_mul(info.dtype.size() as u64);
        let found = storage.len() as u64;
        if expected != found {
            return Err(ImportError::SizeMismatch {
                name: shown(&info.name),
                shape: info.shape,
                dtype: info.dtype,
                expected,
                found,
            });
        }
        Ok(Self { info, source: 0, storage, len, layout: Layout::Contiguous })
    }

    /// A tensor that reads a window of a storage. Windows that repeat elements by a stride of zero are refused: they
    /// let a small file declare a large tensor, and no weight is stored that way.
    pub(super) fn strided(info: TensorInfo, window: StridedWindow) -> Result<Self, ImportError> {
        let StridedWindow { storage, first, mut strides } = window;
        let len = check_len(&info)?;
        let size = info.dtype.size();
        let stored = storage.len() / size;
        if strides.len() != info.shape.rank() {
            return Err(ImportError::BadTensorField {
                name: shown(&info.name),
                field: "number of strides",
                expected: "one per axis",
                found: format!("{} for the shape {}", strides.len(), info.shape),
            });
        }
        let extents = info.shape.extents();
        for (stride, &extent) in strides.iter_mut().zip(extents) {
            if extent == 1 {
                // Never stepped along, and torch allows any value here.
                *stride = 0;
            } else if *stride == 0 && len > 0 {
                return Err(ImportError::RepeatedElements { name: shown(&info.name), shape: info.shape });
            }
        }
        if len == 0 {
            let start = storage.start;
            return Self::contiguous(info, start..start);
        }
        let last = extents
            .iter()
            .zip(&strides)
            .try_fold(first, |last, (&extent, &stride)| last.checked_add(stride.checked_mul(extent - 1)?));
        if last.is_none_or(|last| last >= stored) || len > stored {
            return Err(ImportError::OutsideStorage {
                name: shown(&info.name),
                shape: info.shape,
                stored: stored as u64,
            });
        }
        if is_row_major(extents, &strides) {
            // In bounds: the last of the `len` elements from `first` on was checked above.
            let start = storage.start + first * size;
            return Self::contiguous(info, start..start + len * size);
        }
        Ok(Self { info, source: 0, storage, len, layout: Layout::Strided { first, strides } })
    }

    /// The tensor in another of the sources of its file.
    pub(super) fn in_source(mut self, source: usize) -> Self {
        self.source = source;
        self
    }

    /// Which of the file's sources it lies in.
    pub(super) fn source(&self) -> usize {
        self.source
    }

    /// Bytes the tensor has once gathered, in its own element type.
    pub(super) fn byte_len(&self) -> u64 {
        self.len as u64 * self.info.dtype.size() as u64
    }

    /// Reads the values out of `file`, the bytes of its source.
    pub(super) fn load(&self, file: &[u8]) -> Tensor {
        let storage = &file[self.storage.clone()];
        let values = match &self.layout {
            Layout::Contiguous => self.info.dtype.to_f32(storage),
            Layout::Strided { first, strides } => {
                let gathered = self.gather(storage, *first, strides);
                self.info.dtype.to_f32(&gathered)
            }
        };
        Tensor::new(self.info.shape.clone(), values).expect("the constructors tie the byte count to the shape")
    }

    /// The elements in row-major order.
    fn gather(&self, storage: &[u8], first: usize, strides: &[usize]) -> Vec<u8> {
        let size = self.info.dtype.size();
        let extents = self.info.shape.extents();
        let mut gathered = Vec::with_capacity(self.len * size);
        let mut index = [0usize; MAX_RANK];
        let mut at = first;
        for _ in 0..self.len {
            gathered.extend_from_slice(&storage[at * size..(at + 1) * size]);
            for axis in (0..extents.len()).rev() {
                index[axis] += 1;
                at += strides[axis];
                if index[axis] < extents[axis] {
                    break;
                }
                at -= strides[axis] * extents[axis];
                index[axis] = 0;
            }
        }
        gathered
    }
}

/// Number of elements, once rank and product are known to be sane.
fn check_len(info: &TensorInfo) -> Result<usize, ImportError> {
    if info.shape.rank() > MAX_RANK {
        return Err(ImportError::TooManyAxes { name: shown(&info.name), found: info.shape.rank(), limit: MAX_RANK });
    }
    let len = info.shape.checked_len();
    // The byte count must fit as well, or later products could wrap.
    len.filter(|len| len.checked_mul(info.dtype.size()).is_some())
        .ok_or_else(|| ImportError::TooLarge { name: shown(&info.name), shape: info.shape.clone() })
}

/// Whether the elements lie one after the other; axes of extent one do not count.
fn is_row_major(extents: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    for (&extent, &stride) in extents.iter().zip(strides).rev() {
        if extent != 1 {
            if stride != expected {
                return false;
            }
            expected *= extent;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(shape: &[usize], strides: &[usize], first: usize, stored: usize) -> Result<StoredTensor, ImportError> {
        let info = TensorInfo { name: "w".to_owned(), dtype: DType::U8, shape: Shape::new(shape) };
        let strides = strides.to_vec();
        let storage = 0..stored;
        StoredTensor::strided(info, StridedWindow { storage, first, strides })
    }

    #[test]
    fn a_transposed_window_is_gathered_in_row_major_order() {
        let tensor = strided(&[3, 2], &[1, 3], 1, 7).expect("it fits");
        let values = tensor.load(&[9, 0, 1, 2, 3, 4, 5]).into_values();
        assert_eq!(values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn a_window_past_the_storage_is_refused() {
        for (shape, strides, first) in
            [(&[3][..], &[2][..], 1), (&[1], &[1], 5), (&[2], &[usize::MAX], 1), (&[], &[], 5)]
        {
            let error = strided(shape, strides, first, 5).expect_err("out of bounds");
            assert!(matches!(error, ImportError::OutsideStorage { .. }), "{error}");
        }
    }

    #[test]
    fn an_expanded_window_is_refused() {
        let error = strided(&[1 << 40, 2], &[0, 1], 0, 5).expect_err("repeats");
        assert!(matches!(error, ImportError::RepeatedElements { .. }), "{error}");
    }

    #[test]
    fn a_window_with_more_elements_than_its_storage_is_refused() {
        let error = strided(&[3, 3], &[1, 1], 0, 5).expect_err("nine out of five");
        assert!(matches!(error, ImportError::OutsideStorage { .. }), "{error}");
    }

    #[test]
    fn the_stride_of_an_extent_of_one_does_not_matter() {
        let tensor = strided(&[2, 1], &[1, usize::MAX], 0, 2).expect("it fits");
        assert_eq!(tensor.load(&[4, 5]).into_values(), [4.0, 5.0]);
    }

    #[test]
    fn an_empty_tensor_needs_no_storage() {
        let tensor = strided(&[0, 3], &[3, 1], 7, 0).expect("nothing is read");
        assert!(tensor.load(&[]).values().is_empty());
    }

    #[test]
    fn absurd_shapes_are_refused() {
        let error = strided(&[1 << 60, 1 << 60], &[1, 1], 0, 5).expect_err("overflows");
        assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
        let error = strided(&[1; 17], &[1; 17], 0, 5).expect_err("17 axes");
        assert!(matches!(error, ImportError::TooManyAxes { .. }), "{error}");
        let error = strided(&[2, 2], &[1], 0, 5).expect_err("one stride for two axes");
        assert!(matches!(error, ImportError::BadTensorField { field: "number of strides", .. }), "{error}");
    }
}
