use super::row::Row;
use super::window::{OpenWindow, Window, WindowKind};
use super::{Alarm, MonitorBasis, MonitorConfig, MonitorError};
use flipcast_estimate::{ClassTest, ConfidenceSequence, RankTest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The format this version writes and reads.
const FORMAT: u32 = 1;

/// Everything a monitor knows of its stream; with the calibration, all that is needed to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorState {
    format: u32,
    pub(super) images: u64,
    pub(super) last_time: f64,
    /// Outputs of images in the samples of open windows.
    pub(super) rows: BTreeMap<u64, Row>,
    pub(super) open: [OpenWindow; 2],
    pub(super) closed: [VecDeque<Window>; 2],
    pub(super) entropy: RankTest,
    pub(super) flips: Option<RankTest>,
    pub(super) classes: ClassTest,
    pub(super) alarms: Vec<Alarm>,
    /// Windows by count in a row that lay below the line.
    pub(super) low_windows: u32,
    /// Windows by count in a row in which adapting lost.
    #[serde(default)]
    pub(super) harmed_windows: u32,
    /// Images that were asked about, and whether they were right, where somebody answered.
    pub(super) asked: BTreeMap<u64, Option<bool>>,
    /// The classes predicted for them. Answers take longer than windows: a question outlives the windows it came from.
    #[serde(default)]
    pub(super) predicted: BTreeMap<u64, u32>,
    pub(super) sequence: Option<ConfidenceSequence>,
}

impl MonitorState {
    /// Of a stream that has not begun.
    pub(super) fn new(basis: &MonitorBasis) -> Self {
        Self {
            format: FORMAT,
            images: 0,
            last_time: 0.0,
            rows: BTreeMap::new(),
            open: [WindowKind::Count, WindowKind::Time].map(|kind| OpenWindow::new(kind, 0, 0)),
            closed: Default::default(),
            entropy: basis.shift.entropy_test(),
            flips: basis.shift.flip_test(),
            classes: basis.shift.class_test(),
            alarms: Vec::new(),
            low_windows: 0,
            harmed_windows: 0,
            asked: BTreeMap::new(),
            predicted: BTreeMap::new(),
            sequence: None,
        }
    }

    /// Images so far.
    pub fn images(&self) -> u64 {
        self.images
    }

    /// When the last image came, in seconds since 1970.
    pub fn last_time(&self) -> f64 {
        self.last_time
    }

    /// Refuses a state of another classifier, or one that no monitor can have left.
    pub(super) fn check(&self, basis: &MonitorBasis, config: &MonitorConfig) -> Result<(), MonitorError> {
        let fresh = Self::new(basis);
        let differs = |what, found, expected| Err(MonitorError::State { what, found, expected });
        if self.format != FORMAT {
            return differs("the format", self.format as usize, FORMAT as usize);
        }
        if !self.entropy.fits(&fresh.entropy) || !self.classes.fits(&fresh.classes) {
            return differs("a test", self.classes.classes(), basis.classes());
        }
        let flips = |state: &Self| state.flips.is_some();
        if flips(self) != flips(&fresh) || self.flips.iter().zip(&fresh.flips).any(|(own, other)| !own.fits(other)) {
            return differs("the test of flips", usize::from(flips(self)), usize::from(flips(&fresh)));
        }
        for row in self.rows.values() {
            for logits in std::iter::once(&row.source).chain(&row.second) {
                if logits.0.len() != basis.classes() {
                    return differs("a row of logits", logits.0.len(), basis.classes());
                }
            }
        }
        let dims = basis.embedding_dims().unwrap_or(0);
        if let Some(found) = self.open.iter().filter_map(OpenWindow::embedding_dims).find(|found| *found != dims) {
            return differs("a sum of embeddings", found, dims);
        }
        let most =
            2 * config.window_images.max(self.open.iter().map(|window| window.sampled().count()).max().unwrap_or(0));
        if self.rows.len() > most {
            return differs("the sample", self.rows.len(), most);
        }
        Ok(())
    }
}
