//! Making the analyses of a plan.

use crate::progress::Within;
use crate::run_model::{ModelRun, Trouble};
use crate::{AnalysisEntry, AnalysisKind, StudyError, Unit};
use flipcast_adapt::MethodConfig;
use flipcast_estimate::embed::TsneConfig;
use flipcast_record::Protocol;
use flipcast_run::analysis::{
    Analysis, Clean, CleanSettings, ClusterSettings, FlipsJob, MapJob, OmissionJob, PhasesJob, Subject, checkpoints,
};
use flipcast_run::{CellRequest, Device, Ledger, ModelIdentity, RunError, Watcher};
use serde_json::json;
use std::time::Instant;

/// The kind of the record that tells that an analysis of the plan is there.
pub(crate) const UNIT: &str = "unit";

impl ModelRun<'_> {
    /// Makes an analysis and keeps it, and then that the unit is done.
    pub(crate) fn analysis(
        &self,
        unit: &Unit,
        entry: &AnalysisEntry,
        device: Device,
        title: &str,
    ) -> Result<(), Trouble> {
        let started = Instant::now();
        let method = entry.method()?;
        let (name, images) = self.images(&unit.data, unit.seed)?;
        let request = self.request(name, &images);
        let clean_images = match unit.needed_calibration(self.job.plan) {
            Some(calibration) if entry.needs_means() => {
                let data = calibration.data_ref(calibration.limit);
                data.map(|data| self.images(&data, unit.seed)).transpose()?
            }
            _ => None,
        };
        let clean = clean_images
            .as_ref()
            .map(|(name, images)| self.clean_means(entry, &method, device, self.request(name.clone(), images)));
        let subject = Subject {
            model: self.model,
            request,
            method: &method,
            batch_size: entry.batch_size,
            chunk: entry.chunk,
            device,
        };
        let mut ledger = self.ledger.clone();
        let key = self.record(unit, entry, subject, clean.as_ref(), (&mut ledger, title))?;
        let protocol = self.unit_protocol(unit, device)?;
        if !self.is_known(&protocol)? {
            let seconds = started.elapsed().as_secs_f64();
            ledger.keep(protocol, &json!({"record": key}), seconds)?;
        }
        self.watcher.finished(title, true);
        Ok(())
    }

    /// Runs the analysis unless the ledger has it; gives the key of its record.
    fn record(
        &self,
        unit: &Unit,
        entry: &AnalysisEntry,
        subject: Subject,
        clean: Option<&Clean>,
        (ledger, title): (&mut Ledger, &str),
    ) -> Result<String, Trouble> {
        let mut within = Within { watcher: self.watcher, name: title };
        let embedding = ClusterSettings {
            images: entry.images,
            clusters: entry.clusters,
            restriction: entry.restriction,
            ..ClusterSettings::default()
        };
        let steps = entry.steps;
        Ok(match entry.kind {
            AnalysisKind::Phases => {
                keep(&PhasesJob { subject, clean, checkpoints: checkpoints(steps), embedding }, ledger, &mut within)
            }
            AnalysisKind::Flips => keep(&FlipsJob { subject, steps, embedding }, ledger, &mut within),
            AnalysisKind::Omission => {
                let rule = unit.rule.expect("an omission has a rule");
                let job = OmissionJob { subject, rule, steps, every: entry.every, holdout: entry.images };
                keep(&job, ledger, &mut within)
            }
            AnalysisKind::Map => {
                let job = MapJob {
                    subject,
                    clean,
                    frames: checkpoints(steps),
                    points: entry.images,
                    classes: entry.classes,
                    restriction: entry.restriction,
                    tsne: TsneConfig::default(),
                };
                keep(&job, ledger, &mut within)
            }
        }?)
    }

    fn clean_means<'b>(
        &'b self,
        entry: &AnalysisEntry,
        method: &MethodConfig,
        device: Device,
        request: CellRequest<'b>,
    ) -> Clean<'b> {
        let settings = CleanSettings {
            images: entry.images,
            statistics: method.norm_mode(),
            chunk: entry.chunk,
            restriction: entry.restriction,
        };
        Clean::new(self.model, device, request, settings)
    }

    fn unit_protocol(&self, unit: &Unit, device: Device) -> Result<Protocol, StudyError> {
        let protocol = Protocol::new(UNIT)
            .with("version", &1)?
            .with("model", &ModelIdentity::of(self.model))?
            .with("data", &unit.data.name())?
            .with("seed", &unit.seed)?
            .with("unit", &unit.key)?;
        Ok(device.describe(protocol)?)
    }
}

/// Makes an analysis unless the ledger has it; gives the key of its record.
fn keep(job: &impl Analysis, ledger: &mut Ledger, watcher: &mut dyn Watcher) -> Result<String, RunError> {
    job.recorded(ledger, watcher)?;
    Ok(job.protocol()?.key())
}

impl AnalysisEntry {
    /// Whether it asks where the classes lie.
    fn needs_means(&self) -> bool {
        matches!(self.kind, AnalysisKind::Phases | AnalysisKind::Map)
    }
}
