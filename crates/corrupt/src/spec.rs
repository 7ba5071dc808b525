//! Which corruption at which severity.

use std::fmt;
use std::str::FromStr;

use crate::error::CorruptError;
use crate::registry::{Entry, find, find_any};
use crate::set::CorruptionSet;

/// One of the five published severities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u8);

impl Severity {
    /// Mildest first.
    pub const ALL: [Self; 5] = [Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// The severity with this number, 1 to 5.
    pub fn new(number: u8) -> Result<Self, CorruptError> {
        if (1..=5).contains(&number) {
            Ok(Self(number))
        } else {
            Err(CorruptError::BadSeverity { found: number.to_string() })
        }
    }

    /// 1 to 5.
    pub fn number(self) -> u8 {
        self.0
    }

    /// 0 to 4, for tables.
    pub fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A corruption of a known set at one severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CorruptionSpec {
    /// Whose constants.
    pub set: CorruptionSet,
    /// Published name.
    pub name: &'static str,
    /// How strong.
    pub severity: Severity,
}

impl CorruptionSpec {
    /// The corruption `name` of `set`.
    pub fn new(set: CorruptionSet, name: &str, severity: Severity) -> Result<Self, CorruptError> {
        Ok(Self { set, name: find(set, name)?.name, severity })
    }

    pub(crate) fn entry(&self) -> Result<&'static Entry, CorruptError> {
        find(self.set, self.name)
    }
}

impl fmt::Display for CorruptionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.set, self.name, self.severity)
    }
}

/// A corruption as written after the `@` of a dataset: `gaussian_noise:3`, or `cifar-c/gaussian_noise:3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CorruptionRequest {
    /// Whose constants; `None` leaves it to the image size.
    pub set: Option<CorruptionSet>,
    /// Published name, known to at least one set.
    pub name: &'static str,
    /// How strong.
    pub severity: Severity,
}

impl CorruptionRequest {
    /// The set is the one asked for, or the first of [`CorruptionSet::by_size`] that has the corruption.
    pub fn resolve(&self, width: usize, height: usize) -> Result<CorruptionSpec, CorruptError> {
        let sized = CorruptionSet::by_size(width, height);
        let set = self.set.or_else(|| sized.into_iter().find(|&set| find(set, self.name).is_ok()));
        match set {
            Some(set) => CorruptionSpec::new(set, self.name, self.severity),
            None => find_any(self.name).map(|entry| CorruptionSpec {
                set: entry.set,
                name: entry.name,
                severity: self.severity,
            }),
        }
    }
}

impl FromStr for CorruptionRequest {
    type Err = CorruptError;

    fn from_str(text: &str) -> Result<Self, CorruptError> {
        let malformed = || CorruptError::MalformedSpec { found: text.to_owned() };
        let (left, severity) = text.rsplit_once(':').ok_or_else(malformed)?;
        let (set, name) = match left.split_once('/') {
            Some((set, name)) => (Some(set.parse()?), name),
            None => (None, left),
        };
        if name.is_empty() {
            return Err(malformed());
        }
        let entry = match set {
            Some(set) => find(set, name)?,
            None => find_any(name)?,
        };
        let bad_severity = || CorruptError::BadSeverity { found: severity.to_owned() };
        let severity = Severity::new(severity.parse().map_err(|_| bad_severity())?)?;
        Ok(Self { set, name: entry.name, severity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_its_set_from_the_image_size() {
        let request: CorruptionRequest = "gaussian_noise:3".parse().expect("well formed");
        assert_eq!(request.resolve(224, 224).expect("known").to_string(), "imagenet-c/gaussian_noise:3");
        assert_eq!(request.resolve(32, 32).expect("known").to_string(), "cifar-c/gaussian_noise:3");
        let ripple: CorruptionRequest = "ripple:1".parse().expect("well formed");
        assert_eq!(ripple.resolve(224, 224).expect("known").set, CorruptionSet::CifarCBar);
        let fixed: CorruptionRequest = "tiny-imagenet-c/fog:5".parse().expect("well formed");
        assert_eq!(fixed.resolve(224, 224).expect("known").set, CorruptionSet::TinyImageNetC);
    }

    #[test]
    fn bad_requests_say_what_is_wrong() {
        let parse = |text: &str| text.parse::<CorruptionRequest>().expect_err("malformed");
        assert!(matches!(parse("snow"), CorruptError::MalformedSpec { .. }));
        assert!(matches!(parse(":3"), CorruptError::MalformedSpec { .. }));
        assert!(matches!(parse("snow:0"), CorruptError::BadSeverity { .. }));
        assert!(matches!(parse("snow:2.5"), CorruptError::BadSeverity { .. }));
        assert!(matches!(parse("imagenet-c/ripple:1"), CorruptError::UnknownCorruption { .. }));
        let CorruptError::UnknownCorruption { nearest, .. } = parse("gausian_noise:3") else {
            panic!("the name is unknown")
        };
        assert_eq!(nearest[0], "gaussian_noise");
    }
}
