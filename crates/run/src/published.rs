//! The paper's own fit for ResNet-50, which needs no calibration.

use crate::cell::{Cell, CellRequest, Setting};
use crate::estimate::{CellEstimates, Estimates};
use crate::ledger::{Ledger, cell_protocol};
use crate::scores::score_without_basis;
use crate::{RunError, ScoreOptions, Watcher};
use flipcast_estimate::{Curve, Estimate, Flag, normal_quantile};
use flipcast_models::Model;

/// The name it is asked for by.
pub const PAPER_RESNET50: &str = "paper-resnet50";

/// Mean absolute errors over the 23 datasets of the paper's Table 1.
const PAPER_ERRORS: [(&str, f64); 3] = [("wf", 0.0575), ("cot", 0.0817), ("ac", 0.2602)];

/// A normal variable's mean size is this share of its standard deviation.
const MEAN_SIZE: f64 = 0.797_884_560_802_865_4;

/// Refuses models the published curve was not fitted for.
pub fn check_published(model: &Model) -> Result<(), RunError> {
    if model.architecture() == "resnet50" && model.num_classes() == 1000 {
        return Ok(());
    }
    Err(RunError::OtherCalibration {
        what: "the architecture",
        found: "resnet50, 1000 classes".to_owned(),
        expected: format!("{}, {} classes", model.architecture(), model.num_classes()),
    })
}

impl Setting<'_> {
    /// The scores that need no labelled images, from `ledger` or else made and kept there.
    pub fn published_cell(
        &self,
        request: &CellRequest,
        ledger: &mut Ledger,
        watcher: &mut dyn Watcher,
    ) -> Result<Cell, RunError> {
        let protocol = cell_protocol("estimate", self, request, &ScoreOptions::default())?
            .with("basis", &PAPER_RESNET50)?;
        if let Some(cell) = ledger.find(&protocol)? {
            return Ok(cell);
        }
        let look = self.open_and_look(request, watcher)?;
        let cell = Cell::from_scores(&look, request.scope, score_without_basis(&look)?);
        ledger.keep(protocol, &cell, cell.seconds.total())?;
        Ok(cell)
    }
}

/// The paper's estimates for a cell: `wf` by its curve, `ac` and `cot` as they stand. Intervals take the paper's average errors
/// over its datasets for those of a normal variable, and so are rough.
pub fn estimate_published(cell: &Cell, level: f64) -> CellEstimates {
    let curve = Curve::published_resnet50();
    let mut source = Estimates::new();
    for (name, mean_error) in PAPER_ERRORS {
        let score = if name == "wf" { "wf_batch" } else { name };
        let Some(score) = cell.source.get(score) else {
            continue;
        };
        let mut flags: Vec<Flag> = score.flags.iter().chain(&cell.flags).copied().collect();
        let accuracy = if name == "wf" {
            let prediction = curve.predict(score.value);
            flags.extend(prediction.flags());
            prediction.value
        } else {
            score.value
        };
        flags.sort();
        flags.dedup();
        let half_width = normal_quantile(level) * mean_error / MEAN_SIZE;
        source.insert(
            name.to_owned(),
            Estimate::around(accuracy, half_width, flags),
        );
    }
    CellEstimates {
        source,
        adapted: Estimates::new(),
    }
}
