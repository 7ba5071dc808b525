//! Constants between the published severities.

use super::quarter::QuarterSeverity;
use crate::error::CorruptError;
use crate::registry::find;
use crate::set::CorruptionSet;

/// The constants at severity 0 of the corruptions that can be interpolated.
const AT_ZERO: [(&str, &[f64]); 15] = [
    ("gaussian_noise", &[0.0]),
    ("shot_noise", &[0.0]),
    ("impulse_noise", &[0.0]),
    ("defocus_blur", &[0.0, 0.0]),
    ("glass_blur", &[0.0, 0.0, 0.0]),
    ("motion_blur", &[0.0, 0.0]),
    ("zoom_blur", &[1.0, 1.0, 0.01]),
    ("snow", &[0.1, 0.3, 3.0, 1.0, 10.0, 4.0, 1.0]),
    ("frost", &[1.0, 0.0]),
    ("fog", &[0.0, 2.0]),
    ("brightness", &[0.0]),
    ("contrast", &[1.0]),
    ("elastic_transform", &[0.0, 999.0, 0.0]),
    ("pixelate", &[1.0]),
    ("jpeg_compression", &[85.0]),
];

/// The rate of `shot_noise` where its reciprocal, which is what is interpolated, is 0.
const NEARLY_NOISELESS: f64 = 9999.0;

/// The ImageNet-C constants of `name` at `severity`: linear between whole severities, with a row for severity 0.
///
/// `shot_noise` interpolates the reciprocal of its rate. JPEG quality and the reach and passes of `glass_blur` are rounded,
/// halves to even.
pub fn constants_at(name: &str, severity: QuarterSeverity) -> Result<Vec<f64>, CorruptError> {
    let entry = find(CorruptionSet::ImageNetC, name)?;
    let Some((_, zero)) = AT_ZERO.iter().find(|(known, _)| *known == name) else {
        return Err(CorruptError::UnknownCorruption {
            name: name.to_owned(),
            set: None,
            nearest: AT_ZERO.map(|(known, _)| known).to_vec(),
        });
    };
    let row = |i: usize| -> Vec<f64> {
        match (i, name) {
            (0, _) => zero.to_vec(),
            (_, "shot_noise") => vec![1.0 / entry.rows[i - 1][0]],
            _ => entry.rows[i - 1].to_vec(),
        }
    };
    let low = (severity.quarters() / 4).min(4);
    let fraction = severity.value() - low as f64;
    let mut values: Vec<f64> = row(low).iter().zip(row(low + 1)).map(|(a, b)| a + (b - a) * fraction).collect();
    match name {
        "shot_noise" => values[0] = if values[0] == 0.0 { NEARLY_NOISELESS } else { 1.0 / values[0] },
        "jpeg_compression" => values[0] = values[0].round_ties_even(),
        "glass_blur" => {
            values[1] = values[1].max(1.0).round_ties_even();
            values[2] = values[2].round_ties_even();
        }
        _ => {}
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_severities_keep_the_published_constants() {
        for (name, _) in AT_ZERO {
            for k in 1..=5 {
                let severity = QuarterSeverity::from_quarters(4 * k).expect("at most 20");
                let published = find(CorruptionSet::ImageNetC, name).expect("listed").rows[k - 1];
                for (found, published) in constants_at(name, severity).expect("listed").iter().zip(published) {
                    assert!((found - published).abs() < 1e-12 * published.abs(), "{name} {k}");
                }
            }
        }
    }

    #[test]
    fn corruptions_without_a_row_at_zero_are_refused() {
        let error = constants_at("saturate", QuarterSeverity::ZERO).expect_err("not part of CCC");
        assert!(matches!(error, CorruptError::UnknownCorruption { .. }));
    }
}
