use serde::Deserialize;

/// A curve from a score to an accuracy, as calibrations store it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FittedCurve {
    /// The scores it was fitted to.
    pub range: [f64; 2],
    shape: Shape,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Polynomial { centre: f64, scale: f64, coefficients: Vec<f64> },
    Monotone { knots: Vec<f64>, slopes: Vec<f64>, level: f64 },
}

impl FittedCurve {
    /// The accuracy at a score, between 0 and 1; `None` where the stored numbers give none.
    pub fn value(&self, x: f64) -> Option<f64> {
        let value = match &self.shape {
            Shape::Polynomial { centre, scale, coefficients } => {
                let t = (x - centre) / scale;
                coefficients.iter().fold(0.0, |value, c| value * t + c)
            }
            Shape::Monotone { knots, slopes, level } => level + rise(knots, slopes, x)?,
        };
        value.is_finite().then(|| value.clamp(0.0, 1.0))
    }

    /// The curve over what it was fitted to, as points.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let [low, high] = self.range;
        let at = |i: usize| low + (high - low) * i as f64 / 80.0;
        let point = |x: f64| Some((x, self.value(x)?));
        (0..=80).filter_map(|i| point(at(i))).collect()
    }
}

/// The integral of a slope that is linear between knots and constant beyond them, from the first knot to `x`.
fn rise(knots: &[f64], slopes: &[f64], x: f64) -> Option<f64> {
    if slopes.len() != knots.len() {
        return None;
    }
    let (first, first_slope) = (knots.first()?, slopes.first()?);
    if x <= *first {
        return Some((x - first) * first_slope);
    }
    let mut sum = 0.0;
    for (knot, slope) in knots.windows(2).zip(slopes.windows(2)) {
        let width = knot[1] - knot[0];
        let done = (x.min(knot[1]) - knot[0]).max(0.0);
        if width > 0.0 {
            let reached = slope[0] + (slope[1] - slope[0]) * done / width;
            sum += 0.5 * (slope[0] + reached) * done;
        }
    }
    let beyond = (x - knots.last()?).max(0.0);
    Some(sum + beyond * slopes.last()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_read_as_they_are_stored() {
        let text = r#"{"direction":"decreasing","range":[0,4],"shape":{"monotone":{"knots":[0,2,4],"slopes":[-0.2,-0.1,0],"level":0.9}}}"#;
        let curve: FittedCurve = serde_json::from_str(text).expect("a curve");
        for (x, y) in [(0.0, 0.9), (2.0, 0.6), (3.0, 0.525), (4.0, 0.5), (9.0, 0.5)] {
            assert!((curve.value(x).expect("a value") - y).abs() < 1e-12, "{x}");
        }
        assert_eq!(curve.points().len(), 81);
        let text = r#"{"range":[0,1],"shape":{"polynomial":{"centre":1,"scale":2,"coefficients":[1,0,0.25]}}}"#;
        let curve: FittedCurve = serde_json::from_str(text).expect("a curve");
        assert!((curve.value(2.0).expect("a value") - 0.5).abs() < 1e-12);
    }

    #[test]
    fn damaged_curves_have_no_values() {
        let text = r#"{"range":[0,4],"shape":{"monotone":{"knots":[0,2,4],"slopes":[0.1],"level":0.9}}}"#;
        let curve: FittedCurve = serde_json::from_str(text).expect("a curve");
        assert_eq!((curve.value(1.0), curve.points()), (None, vec![]));
    }
}
