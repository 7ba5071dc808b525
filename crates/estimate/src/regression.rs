use crate::EstimateError;
use crate::least_squares::least_squares;
use serde::{Deserialize, Serialize};

/// Share of the mean squared spread that coefficients are shrunk by.
const SHRINKAGE: f64 = 0.003;

/// A weighted ridge regression on standardised features (Hoerl and Kennard, 1970); the intercept is not shrunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Regression {
    means: Vec<f64>,
    spreads: Vec<f64>,
    coefficients: Vec<f64>,
    intercept: f64,
}

/// One observation.
pub(crate) struct Observed {
    pub features: Vec<f64>,
    pub target: f64,
    pub weight: f64,
}

impl Regression {
    pub(crate) fn fit(observed: &[Observed]) -> Result<Self, EstimateError> {
        let width = observed.first().map_or(0, |first| first.features.len());
        if observed.is_empty() {
            return Err(EstimateError::Empty { what: "calibration samples of a regression" });
        }
        let total: f64 = observed.iter().map(|o| o.weight).sum();
        let mean = |value: &dyn Fn(&Observed) -> f64| observed.iter().map(|o| o.weight * value(o)).sum::<f64>() / total;
        let means: Vec<f64> = (0..width).map(|j| mean(&|o| o.features[j])).collect();
        let spread = |j: usize| mean(&|o| (o.features[j] - means[j]).powi(2)).sqrt() + 1e-9;
        let spreads: Vec<f64> = (0..width).map(spread).collect();
        let intercept = mean(&|o| o.target);
        // Rows of the penalty follow those of the observations.
        let columns: Vec<Vec<f64>> = (0..width)
            .map(|j| {
                let standardised = |o: &Observed| (o.weight / total).sqrt() * (o.features[j] - means[j]) / spreads[j];
                let penalty = (0..width).map(|row| if row == j { SHRINKAGE.sqrt() } else { 0.0 });
                observed.iter().map(standardised).chain(penalty).collect()
            })
            .collect();
        let mut target: Vec<f64> =
            observed.iter().map(|o| (o.weight / total).sqrt() * (o.target - intercept)).collect();
        target.extend(vec![0.0; width]);
        let coefficients = least_squares(&columns, &target).ok_or(EstimateError::Undefined {
            what: "a regression on the calibration samples",
            found: "a feature that is not finite",
            expected: "finite ones",
        })?;
        Ok(Self { means, spreads, coefficients, intercept })
    }

    pub(crate) fn predict(&self, features: &[f64]) -> f64 {
        let terms = features.iter().zip(&self.means).zip(&self.spreads).zip(&self.coefficients);
        self.intercept + terms.map(|(((x, mean), spread), b)| b * (x - mean) / spread).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn a_plane_is_found_again_up_to_shrinkage() {
        let mut random = SplitMix64::new(4);
        let observed: Vec<Observed> = (0..200)
            .map(|_| {
                let features = vec![random.normal(), 10.0 * random.normal(), 1.0];
                Observed { target: 3.0 + 2.0 * features[0] - 0.1 * features[1], features, weight: 1.0 }
            })
            .collect();
        let fit = Regression::fit(&observed).unwrap();
        for o in &observed {
            // Coefficients are smaller by a share of 0.003, features have a size of at most four.
            assert!((fit.predict(&o.features) - o.target).abs() < 4.0 * 0.003 * 3.0);
        }
    }

    #[test]
    fn an_observation_without_weight_does_not_count() {
        let at = |x: f64, target: f64, weight: f64| Observed { features: vec![x], target, weight };
        let observed = [at(0.0, 0.0, 1.0), at(1.0, 1.0, 1.0), at(2.0, 2.0, 1.0), at(1.0, 90.0, 0.0)];
        let fit = Regression::fit(&observed).unwrap();
        assert!((fit.predict(&[1.0]) - 1.0).abs() < 1e-9);
        assert!(Regression::fit(&[]).is_err());
    }
}
