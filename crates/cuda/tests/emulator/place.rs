use crate::device::{DeviceSlice, bf16_bits};
use crate::precision::{Element, Precision};
use flipcast_testkit::Random;

/// Bytes of guard before and after a place, and what they are filled with.
const GUARD: usize = 64;
const FILL: u8 = 0xa5;

/// Host memory that kernels take for device memory: aligned as that is, filled with NaN until written, and guarded.
pub(crate) struct Place {
    // Words of 16 bytes, so that the start is aligned.
    words: Vec<u128>,
    element: Element,
    len: usize,
    shift: usize,
}

impl Place {
    /// Memory for `len` elements, all bits set.
    pub fn new(element: Element, len: usize) -> Self {
        let bytes = GUARD + len * element.bytes() + GUARD;
        let mut place =
            Self { words: vec![u128::from_ne_bytes([FILL; 16]); bytes.div_ceil(16) + 1], element, len, shift: 0 };
        place.bytes_mut().fill(0xff);
        place
    }

    /// `values` as a precision stores them.
    pub fn elements(precision: Precision, values: &[f32]) -> Self {
        match precision.element() {
            Element::Bf16 => {
                let bits = values.iter().flat_map(|&x| bf16_bits(x).to_ne_bytes());
                Self::from_bytes(Element::Bf16, values.len(), bits)
            }
            _ => Self::floats(values),
        }
    }

    /// As `elements`, one element off the 16-byte boundary.
    pub fn shifted(precision: Precision, values: &[f32]) -> Self {
        let mut place = Self::elements(precision, values);
        let bytes = place.bytes().to_vec();
        place.words.fill(u128::from_ne_bytes([FILL; 16]));
        place.shift = place.element.bytes();
        place.bytes_mut().copy_from_slice(&bytes);
        place
    }

    pub fn floats(values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_ne_bytes());
        Self::from_bytes(Element::F32, values.len(), bytes)
    }

    pub fn integers(values: &[i32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_ne_bytes());
        Self::from_bytes(Element::I32, values.len(), bytes)
    }

    pub fn doubles(values: &[f64]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_ne_bytes());
        Self::from_bytes(Element::F64, values.len(), bytes)
    }

    pub fn raw(values: &[u8]) -> Self {
        Self::from_bytes(Element::U8, values.len(), values.iter().copied())
    }

    /// Overwrites its first bytes.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    }

    fn from_bytes(element: Element, len: usize, bytes: impl Iterator<Item = u8>) -> Self {
        let mut place = Self::new(element, len);
        let bytes: Vec<u8> = bytes.collect();
        place.bytes_mut().copy_from_slice(&bytes);
        place
    }

    /// As kernels get it.
    pub fn slice(&mut self) -> DeviceSlice {
        DeviceSlice { address: self.bytes_mut().as_mut_ptr().addr() as u64, len: self.len, element: self.element }
    }

    /// Its numbers as 32-bit floats.
    ///
    /// # Panics
    /// If a guard was written to.
    pub fn values(&self) -> Vec<f32> {
        self.check();
        let bytes = self.bytes();
        match self.element {
            Element::Bf16 => {
                let (halves, _) = bytes.as_chunks::<2>();
                let widen = |half: &[u8; 2]| f32::from_bits(u32::from(u16::from_ne_bytes(*half)) << 16);
                halves.iter().map(widen).collect()
            }
            Element::F32 => bytes.as_chunks::<4>().0.iter().map(|word| f32::from_ne_bytes(*word)).collect(),
            Element::F64 => {
                let (longs, _) = bytes.as_chunks::<8>();
                longs.iter().map(|long| f64::from_ne_bytes(*long) as f32).collect()
            }
            Element::I32 | Element::U8 => panic!("integers are not read as floats"),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let start = GUARD + self.shift;
        &all(&self.words)[start..start + self.len * self.element.bytes()]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, len) = (GUARD + self.shift, self.len * self.element.bytes());
        let words = self.words.as_mut_slice();
        // SAFETY: plain integers, written as the bytes they are.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words)) };
        &mut bytes[start..start + len]
    }

    pub fn check(&self) {
        let start = GUARD + self.shift;
        let (before, rest) = all(&self.words).split_at(start);
        let after = &rest[self.len * self.element.bytes()..];
        let intact = |guard: &[u8]| guard.iter().all(|&byte| byte == FILL);
        assert!(intact(before), "written before the start");
        assert!(intact(after), "written beyond the end");
    }
}

fn all(words: &[u128]) -> &[u8] {
    // SAFETY: plain integers, read as the bytes they are.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Seeded draws from a normal distribution, rounded to what a precision can store.
pub(crate) fn normals(random: &mut Random, precision: Precision, len: usize) -> Vec<f32> {
    let round = |x: f32| match precision.element() {
        Element::Bf16 => f32::from_bits(u32::from(bf16_bits(x)) << 16),
        _ => x,
    };
    (0..len).map(|_| round(random.normal() as f32)).collect()
}

/// Compares with a bound per element, relative to the largest expected magnitude.
///
/// # Panics
/// With the worst element, both values, the bound, and how many exceed it.
pub(crate) fn assert_close(what: &str, found: &[f32], expected: &[f32], share: f32) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let largest = expected.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    let bound = share * largest.max(f32::MIN_POSITIVE);
    let off = |(found, expected): (&f32, &f32)| {
        let error = (found - expected).abs();
        if error.is_nan() { f32::INFINITY } else { error }
    };
    let errors: Vec<f32> = found.iter().zip(expected).map(off).collect();
    let exceeding = errors.iter().filter(|&&error| error > bound).count();
    let worst = (0..errors.len()).max_by(|&a, &b| errors[a].total_cmp(&errors[b]));
    if let Some(at) = worst.filter(|_| exceeding > 0) {
        panic!(
            "{what}: at {at} {} instead of {}, off by {:e}, bound {bound:e} ({share:e} of {largest}); {exceeding} of {} exceed it",
            found[at],
            expected[at],
            errors[at],
            errors.len()
        );
    }
}
