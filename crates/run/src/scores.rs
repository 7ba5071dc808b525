//! What was seen of a dataset as evidence for estimators.

use crate::RunError;
use crate::basis::Basis;
use crate::cell::{Observation, Setting};
use crate::flips::{FlipEvidence, STARVED};
use crate::head::head_of;
use flipcast_estimate::{Anchor, Evidence, Flag, Learned, Outputs, Probe, Scores};

/// The scores that need no labelled images and for which the paper has fits.
const WITHOUT_BASIS: [&str; 3] = ["ac", "cot", "wf_batch"];

/// Scores for the accuracy of the source model, and for that of the adapted model from its outputs on the probe.
pub(crate) fn score_both(look: &Observation, setting: &Setting, basis: &Basis) -> Result<(Scores, Scores), RunError> {
    let outputs = &look.source.outputs;
    let predicted = outputs.classes_predicted();
    // A class space of its own has other alternatives than the head.
    let head = match outputs.classes() == setting.model.num_classes() {
        true => head_of(setting.model, look.source.embeddings.dims())?,
        false => None,
    };
    let rows = look.flips.rows_in(&look.source.indices)?;
    let confidences = outputs.confidences();
    let source = Anchor {
        classes: rows.iter().map(|&row| predicted[row]).collect(),
        confidences: rows.iter().map(|&row| confidences[row]).collect(),
    };
    let probe = look.flips.probe_from(source, setting);
    let warm = basis.warm(outputs);
    let shares = basis.shares(&warm)?;
    let seen = Evidence {
        embeddings: Some((&look.source.embeddings, &predicted)),
        head: head.as_ref(),
        ..basis.evidence(&warm, &shares, Some(&probe))
    };
    let Some(stop) = look.flips.stops.last() else {
        return Ok((seen.scores(|_| true)?, Scores::new()));
    };
    let (probe, warm) = (look.flips.probe(), basis.warm(&stop.outputs));
    let shares = basis.shares(&warm)?;
    let [source, adapted] = Evidence::scores_of([&seen, &basis.evidence(&warm, &shares, Some(&probe))], |_| true)?;
    Ok((source, adapted))
}

/// Scores that need no labelled images: batch-anchored flips, AC, and COT with uniform class shares.
pub(crate) fn score_without_basis(look: &Observation) -> Result<Scores, RunError> {
    let outputs = &look.source.outputs;
    let classes = outputs.classes();
    let mut probe = look.flips.probe();
    if look.flips.is_starved() {
        probe.flags.push(Flag::FilterStarved);
    }
    let seen = Evidence {
        outputs,
        shares: &vec![1.0 / classes as f64; classes],
        learned: None,
        embeddings: None,
        head: None,
        probe: Some(&probe),
    };
    Ok(seen.scores(|info| WITHOUT_BASIS.contains(&info.name))?)
}

/// Scores of the estimators that need nothing but outputs and a probe.
pub(crate) fn score_outputs(outputs: &Outputs, probe: Option<&Probe>, basis: &Basis) -> Result<Scores, RunError> {
    let warm = basis.warm(outputs);
    let shares = basis.shares(&warm)?;
    Ok(basis.evidence(&warm, &shares, probe).scores(|_| true)?)
}

impl Basis {
    /// What estimators may use that need nothing but outputs and a probe.
    fn evidence<'a>(&'a self, outputs: &'a Outputs, shares: &'a [f64], probe: Option<&'a Probe>) -> Evidence<'a> {
        let learned =
            Learned { reference: &self.reference, marginals: &self.marginals, cott_threshold: self.cott_threshold };
        Evidence { outputs, shares, learned: Some(learned), embeddings: None, head: None, probe }
    }
}

impl FlipEvidence {
    /// The probe from batch statistics before adapting, as published, to the last stop.
    pub(crate) fn probe(&self) -> Probe {
        let initial = &self.initial;
        let batch = Anchor { classes: initial.classes_predicted(), confidences: initial.confidences() };
        let adapted = self.stops.last().map(|stop| stop.outputs.classes_predicted());
        Probe { source: None, batch: Some(batch), adapted, flags: Vec::new() }
    }

    /// The same from the source model's predictions as well, for its accuracy.
    pub(crate) fn probe_from(&self, source: Anchor, setting: &Setting) -> Probe {
        let mut probe = Probe { source: Some(source), ..self.probe() };
        // Without running statistics the two anchors are one: no flips before the first step, and the same ones after the last.
        if !setting.model.graph().has_batch_norm() {
            probe.batch = None;
            probe.flags.push(Flag::NoRunningStatistics);
        }
        if setting.protocol.last_stop() > 0 && self.is_starved() {
            probe.flags.push(Flag::FilterStarved);
        }
        probe
    }

    fn is_starved(&self) -> bool {
        self.adaptation.used_share() < STARVED
    }
}
