//! What a plan asks to be fitted again from cells that are already there.

use flipcast_estimate::CurveKind;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// What is drawn or left out as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefitGroup {
    /// A dataset entry of the plan with all its splits: a row of a table.
    #[default]
    Dataset,
    /// A corruption at all severities.
    Corruption,
}

/// Fits that need no network.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum RefitEntry {
    /// Fit to some of the study's groups and test on the others.
    Subsets {
        /// How often groups are drawn at random; without a number every choice of them is looked at, with clean cells beside it.
        draws: Option<usize>,
        /// Groups to fit to.
        groups: usize,
        /// What a group is.
        #[serde(default)]
        by: RefitGroup,
        /// The scores.
        estimators: Vec<String>,
        /// The curve; by default the one the protocol takes.
        curve: Option<CurveKind>,
    },
    /// Fit to some kinds of a calibration's shifts, clean images beside them, and test on its others: every choice of so many.
    Calibration {
        /// Kinds to fit to.
        groups: usize,
        /// The scores.
        estimators: Vec<String>,
        /// The curve; by default the one the protocol takes.
        curve: Option<CurveKind>,
    },
    /// Fit every curve to the calibration cells and test on the study's cells.
    Curves {
        /// The scores.
        estimators: Vec<String>,
        /// The curves.
        curves: Vec<CurveKind>,
    },
    /// Fit to one model's calibration cells and test on another's cells.
    Transfer {
        /// The model that is fitted to; each in turn if not given.
        from: Option<String>,
        /// The model it is tested on; every other one if not given.
        to: Option<String>,
        /// The scores.
        estimators: Vec<String>,
        /// The curve; by default the one the protocol takes.
        curve: Option<CurveKind>,
    },
}

impl RefitEntry {
    /// The scores it fits.
    pub(crate) fn estimators(&self) -> &[String] {
        match self {
            Self::Subsets { estimators, .. }
            | Self::Calibration { estimators, .. }
            | Self::Curves { estimators, .. }
            | Self::Transfer { estimators, .. } => estimators,
        }
    }
}

/// A list entry with its place in the plan.
pub(crate) type Placed = Spanned<RefitEntry>;
