//! Severities in steps of a quarter.

use std::fmt;

use crate::error::CorruptError;

/// A severity from 0 to 5 in steps of 1/4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuarterSeverity(u8);

impl QuarterSeverity {
    /// No corruption.
    pub const ZERO: Self = Self(0);

    /// `quarters / 4`, for 0 to 20 quarters.
    pub fn from_quarters(quarters: usize) -> Option<Self> {
        u8::try_from(quarters).ok().filter(|&quarters| quarters <= 20).map(Self)
    }

    /// The severity with this value.
    pub fn new(value: f64) -> Result<Self, CorruptError> {
        let quarters = value * 4.0;
        if quarters.fract() == 0.0 && (0.0..=20.0).contains(&quarters) {
            Ok(Self(quarters as u8))
        } else {
            Err(CorruptError::BadQuarterSeverity { found: value })
        }
    }

    /// 0 to 5.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 4.0
    }

    /// 0 to 20.
    pub fn quarters(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for QuarterSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quarters_up_to_five_are_severities() {
        assert_eq!(QuarterSeverity::new(2.25).map(QuarterSeverity::quarters), Ok(9));
        for bad in [-0.25, 5.25, 0.1, f64::NAN, f64::INFINITY] {
            assert!(QuarterSeverity::new(bad).is_err(), "{bad}");
        }
    }
}
