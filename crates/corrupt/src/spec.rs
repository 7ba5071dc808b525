//! Which corruption at which severity.

use std::fmt;
use std::str::FromStr;

use crate::error::CorruptError;
use crate::registry::{Entry, find, find_any};
use crate::set::CorruptionSet;
use crate::storage::Storage;

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

/// A corruption as written after the `@` of a dataset: `gaussian_noise:3`, `cifar-c/gaussian_noise:3`, or
/// `gaussian_noise:3,storage=none` for another storage step than the published one.
///
/// ```
/// use flipcast_corrupt::{CorruptionRequest, Storage};
///
/// let request: CorruptionRequest = "gaussian_noise:3".parse()?;
/// assert_eq!(request.resolve(224, 224)?.to_string(), "imagenet-c/gaussian_noise:3");
/// assert_eq!(request.storage_at(224, 224)?, Storage::Jpeg85);
/// assert_eq!(request.storage_at(32, 32)?, Storage::None);
/// let unstored: CorruptionRequest = "gaussian_noise:3,storage=none".parse()?;
/// assert_eq!(unstored.storage_at(224, 224)?, Storage::None);
/// # Ok::<(), flipcast_corrupt::CorruptError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CorruptionRequest {
    /// Whose constants; `None` leaves it to the image size.
    pub set: Option<CorruptionSet>,
    /// Published name, known to at least one set.
    pub name: &'static str,
    /// How strong.
    pub severity: Severity,
    /// The step after the corruption; `None` for that of the published set.
    pub storage: Option<Storage>,
}

impl CorruptionRequest {
    /// The storage step for images of this size: the one asked for, or that of the set [`CorruptionRequest::resolve`] gives.
    pub fn storage_at(&self, width: usize, height: usize) -> Result<Storage, CorruptError> {
        match self.storage {
            Some(storage) => Ok(storage),
            None => Ok(self.resolve(width, height)?.set.storage()),
        }
    }

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

impl fmt::Display for CorruptionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(set) = self.set {
            write!(f, "{set}/")?;
        }
        write!(f, "{}:{}", self.name, self.severity)?;
        match self.storage {
            Some(storage) => write!(f, ",storage={storage}"),
            None => Ok(()),
        }
    }
}

impl FromStr for CorruptionRequest {
    type Err = CorruptError;

    fn from_str(text: &str) -> Result<Self, CorruptError> {
        let malformed = || CorruptError::MalformedSpec { found: text.to_owned() };
        let (corruption, setting) = match text.split_once(',') {
            Some((corruption, setting)) => (corruption, Some(setting)),
            None => (text, None),
        };
        let (left, severity) = corruption.rsplit_once(':').ok_or_else(malformed)?;
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
        let storage = match setting {
            None => None,
            Some(setting) => match setting.strip_prefix("storage=") {
                Some(storage) => Some(storage.parse()?),
                None => return Err(CorruptError::UnknownSetting { found: setting.to_owned() }),
            },
        };
        Ok(Self { set, name: entry.name, severity, storage })
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
    fn images_are_stored_as_published_unless_the_request_says_otherwise() {
        let storage = |text: &str, side| {
            let request: CorruptionRequest = text.parse().expect("well formed");
            assert_eq!(request.to_string(), text);
            request.storage_at(side, side).expect("known")
        };
        assert_eq!(storage("fog:3", 224), Storage::Jpeg85);
        assert_eq!(storage("fog:3", 64), Storage::Jpeg85);
        assert_eq!(storage("fog:3", 28), Storage::None);
        assert_eq!(storage("sparkles:3", 224), Storage::Jpeg85);
        assert_eq!(storage("sparkles:3", 32), Storage::None);
        assert_eq!(storage("cifar-c/fog:3", 224), Storage::None);
        assert_eq!(storage("imagenet-c/fog:3", 32), Storage::Jpeg85);
        assert_eq!(storage("fog:3,storage=none", 224), Storage::None);
        assert_eq!(storage("fog:3,storage=jpeg85", 32), Storage::Jpeg85);
    }

    #[test]
    fn bad_requests_say_what_is_wrong() {
        let parse = |text: &str| text.parse::<CorruptionRequest>().expect_err("malformed");
        assert!(matches!(parse("snow"), CorruptError::MalformedSpec { .. }));
        assert!(matches!(parse(":3"), CorruptError::MalformedSpec { .. }));
        assert!(matches!(parse("snow:0"), CorruptError::BadSeverity { .. }));
        assert!(matches!(parse("snow:2.5"), CorruptError::BadSeverity { .. }));
        assert!(matches!(parse("imagenet-c/ripple:1"), CorruptError::UnknownCorruption { .. }));
        assert!(matches!(parse("snow:1,storage=png"), CorruptError::UnknownStorage { .. }));
        assert!(matches!(parse("snow:1,quality=3"), CorruptError::UnknownSetting { .. }));
        assert!(matches!(parse("snow:1,"), CorruptError::UnknownSetting { .. }));
        let CorruptError::UnknownCorruption { nearest, .. } = parse("gausian_noise:3") else {
            panic!("the name is unknown")
        };
        assert_eq!(nearest[0], "gaussian_noise");
    }
}
