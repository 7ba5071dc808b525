use flipcast_tensor::ByteScale;
use serde::{Deserialize, Serialize};
use std::fmt;

use super::PreprocessError;

/// From a byte to a float, per channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Normalise {
    /// `(byte / 255 - mean) / std`, each step rounded to `f32` as torchvision does.
    MeanStd {
        /// Mean of red, green and blue in 0..1.
        mean: [f32; 3],
        /// Standard deviation of red, green and blue in 0..1.
        std: [f32; 3],
    },
    /// `(byte - offset) / divisor`.
    Bytes {
        /// Subtracted from the byte.
        offset: f32,
        /// What the difference is divided by.
        divisor: f32,
    },
}

impl fmt::Display for Normalise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[f32; 3]| values.map(|value| value.to_string()).join(",");
        match self {
            Self::MeanStd { mean, std } => write!(f, "mean {}, std {}", list(mean), list(std)),
            Self::Bytes { offset, divisor } => write!(f, "(byte - {offset}) / {divisor}"),
        }
    }
}

impl Normalise {
    /// ImageNet's statistics, used by torchvision and most of timm.
    pub fn imagenet() -> Self {
        Self::MeanStd { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
    }

    /// 0.5 and 0.5, to -1..1: timm's vision transformers.
    pub fn half() -> Self {
        Self::MeanStd { mean: [0.5; 3], std: [0.5; 3] }
    }

    /// CIFAR-10's statistics.
    pub fn cifar10() -> Self {
        Self::MeanStd { mean: [0.4914, 0.4822, 0.4465], std: [0.247, 0.2435, 0.2616] }
    }

    /// CIFAR-100's statistics.
    pub fn cifar100() -> Self {
        Self::MeanStd { mean: [0.5071, 0.4865, 0.4409], std: [0.2673, 0.2564, 0.2762] }
    }

    /// `(byte - 127) / 128`.
    pub fn centred_bytes() -> Self {
        Self::Bytes { offset: 127.0, divisor: 128.0 }
    }

    pub(super) fn check(&self) -> Result<(), PreprocessError> {
        let (offsets, scales): (&[f32], &[f32]) = match self {
            Self::MeanStd { mean, std } => (mean, std),
            Self::Bytes { offset, divisor } => (std::slice::from_ref(offset), std::slice::from_ref(divisor)),
        };
        let (offset_field, scale_field) = match self {
            Self::MeanStd { .. } => ("mean", "std"),
            Self::Bytes { .. } => ("offset", "divisor"),
        };
        if let Some(&found) = offsets.iter().find(|v| !v.is_finite()) {
            return Err(PreprocessError::BadOffset { field: offset_field, found });
        }
        if let Some(&found) = scales.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
            return Err(PreprocessError::BadScale { field: scale_field, found });
        }
        Ok(())
    }

    /// The value for a pixel of `level` (0..255, not necessarily whole) in `channel`.
    pub(super) fn value(&self, level: f32, channel: usize) -> f32 {
        match self {
            Self::MeanStd { mean, std } => (level / 255.0 - mean[channel]) / std[channel],
            Self::Bytes { offset, divisor } => (level - offset) / divisor,
        }
    }

    /// The value of every byte, per channel.
    pub fn scale(&self) -> ByteScale {
        ByteScale::new(3, |channel, byte| self.value(f32::from(byte), channel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_holds_the_formula() {
        let scale = Normalise::centred_bytes().scale();
        assert_eq!(scale.value(1, 127), 0.0);
        assert_eq!(scale.value(2, 255), 1.0);
        let scale = Normalise::imagenet().scale();
        assert_eq!(scale.value(0, 255), (1.0 - 0.485) / 0.229);
    }

    #[test]
    fn a_zero_deviation_is_refused() {
        let rule = Normalise::MeanStd { mean: [0.0; 3], std: [1.0, 0.0, 1.0] };
        assert_eq!(rule.check(), Err(PreprocessError::BadScale { field: "std", found: 0.0 }));
        let rule = Normalise::Bytes { offset: f32::NAN, divisor: 1.0 };
        assert!(matches!(rule.check(), Err(PreprocessError::BadOffset { field: "offset", .. })));
    }
}
