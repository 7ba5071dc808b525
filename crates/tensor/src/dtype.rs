use half::{bf16, f16};
use std::fmt;

/// Element types a weight file may store. Compute is always `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE half precision.
    F16,
    /// Brain float: the upper half of an `f32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Unsigned byte.
    U8,
    /// Signed byte.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer, the type of `num_batches_tracked`.
    I64,
    /// One byte per truth value.
    Bool,
}

impl DType {
    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Converts little-endian `bytes` to `f32`; trailing bytes that fill no element are ignored.
    pub fn to_f32(self, bytes: &[u8]) -> Vec<f32> {
        fn each<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
            bytes.as_chunks::<N>().0.iter().map(|&chunk| convert(chunk)).collect()
        }
        match self {
            Self::F16 => each(bytes, |b| f16::from_le_bytes(b).to_f32()),
            Self::BF16 => each(bytes, |b| bf16::from_le_bytes(b).to_f32()),
            Self::F32 => each(bytes, f32::from_le_bytes),
            Self::F64 => each(bytes, |b| f64::from_le_bytes(b) as f32),
            Self::U8 => each(bytes, |[b]| f32::from(b)),
            Self::I8 => each(bytes, |[b]| f32::from(b as i8)),
            Self::I16 => each(bytes, |b| f32::from(i16::from_le_bytes(b))),
            Self::I32 => each(bytes, |b| i32::from_le_bytes(b) as f32),
            Self::I64 => each(bytes, |b| i64::from_le_bytes(b) as f32),
            Self::Bool => each(bytes, |[b]| f32::from(u8::from(b != 0))),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Bool => "bool",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_type_reads_one_and_a_half() {
        assert_eq!(DType::F16.to_f32(&f16::from_f32(1.5).to_le_bytes()), [1.5]);
        assert_eq!(DType::BF16.to_f32(&bf16::from_f32(1.5).to_le_bytes()), [1.5]);
        assert_eq!(DType::F32.to_f32(&1.5f32.to_le_bytes()), [1.5]);
        assert_eq!(DType::F64.to_f32(&1.5f64.to_le_bytes()), [1.5]);
    }

    #[test]
    fn integers_keep_their_sign() {
        assert_eq!(DType::I8.to_f32(&[255]), [-1.0]);
        assert_eq!(DType::I64.to_f32(&(-7i64).to_le_bytes()), [-7.0]);
    }
}
