use std::fmt;

/// How far two results may be apart, and why.
///
/// ```
/// use flipcast_tensor::Tolerance;
///
/// assert!(Tolerance::Ulps(1).compare(&[1.0], &[1.0 + f32::EPSILON]).ok);
/// let comparison = Tolerance::Absolute(0.1).compare(&[0.0, 1.0], &[0.0, 0.0]);
/// assert!(!comparison.ok);
/// assert!(comparison.report.starts_with("worst at 1: found 1e0, expected 0e0"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Bit for bit, except that any NaN equals any NaN.
    Exact,
    /// At most this many representable values apart.
    Ulps(u32),
    /// Two sums of `terms` products in different orders: `2 * terms * 2^-24 * magnitude`, where `magnitude` is the
    /// sum of the absolute products, at least `1`-norm scale of the data.
    SumOf {
        /// Number of products.
        terms: usize,
        /// Bound on the sum of the absolute products.
        magnitude: f32,
    },
    /// A measured bound on the absolute difference.
    Absolute(f32),
    /// A measured bound on the L2 norm of the difference over the L2 norm of the expectation.
    RelativeL2(f64),
}

/// The outcome of comparing two slices; its text names the worst element.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether everything was within bounds.
    pub ok: bool,
    /// What was compared with what, ready to print.
    pub report: String,
}

impl Tolerance {
    /// Compares `found` with `expected` and reports the worst element, the bound, and how many exceed it.
    pub fn compare(self, found: &[f32], expected: &[f32]) -> Comparison {
        if found.len() != expected.len() {
            let report = format!("found {} values, expected {}", found.len(), expected.len());
            return Comparison { ok: false, report };
        }
        if let Self::RelativeL2(bound) = self {
            let error = relative_l2(found, expected);
            let report = format!("relative L2 error {error:.3e}, bound {bound:.3e}");
            return Comparison { ok: error <= bound, report };
        }
        let mut worst: Option<(usize, f64)> = None;
        let mut exceeding = 0;
        for (i, (&a, &b)) in found.iter().zip(expected).enumerate() {
            let excess = self.excess(a, b);
            exceeding += usize::from(excess > 1.0);
            if worst.is_none_or(|(_, e)| excess > e) {
                worst = Some((i, excess));
            }
        }
        let report = match worst {
            None => "nothing to compare".to_owned(),
            Some((i, excess)) => format!(
                "worst at {i}: found {:e}, expected {:e}, {excess:.3} times the bound {self:?}; {exceeding} of {} exceed it",
                found[i],
                expected[i],
                found.len()
            ),
        };
        Comparison { ok: exceeding == 0, report }
    }

    /// Panics with the report unless `found` is within bounds of `expected`; `what` names the comparison.
    #[track_caller]
    pub fn check(self, what: &str, found: &[f32], expected: &[f32]) {
        let comparison = self.compare(found, expected);
        assert!(comparison.ok, "{what}: {}", comparison.report);
    }

    /// The difference as a multiple of what is allowed.
    fn excess(self, a: f32, b: f32) -> f64 {
        if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
            return 0.0;
        }
        let over = |difference: f64, bound: f64| {
            // Not `>`: a NaN difference must count as exceeding.
            if difference <= bound { difference / bound.max(f64::MIN_POSITIVE) } else { (difference / bound).max(2.0) }
        };
        let difference = (f64::from(a) - f64::from(b)).abs();
        match self {
            Self::Exact => f64::INFINITY,
            Self::Ulps(n) => over(f64::from(ulps_apart(a, b)), f64::from(n)),
            Self::SumOf { terms, magnitude } => {
                over(difference, 2.0 * terms as f64 * f64::from(magnitude) / f64::from(1u32 << 24))
            }
            Self::Absolute(bound) => over(difference, f64::from(bound)),
            Self::RelativeL2(_) => unreachable!("handled by `compare`"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}

/// `|found - expected| / |expected|` in L2; zero over zero is zero.
fn relative_l2(found: &[f32], expected: &[f32]) -> f64 {
    let (mut difference, mut norm) = (0.0f64, 0.0f64);
    for (&a, &b) in found.iter().zip(expected) {
        difference += (f64::from(a) - f64::from(b)).powi(2);
        norm += f64::from(b).powi(2);
    }
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

/// Representable values between `a` and `b`; `u32::MAX` when either is NaN.
fn ulps_apart(a: f32, b: f32) -> u32 {
    if a.is_nan() || b.is_nan() {
        return u32::MAX;
    }
    // Maps floats to integers in the same order, with both zeros at 0.
    let ordered = |v: f32| {
        let bits = i64::from(v.to_bits() & 0x7fff_ffff);
        if v.is_sign_negative() { -bits } else { bits }
    };
    u32::try_from((ordered(a) - ordered(b)).abs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_either_sign_are_no_ulp_apart() {
        assert_eq!(ulps_apart(0.0, -0.0), 0);
        assert_eq!(ulps_apart(1.0, 1.0 + f32::EPSILON), 1);
    }

    #[test]
    fn nan_never_passes_against_a_number() {
        for tolerance in [Tolerance::Ulps(9), Tolerance::Absolute(1e9), Tolerance::RelativeL2(1e9)] {
            assert!(!tolerance.compare(&[f32::NAN], &[1.0]).ok, "{tolerance:?}");
        }
    }

    #[test]
    fn the_report_names_the_worst_element() {
        let comparison = Tolerance::Absolute(0.1).compare(&[0.0, 1.0, 0.3], &[0.0, 0.0, 0.0]);
        assert!(!comparison.ok);
        assert!(comparison.report.starts_with("worst at 1: found 1e0"), "{comparison}");
        assert!(comparison.report.ends_with("2 of 3 exceed it"), "{comparison}");
    }
}
