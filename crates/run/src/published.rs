//! The paper's own fits, which need no calibration.

use crate::cell::{CellRequest, Samples, Setting};
use crate::cell_job::CellJob;
use crate::clean_images::CleanImages;
use crate::ledger::Ledger;
use crate::{RunError, Watcher};
use flipcast_estimate::{Curve, Estimate, Flag, normal_quantile};
use flipcast_models::Model;
use flipcast_record::Protocol;
use flipcast_record::results::{Cell, CellEstimates, Estimates};

/// A fit from the paper.
#[derive(Clone, Copy, Debug)]
pub struct PaperFit {
    /// The name it is asked for by, in place of a file.
    pub name: &'static str,
    /// Its curve among [`PUBLISHED_CURVES`](flipcast_estimate::PUBLISHED_CURVES).
    pub curve: &'static str,
    /// The architecture it was fitted for, where it matters.
    pub architecture: Option<&'static str>,
    /// Classes of the network.
    pub classes: usize,
    /// What flips are divided by before the curve sees them: 1, or the size of the probe.
    pub scale: f64,
    /// Mean absolute errors the paper reports.
    pub errors: &'static [(&'static str, f64)],
}

/// The paper's fits. Its errors for ResNet-50 are averages over the 23 datasets of its Table 1.
pub const PAPER_FITS: [PaperFit; 3] = [
    PaperFit {
        name: "paper-resnet50",
        curve: "resnet50.weighted_quadratic",
        architecture: Some("resnet50"),
        classes: 1000,
        scale: 1.0,
        errors: &[("wf", 0.0575), ("cot", 0.0817), ("ac", 0.2602)],
    },
    PaperFit {
        name: "paper-cifar100",
        curve: "cifar100.weighted_quadratic",
        architecture: None,
        classes: 100,
        scale: 1.0,
        errors: &[("wf", 0.0910)],
    },
    PaperFit {
        name: "paper-cifar10",
        curve: "cifar10.weighted_quadratic",
        architecture: None,
        classes: 10,
        scale: 1000.0,
        errors: &[("wf", 0.1664)],
    },
];

/// A normal variable's mean size is this share of its standard deviation.
const MEAN_SIZE: f64 = 0.797_884_560_802_865_4;

impl PaperFit {
    /// The fit called `name`, if there is one.
    pub fn find(name: &str) -> Option<&'static Self> {
        PAPER_FITS.iter().find(|fit| fit.name == name)
    }

    /// Refuses models it was not made for.
    pub fn check(&self, model: &Model) -> Result<(), RunError> {
        let same = self.architecture.is_none_or(|name| name == model.architecture());
        if same && model.num_classes() == self.classes {
            return Ok(());
        }
        let network = self.architecture.unwrap_or("any architecture");
        Err(RunError::OtherCalibration {
            what: "the network",
            found: format!("{network}, {} classes", self.classes),
            expected: format!("{}, {} classes", model.architecture(), model.num_classes()),
        })
    }

    /// The paper's estimates for a cell: `wf` by its curve, others as they stand. Intervals take the paper's average errors for those
    /// of a normal variable, and so are rough.
    pub fn estimate(&self, cell: &Cell, level: f64) -> Result<CellEstimates, RunError> {
        let curve = Curve::published(self.curve)?;
        let mut source = Estimates::new();
        for &(name, mean_error) in self.errors {
            let score = if name == "wf" { "wf_batch" } else { name };
            let Some(score) = cell.source.get(score) else {
                continue;
            };
            let mut flags: Vec<Flag> = score.flags.iter().chain(&cell.flags).copied().collect();
            let accuracy = if name == "wf" {
                let prediction = curve.predict(score.value / self.scale);
                flags.extend(prediction.flags());
                prediction.value
            } else {
                score.value
            };
            flags.sort();
            flags.dedup();
            let half_width = normal_quantile(level) * mean_error / MEAN_SIZE;
            source.insert(name.to_owned(), Estimate::around(accuracy, half_width, flags));
        }
        Ok(CellEstimates { source, adapted: Estimates::new(), explanation: Vec::new() })
    }
}

impl<'a> Setting<'a> {
    /// The scores that need no labelled images, from `ledger` or else made and kept there.
    pub fn published_cell(
        &self,
        request: &CellRequest<'a>,
        ledger: &mut Ledger,
        watcher: &mut dyn Watcher,
    ) -> Result<Cell, RunError> {
        self.published_job(request.clone()).make(&CleanImages::default(), ledger, watcher)
    }

    /// A cell of such scores.
    pub fn published_job(&self, request: CellRequest<'a>) -> CellJob<'a> {
        CellJob { setting: *self, kind: "estimate", request, basis: None, samples: Samples::None }
    }

    /// What defines a cell of such scores.
    pub(crate) fn published_protocol(&self, request: &CellRequest<'a>) -> Result<Protocol, RunError> {
        self.published_job(request.clone()).protocol()
    }
}
