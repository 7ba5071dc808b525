use crate::AdaptError;
use serde::{Deserialize, Serialize};

/// The entropy below which a prediction counts as reliable.
///
/// Published margins are shares of `ln K`, the entropy of a uniform prediction of `K` classes: 0.4 ln 1000 = 2.763 nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EntropyMargin {
    /// A share of `ln K`.
    Share(f64),
    /// Nats, whatever the number of classes.
    Nats(f64),
}

impl EntropyMargin {
    /// The margin in nats for predictions of `num_classes` classes.
    pub fn nats(self, num_classes: usize) -> f64 {
        match self {
            Self::Share(share) => share * (num_classes as f64).ln(),
            Self::Nats(nats) => nats,
        }
    }

    /// Refuses margins that let nothing pass or are no number.
    pub fn check(self) -> Result<(), AdaptError> {
        match self {
            Self::Share(share) => AdaptError::unless(
                share > 0.0 && share <= 1.0,
                "entropy margin as a share of ln K",
                share,
                "more than 0, and at most 1",
            ),
            // Weights are exponentials of the margin, which single precision must hold.
            Self::Nats(nats) => AdaptError::unless(
                nats > 0.0 && nats <= 50.0,
                "entropy margin in nats",
                nats,
                "more than 0, and at most 50",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_with_the_number_of_classes_and_nats_do_not() {
        assert!((EntropyMargin::Share(0.4).nats(1000) - 2.763_102_111_592_855).abs() < 1e-12);
        assert!(EntropyMargin::Share(0.4).nats(10) < 1.0);
        assert_eq!(EntropyMargin::Nats(2.5).nats(10), 2.5);
    }

    #[test]
    fn a_margin_that_lets_nothing_pass_is_refused() {
        for margin in [EntropyMargin::Share(0.0), EntropyMargin::Share(1.5), EntropyMargin::Nats(f64::NAN)] {
            assert!(margin.check().is_err(), "{margin:?}");
        }
        assert!(EntropyMargin::Share(1.0).check().is_ok());
    }
}
