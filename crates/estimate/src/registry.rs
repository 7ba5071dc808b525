//! Every estimator, one row each, and what it may look at.

use crate::cot::score_plan;
use crate::cott::{check_threshold, threshold_plan};
use crate::dispersion::dispersion_of_a_thousand;
use crate::mde::mde_of_a_thousand;
use crate::parallel::map_ranges;
use crate::transport::{Share, plan_shares};
use crate::{
    AettaConfig, AtcScore, CurveKind, Direction, Embeddings, EstimateError, Flag, Head, ManoConfig, MarginalReference,
    Outputs, Reference, Score, ac, aetta, atc, doc, flips, im, mano, measure_mismatch, nuclear_norm, weighted_flips,
};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::OnceLock;

/// Scores by name.
pub type Scores = BTreeMap<&'static str, Score>;

/// What was seen of some images, labels aside. A score whose evidence is missing is left out.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// What the network says, at the temperature asked for.
    pub outputs: &'a Outputs,
    /// The classes' shares that transport assumes.
    pub shares: &'a [f64],
    /// What clean labelled images teach.
    pub learned: Option<Learned<'a>>,
    /// Embeddings and the classes predicted from them.
    pub embeddings: Option<(&'a Embeddings, &'a [usize])>,
    /// The network's last layer, where it can be perturbed.
    pub head: Option<&'a Head>,
    /// Predictions of a probe before and after adapting.
    pub probe: Option<&'a Probe>,
}

/// Constants of estimators that come from clean labelled images.
#[derive(Clone, Copy, Debug)]
pub struct Learned<'a> {
    /// Confidences and thresholds.
    pub reference: &'a Reference,
    /// The classes' shares, and how they are confused.
    pub marginals: &'a MarginalReference,
    /// The threshold of COTT.
    pub cott_threshold: f64,
}

/// Predictions of the same images by the source model, with batch statistics, and after adapting.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// The source model's.
    pub source: Option<Anchor>,
    /// Those with batch statistics before the first step.
    pub batch: Option<Anchor>,
    /// The classes after the last step.
    pub adapted: Option<Vec<usize>>,
    /// Doubts about the adaptation, and so about every count that rests on it.
    pub flags: Vec<Flag>,
}

/// Predictions that flips are counted from.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// Predicted classes.
    pub classes: Vec<usize>,
    /// Their confidences.
    pub confidences: Vec<f64>,
}

impl Probe {
    /// Weighted flips from an anchor to the adapted model.
    fn weighted_from(&self, anchor: Option<&Anchor>) -> Option<Result<Score, EstimateError>> {
        let (anchor, adapted) = (anchor?, self.adapted.as_ref()?);
        Some(weighted_flips(&anchor.classes, &anchor.confidences, adapted).map(|score| self.doubt(score)))
    }

    fn doubt(&self, mut score: Score) -> Score {
        self.flags.iter().for_each(|flag| score.raise(*flag));
        score
    }
}

/// Evidence, and what several estimators make of it alike.
struct Seen<'a> {
    evidence: &'a Evidence<'a>,
    plan: OnceLock<Result<Vec<Share>, EstimateError>>,
}

impl<'a> Deref for Seen<'a> {
    type Target = Evidence<'a>;

    fn deref(&self) -> &Evidence<'a> {
        self.evidence
    }
}

impl Seen<'_> {
    /// What each image gives to which class under optimal transport.
    fn plan(&self) -> Result<&[Share], EstimateError> {
        let plan = self.plan.get_or_init(|| plan_shares(self.outputs, self.shares));
        plan.as_deref().map_err(EstimateError::clone)
    }
}

/// Gives one estimator's score; `None` where its evidence is missing.
type ScoreFn = fn(&Seen) -> Option<Result<Score, EstimateError>>;

/// One estimator.
#[derive(Clone, Copy, Debug)]
pub struct ScoreInfo {
    /// Its name in files.
    pub name: &'static str,
    /// Its name in tables and charts.
    pub label: &'static str,
    /// One line for the reader.
    pub summary: &'static str,
    /// Whether it is an accuracy as it stands.
    pub is_accuracy: bool,
    /// Whether it counts flips; the protocol then chooses the curve.
    pub is_flips: bool,
    /// The curve that turns it into one, or corrects it.
    pub curve: CurveKind,
    /// Which way the curve runs.
    pub direction: Direction,
    score: ScoreFn,
}

const fn accuracy(name: &'static str, label: &'static str, summary: &'static str, score: ScoreFn) -> ScoreInfo {
    let (curve, direction) = (CurveKind::Linear, Direction::Increasing);
    ScoreInfo { name, label, summary, is_accuracy: true, is_flips: false, curve, direction, score }
}

const fn signal(name: &'static str, label: &'static str, summary: &'static str, score: ScoreFn) -> ScoreInfo {
    ScoreInfo { is_accuracy: false, ..accuracy(name, label, summary, score) }
}

const fn flip(name: &'static str, label: &'static str, summary: &'static str, score: ScoreFn) -> ScoreInfo {
    let (curve, direction) = (CurveKind::Monotone, Direction::Decreasing);
    ScoreInfo { name, label, summary, is_accuracy: false, is_flips: true, curve, direction, score }
}

/// All estimators, in the order of tables.
pub const SCORES: &[ScoreInfo] = &[
    flip("wf", "WF", "weighted flips from the source model's predictions to the adapted model's", |seen| {
        seen.probe?.weighted_from(seen.probe?.source.as_ref())
    }),
    accuracy("cot", "COT", "confidence under optimal transport to the class shares", |seen| Some(transported(seen))),
    accuracy("atc_mc", "ATC", "average thresholded confidence, by maximum confidence", |seen| {
        Some(atc(seen.outputs, seen.learned?.reference, AtcScore::MaxConfidence))
    }),
    accuracy("doc", "DoC", "difference of confidence", |seen| Some(doc(seen.outputs, seen.learned?.reference))),
    accuracy("ac", "AC", "average confidence", |seen| Some(ac(seen.outputs))),
    flip(
        "wf_batch",
        "WF, batch anchor",
        "weighted flips as published: from batch statistics, before to after adapting; with batch norms only",
        |seen| seen.probe?.weighted_from(seen.probe?.batch.as_ref()),
    ),
    flip("wf_unweighted", "flips", "flips from the source model's predictions, all counted alike", |seen| {
        let probe = seen.probe?;
        let counted = flips(&probe.source.as_ref()?.classes, probe.adapted.as_ref()?);
        Some(counted.map(|score| probe.doubt(score)))
    }),
    flip(
        "statistics_flips",
        "flips of statistics",
        "weighted flips from running to batch statistics, without adapting; with batch norms only",
        |seen| {
            let (source, batch) = (seen.probe?.source.as_ref()?, seen.probe?.batch.as_ref()?);
            Some(weighted_flips(&source.classes, &source.confidences, &batch.classes))
        },
    ),
    accuracy("atc_ne", "ATC, entropy", "average thresholded confidence, by negative entropy", |seen| {
        Some(atc(seen.outputs, seen.learned?.reference, AtcScore::NegativeEntropy))
    }),
    accuracy("cott", "COTT", "confidence under optimal transport, thresholded", |seen| {
        Some(thresholded(seen, seen.learned?.cott_threshold))
    }),
    accuracy("im", "IM", "importance re-weighting by confidence", |seen| {
        Some(im(seen.outputs, seen.learned?.reference))
    }),
    signal("nuclear_norm", "nuclear norm", "nuclear norm of the predictions", |seen| Some(nuclear_norm(seen.outputs))),
    signal("mano", "MaNo", "matrix norm of the normalised logits", |seen| {
        Some(mano(seen.outputs, &ManoConfig::published()))
    }),
    signal("mde", "MDE", "meta-distribution energy", |seen| Some(mde_of_a_thousand(seen.outputs))),
    signal("dispersion", "dispersion", "dispersion of the predicted classes' embeddings", |seen| {
        let (embeddings, predicted) = seen.embeddings?;
        Some(dispersion_of_a_thousand(embeddings, predicted, seen.outputs.classes()))
    }),
    accuracy("aetta", "AETTA", "agreement under dropout", |seen| {
        let (embeddings, head) = (seen.embeddings?.0, seen.head?);
        Some(aetta(embeddings, head, &AettaConfig::published(head.classes())))
    }),
];

/// What is known about the estimator called `name`.
pub fn score_info(name: &str) -> Option<&'static ScoreInfo> {
    SCORES.iter().find(|info| info.name == name)
}

impl Evidence<'_> {
    /// The scores of the estimators that are `wanted` and have their evidence. One that is not defined for these images
    /// is left out.
    ///
    /// # Errors
    /// When an estimator fails for any other reason.
    pub fn scores(&self, wanted: impl Fn(&ScoreInfo) -> bool) -> Result<Scores, EstimateError> {
        let [scores] = Self::scores_of([self], wanted)?;
        Ok(scores)
    }

    /// [`Evidence::scores`] of several outputs at once: a thread that is done with one goes on with the other.
    ///
    /// # Errors
    /// When an estimator fails for any other reason than that it is not defined.
    pub fn scores_of<const LOOKS: usize>(
        looks: [&Evidence; LOOKS],
        wanted: impl Fn(&ScoreInfo) -> bool,
    ) -> Result<[Scores; LOOKS], EstimateError> {
        let all = looks.map(|evidence| Seen { evidence, plan: OnceLock::new() });
        let wanted: Vec<&ScoreInfo> = SCORES.iter().filter(|info| wanted(info)).collect();
        let mut order: Vec<(usize, &ScoreInfo)> =
            (0..LOOKS).flat_map(|look| wanted.iter().map(move |info| (look, *info))).collect();
        let rank = |name: &str| ORDER.iter().position(|other| *other == name).unwrap_or(ORDER.len());
        order.sort_by_key(|(_, info)| if info.name == LAST { usize::MAX } else { rank(info.name) });
        let logits: usize = looks.iter().map(|look| look.outputs.images() * look.outputs.classes()).sum();
        let threads = if logits < FEW_LOGITS { 1 } else { 0 };
        let mut results = map_ranges(threads, order.len(), 1, |range| {
            let (look, info) = order[range.start];
            (look, info, (info.score)(&all[look]))
        });
        // Of several errors the first by the table is reported.
        let place = |name: &str| SCORES.iter().position(|info| info.name == name);
        results.sort_unstable_by_key(|(look, info, _)| (*look, place(info.name)));
        let mut scores = std::array::from_fn(|_| Scores::new());
        for (look, info, result) in results {
            match result {
                Some(Ok(score)) => drop(scores[look].insert(info.name, score)),
                None | Some(Err(EstimateError::TooFew { .. } | EstimateError::Undefined { .. })) => {}
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(scores)
    }
}

/// Estimators that take long, in the order in which they are started, before the short ones.
const ORDER: [&str; 2] = ["nuclear_norm", "cot"];

/// The one that comes last: it is cut into many short pieces, so that all threads have work to the end.
const LAST: &str = "aetta";

/// With fewer logits than this a second thread takes longer to start than to help.
const FEW_LOGITS: usize = 50_000;

/// COT, with a doubt where the classes seem to have other shares than assumed.
fn transported(seen: &Seen) -> Result<Score, EstimateError> {
    let mut score = score_plan(seen.plan()?, seen.outputs.images());
    if let Some(learned) = seen.learned {
        let mismatch = measure_mismatch(seen.outputs, seen.shares, &learned.marginals.marginal)?;
        mismatch.flag().into_iter().for_each(|flag| score.raise(flag));
    }
    Ok(score)
}

/// COTT.
fn thresholded(seen: &Seen, threshold: f64) -> Result<Score, EstimateError> {
    check_threshold(threshold)?;
    Ok(threshold_plan(seen.plan()?, seen.outputs.images(), threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_scores_without_evidence_are_left_out() {
        let names: BTreeSet<&str> = SCORES.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), SCORES.len());
        let outputs = Outputs::new(vec![2.0, 0.0, 0.5, 1.0], 2).unwrap();
        let seen =
            Evidence { outputs: &outputs, shares: &[0.5; 2], learned: None, embeddings: None, head: None, probe: None };
        let scores = seen.scores(|_| true).unwrap();
        assert!(scores.keys().eq(["ac", "cot", "mano", "mde", "nuclear_norm"].iter()), "{:?}", scores.keys());
        assert!(seen.scores(|info| info.is_accuracy).unwrap().keys().eq(["ac", "cot"].iter()));
    }

    #[test]
    fn doubts_about_the_adaptation_are_raised_on_what_rests_on_it() {
        let outputs = Outputs::new(vec![2.0, 0.0, 0.5, 1.0], 2).unwrap();
        let anchor = || Some(Anchor { classes: vec![0, 1], confidences: vec![0.9, 0.6] });
        let probe =
            Probe { source: anchor(), batch: anchor(), adapted: Some(vec![0, 0]), flags: vec![Flag::FilterStarved] };
        let seen = Evidence {
            outputs: &outputs,
            shares: &[0.5; 2],
            learned: None,
            embeddings: None,
            head: None,
            probe: Some(&probe),
        };
        let scores = seen.scores(|info| info.is_flips).unwrap();
        for (name, score) in scores {
            let starved = score.flags.contains(&Flag::FilterStarved);
            assert_eq!(starved, name != "statistics_flips", "{name}");
        }
    }
}
