use crate::AdaptError;
use serde::{Deserialize, Serialize};

/// What the caller wants done when a model has collapsed. The guard only reports; the loop over batches acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardAction {
    /// Say so and go on.
    Warn,
    /// End the run.
    Stop,
    /// Restore the source parameters and go on adapting.
    Reset,
    /// Restore the source parameters and stop adapting.
    Source,
}

/// Settings of [`Guard`](crate::Guard).
///
/// No threshold comes from a data set:
/// - `warn_share` 0.5 of an entropy `ln E` leaves `sqrt(E)` of `E` classes: half of what the predictions told apart is gone.
/// - `collapse_share` 0.25 leaves the fourth root: 5.6 of 1000 classes, 1.8 of 10. A mixed stream never looks so.
/// - `flip_limit` 0.5: where a stream truly holds few classes, a source model that is right more often than not agrees
///   with most predictions. A model that gives one answer to everything agrees by chance alone.
/// - `drift_limit` 0.5: beyond half the distance between two classes, the other class is nearer. A class that has swallowed the
///   whole stream lies at the centre of all `K` classes, `sqrt((K - 1) / 2K)` of that distance away, which is 0.5 at
///   `K = 2` and 0.71 at many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardConfig {
    /// Whether anything is watched at all.
    pub enabled: bool,
    /// What to do about a collapse.
    pub action: GuardAction,
    /// Images looked back on; whole batches leave the window.
    pub window: usize,
    /// Images needed before anything is judged.
    pub min_images: usize,
    /// Warn when a signal falls below this share of its healthy value.
    pub warn_share: f64,
    /// Predictions below this share of the healthy entropy have collapsed, if a second signal agrees.
    pub collapse_share: f64,
    /// Share of flipped predictions above which the source model disagrees with a low diversity.
    pub flip_limit: f64,
    /// Drift of class means above which they have left their classes, as a share of the distance between classes.
    pub drift_limit: f64,
}

impl GuardConfig {
    /// A window of at least 256 images, where a share of one half is known to 3 points, and of at least one image per
    /// class; judged from 64 images on.
    pub fn for_classes(num_classes: usize) -> Self {
        Self {
            enabled: true,
            action: GuardAction::Warn,
            window: num_classes.max(256),
            min_images: 64,
            warn_share: 0.5,
            collapse_share: 0.25,
            flip_limit: 0.5,
            drift_limit: 0.5,
        }
    }

    /// Watches nothing: every report is healthy, and its numbers are those of an empty window.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::for_classes(0) }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let share = |setting, found: f64| {
            let ok = (0.0..=1.0).contains(&found);
            AdaptError::unless(ok, setting, found, "a number from 0 to 1")
        };
        let window = self.window as f64;
        AdaptError::unless(window > 1.0, "guard window", window, "at least 2 images")?;
        AdaptError::unless(
            (2..=self.window).contains(&self.min_images),
            "guard minimum of images",
            self.min_images as f64,
            "from 2 to the guard's window",
        )?;
        share("guard warning share", self.warn_share)?;
        AdaptError::unless(
            (0.0..=self.warn_share).contains(&self.collapse_share),
            "guard collapse share",
            self.collapse_share,
            "from 0 to the guard's warning share",
        )?;
        share("guard flip limit", self.flip_limit)?;
        AdaptError::unless(
            self.drift_limit > 0.0 && self.drift_limit.is_finite(),
            "guard drift limit",
            self.drift_limit,
            "a number of more than 0",
        )
    }
}
