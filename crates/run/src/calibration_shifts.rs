//! What is done to clean images to learn how a model fails.

use crate::RunError;
use flipcast_corrupt::{CALIBRATION_KINDS, CorruptionRequest, CorruptionSet};
use std::collections::BTreeSet;

/// The corruptions that ImageNet-C keeps apart for such uses, each at severities 1 to 5: those of the paper.
pub const HELD_OUT: [&str; 4] = ["speckle_noise", "gaussian_blur", "spatter", "saturate"];
/// Severities of the kinds of flipcast's own family, in turn. Kinds tell more than severities do; some must reach far down, since what
/// lies below is guessed.
const FAMILY_SEVERITIES: [&[u8]; 2] = [&[3], &[2, 5]];

/// One change of clean images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationShift {
    /// Corruption and severity, as they stand behind an `@`.
    pub name: String,
    /// Its kind: all severities of a corruption are left out together when errors are measured.
    pub kind: String,
}

impl CalibrationShift {
    /// The default: every kind of flipcast's own family at one or two severities. None of them is in ImageNet-C or ImageNet-C-bar.
    pub fn family() -> Vec<Self> {
        let kinds = CALIBRATION_KINDS.iter().zip(FAMILY_SEVERITIES.into_iter().cycle());
        let cells = kinds.flat_map(|(kind, severities)| severities.iter().map(move |s| (kind, *s)));
        cells.map(|(kind, s)| Self::new(CorruptionSet::Calibration.name(), kind, s)).collect()
    }

    /// Those of the paper: four corruptions that ImageNet-C keeps apart, at five severities.
    pub fn held_out() -> Vec<Self> {
        let all = HELD_OUT.into_iter().flat_map(|kind| (1..=5).map(move |s| (kind, s)));
        all.map(|(kind, s)| Self { name: format!("{kind}:{s}"), kind: kind.to_owned() }).collect()
    }

    fn new(set: &str, kind: &str, severity: u8) -> Self {
        Self { name: format!("{set}/{kind}:{severity}"), kind: kind.to_owned() }
    }

    /// Reads a list: `family`, `held-out`, and corruptions such as `fog:3`, parted by commas. What is named twice is taken once.
    ///
    /// ```
    /// use flipcast_run::CalibrationShift;
    ///
    /// let shifts = CalibrationShift::parse_list("family,fog:3")?;
    /// assert_eq!(shifts.len(), 9 + 2 * 9 + 1);
    /// assert_eq!(shifts[27].kind, "fog");
    /// # Ok::<(), flipcast_run::RunError>(())
    /// ```
    pub fn parse_list(list: &str) -> Result<Vec<Self>, RunError> {
        let mut shifts: Vec<Self> = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "family" => shifts.extend(Self::family()),
                "held-out" => shifts.extend(Self::held_out()),
                _ => {
                    let request: CorruptionRequest = name.parse()?;
                    shifts.push(Self { name: name.to_owned(), kind: request.name.to_owned() });
                }
            }
        }
        let mut seen = BTreeSet::new();
        shifts.retain(|shift| seen.insert(shift.name.clone()));
        Ok(shifts)
    }
}

/// Refuses `shifts` and `others`, labelled images each a kind of its own, that are fewer than two kinds: errors are measured on a kind left out.
pub fn check_kinds<'a>(shifts: &'a [CalibrationShift], others: impl Iterator<Item = &'a str>) -> Result<(), RunError> {
    let kinds: BTreeSet<&str> = shifts.iter().map(|shift| shift.kind.as_str()).chain(others).collect();
    match kinds.len() {
        0 => Err(RunError::FewKinds { found: "no kind of shift".to_owned() }),
        1 => Err(RunError::FewKinds {
            found: kinds.into_iter().map(|kind| format!("one kind of shift, `{kind}`")).collect(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_no_part_of_the_test_sets() {
        for shift in CalibrationShift::family() {
            for set in CorruptionSet::ALL.into_iter().filter(|set| *set != CorruptionSet::Calibration) {
                let names = flipcast_corrupt::registry::names(set);
                assert!(!names.contains(&shift.kind.as_str()), "{} is in {set}", shift.kind);
            }
        }
    }

    #[test]
    fn lists_name_families_and_corruptions() {
        assert_eq!(CalibrationShift::parse_list("held-out").unwrap().len(), 20);
        assert!(CalibrationShift::parse_list("").unwrap().is_empty());
        assert!(CalibrationShift::parse_list("fogg:3").is_err());
        assert_eq!(CalibrationShift::parse_list("fog:3,family,fog:3,family").unwrap().len(), 28);
    }

    #[test]
    fn a_calibration_needs_two_kinds_of_shift() {
        let check = |list: &str, others: &[&str]| {
            check_kinds(&CalibrationShift::parse_list(list).unwrap(), others.iter().copied()).map_err(|e| e.to_string())
        };
        let one = "the calibration has one kind of shift, `fog`, expected at least two kinds of shift";
        assert_eq!(check("fog:3,fog:4", &[]), Err(one.to_owned()));
        assert_eq!(
            check("", &[]),
            Err("the calibration has no kind of shift, expected at least two kinds of shift".to_owned())
        );
        assert!(check("", &["night", "night"]).is_err());
        for (list, others) in [("fog:3,snow:3", &[][..]), ("fog:3", &["night"]), ("", &["night", "rain"])] {
            assert_eq!(check(list, others), Ok(()));
        }
    }
}
