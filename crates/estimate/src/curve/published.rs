use super::fit::{Curve, CurveShape, Direction};
use super::polynomial::Polynomial;
use crate::EstimateError;

/// A curve from a publication.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedCurve {
    /// Its name here.
    pub name: &'static str,
    /// Coefficients as printed, for percentages, highest power first.
    pub percent: &'static [f64],
    /// Smallest and largest value its score can have.
    pub range: [f64; 2],
    /// What it was fitted to and what its score is.
    pub about: &'static str,
}

/// The curves of "The Entropy Enigma" (ICML 2024).
pub const PUBLISHED_CURVES: &[PublishedCurve] = &[
    PublishedCurve {
        name: "resnet50.weighted_quadratic",
        percent: &[3.55553868e-4, -0.321445023, 75.6618580],
        range: [0.0, 500.5],
        about: "ResNet-50 on ImageNet, weighted flips of 1,000 images; lies between 3.01 and 75.66 percent",
    },
    PublishedCurve {
        name: "resnet50.flips_linear",
        percent: &[-0.10318227, 83.55158891],
        range: [0.0, 1000.0],
        about: "ResNet-50 on ImageNet, plain flips of 1,000 images",
    },
    PublishedCurve {
        name: "resnet50.flips_quadratic",
        percent: &[-1.01165493e-5, -0.0959406999, 82.5756446],
        range: [0.0, 1000.0],
        about: "ResNet-50 on ImageNet, plain flips of 1,000 images",
    },
    PublishedCurve {
        name: "cifar100.weighted_quadratic",
        percent: &[3.22e-4, -0.287, 99.54],
        range: [0.0, 500.5],
        about: "CIFAR-100, weighted flips of 1,000 images; its mean error was 9.1 points",
    },
    PublishedCurve {
        name: "cifar10.weighted_quadratic",
        percent: &[-249.36, -87.39, 77.01],
        range: [0.0, 0.5005],
        about: "CIFAR-10, weighted flips on a scale that is not stated, presumably divided by the number of images; its mean error was 16.6 points",
    },
];

impl Curve {
    /// The published curve for weighted flips of a ResNet-50 on ImageNet.
    ///
    /// *Idea.* One parabola turns weighted flips into the accuracy of the network that was not adapted.
    /// *Formula.* `100 f(WF) = 3.55553868e-4 WF^2 - 0.321445023 WF + 75.6618580`, for flips of 1,000 images.
    /// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024.
    /// *Departures from the reference.* Gives fractions and is cut to `[0, 1]`. It turns at 452.03 flips, so it never says less
    /// than 3.01 nor more than 75.66 percent; from there on the prediction is marked as saturated.
    pub fn published_resnet50() -> Self {
        Self::from_published(&PUBLISHED_CURVES[0])
    }

    /// A curve of [`PUBLISHED_CURVES`] by name.
    pub fn published(name: &str) -> Result<Self, EstimateError> {
        let found = PUBLISHED_CURVES.iter().find(|curve| curve.name == name);
        found.map(Self::from_published).ok_or_else(|| {
            let known: Vec<&str> = PUBLISHED_CURVES.iter().map(|curve| curve.name).collect();
            EstimateError::UnknownCurve { name: name.into(), known: known.join(", ") }
        })
    }

    fn from_published(published: &PublishedCurve) -> Self {
        Self {
            direction: Direction::Decreasing,
            range: published.range,
            shape: CurveShape::Polynomial(Polynomial {
                centre: 0.0,
                scale: 1.0,
                coefficients: published.percent.iter().map(|c| c / 100.0).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resnet_curve_turns_where_it_should() {
        let curve = Curve::published_resnet50();
        assert!((curve.predict(0.0).value - 0.756618580).abs() < 1e-12);
        assert!(!curve.predict(451.9).saturated);
        let turn = curve.predict(452.1);
        assert!(turn.saturated && (turn.value - 0.0301).abs() < 1e-4);
        let end = curve.predict(500.5);
        assert!(end.saturated && (end.value - 0.0384).abs() < 1e-4);
    }

    #[test]
    fn the_linear_curve_ends_at_810_flips() {
        let curve = Curve::published("resnet50.flips_linear").unwrap();
        assert!(curve.predict(809.0).value > 0.0);
        let cut = curve.predict(811.0);
        assert_eq!((cut.value, cut.saturated), (0.0, true));
    }

    #[test]
    fn all_are_sound_and_unknown_names_list_them() {
        for published in PUBLISHED_CURVES {
            Curve::published(published.name).unwrap().check().unwrap();
        }
        let error = Curve::published("resnet51").unwrap_err();
        assert!(error.to_string().contains("resnet50.weighted_quadratic"));
    }
}
