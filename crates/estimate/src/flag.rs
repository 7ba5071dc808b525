use serde::{Deserialize, Serialize};

/// A reason to doubt an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// The fitted function does not respond to its input here.
    SaturatedFit,
    /// The input lies beyond what the fit has seen.
    OutsideFittedRange,
    /// What was seen fits together as under no shift that the fit has seen.
    UnlikeKnownShifts,
    /// The classes seem to occur in other shares than assumed.
    ClassMarginalMismatch,
    /// The adapter's filter let almost nothing through.
    FilterStarved,
    /// The sample is small.
    TooFewImages,
    /// Images of one class follow each other, in a stream that cannot be mixed.
    ClassSortedStream,
    /// Adaptation ended before its planned number of steps.
    ShortAdaptation,
    /// The network has no running statistics, so both anchors coincide.
    NoRunningStatistics,
    /// The adaptation guard stepped in.
    GuardTriggered,
    /// The labelled images contain no error to fit a threshold to.
    NoReferenceErrors,
    /// The calibration saw no shift, so that nothing is known about errors under one.
    NoKnownShifts,
}

impl Flag {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::SaturatedFit => "saturated_fit",
            Self::OutsideFittedRange => "outside_fitted_range",
            Self::UnlikeKnownShifts => "unlike_known_shifts",
            Self::ClassMarginalMismatch => "class_marginal_mismatch",
            Self::FilterStarved => "filter_starved",
            Self::TooFewImages => "too_few_images",
            Self::ClassSortedStream => "class_sorted_stream",
            Self::ShortAdaptation => "short_adaptation",
            Self::NoRunningStatistics => "no_running_statistics",
            Self::GuardTriggered => "guard_triggered",
            Self::NoReferenceErrors => "no_reference_errors",
            Self::NoKnownShifts => "no_known_shifts",
        }
    }

    /// One line for a reader who has to decide whether to trust the estimate.
    pub fn text(self) -> &'static str {
        match self {
            Self::SaturatedFit => "the fitted function is flat or cut off here, so the true value may lie beyond it",
            Self::OutsideFittedRange => "the images differ more from the labelled ones than anything the fit has seen",
            Self::UnlikeKnownShifts => {
                "the second look is less sure of itself than under any shift of the calibration, so errors may be larger than any it measured"
            }
            Self::ClassMarginalMismatch => "the classes seem to occur in other shares than among the labelled images",
            Self::FilterStarved => "the adapter used almost none of the images, so flips say little",
            Self::TooFewImages => "the sample is so small that chance alone moves the estimate",
            Self::ClassSortedStream => "images of one class follow each other, which spoils batch statistics",
            Self::ShortAdaptation => "adaptation ended before the planned number of steps",
            Self::NoRunningStatistics => {
                "the network keeps no running statistics, so the source anchor carries no signal of its own"
            }
            Self::GuardTriggered => "the guard interrupted the adaptation this estimate relies on",
            Self::NoReferenceErrors => {
                "every labelled image was classified correctly, so the threshold is only a bound"
            }
            Self::NoKnownShifts => {
                "the calibration saw clean images alone, so how far this errs under a shift is unknown"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_stored_under_their_names() {
        for flag in [
            Flag::SaturatedFit,
            Flag::OutsideFittedRange,
            Flag::UnlikeKnownShifts,
            Flag::ClassMarginalMismatch,
            Flag::FilterStarved,
            Flag::TooFewImages,
            Flag::ClassSortedStream,
            Flag::ShortAdaptation,
            Flag::NoRunningStatistics,
            Flag::GuardTriggered,
            Flag::NoReferenceErrors,
            Flag::NoKnownShifts,
        ] {
            assert_eq!(serde_json::to_value(flag).unwrap(), flag.name());
        }
    }
}
