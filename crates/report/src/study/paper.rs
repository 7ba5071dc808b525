//! Numbers of the paper, to stand beside one's own. Errors are fractions.

/// What the paper reports about the two phases of Tent on ResNet-50, over 185 splits.
pub(crate) struct PaperPhases {
    /// ρ of the changes of silhouette and accuracy in phase 1.
    pub phase_1: f64,
    /// ρ of the changes of shift distance and accuracy in phase 2.
    pub phase_2: f64,
    /// The silhouette rises in more than this share of the splits in either phase.
    pub rises: f64,
}

/// The paper's own.
pub(crate) const PAPER_PHASES: PaperPhases = PaperPhases { phase_1: 0.70, phase_2: -0.79, rises: 0.98 };

/// Plan, estimator, error with the curve of ResNet-50, error with a curve of the model's own.
const TRANSFERS: [(&str, &str, f64, f64); 1] = [("vit_refit", "wf_batch", 0.0661, 0.0415)];

/// The paper's errors before and after fitting anew.
pub(crate) fn paper_transfer(plan: &str, estimator: &str) -> Option<(f64, f64)> {
    let known = TRANSFERS.iter().find(|row| (row.0, row.1) == (plan, estimator));
    known.map(|row| (row.2, row.3))
}

/// Whose curve turns flips into an accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CurveOf {
    /// One fitted under the same protocol.
    Own,
    /// That of the paper's main table.
    Paper,
}

/// How the plan calls the protocol, whose curve, estimator, error: for ResNet-50 and ImageNet.
const VARIANTS: [(&str, CurveOf, &str, f64); 15] = [
    ("code", CurveOf::Own, "wf_batch", 0.0575),
    ("code", CurveOf::Own, "cot", 0.0817),
    ("code", CurveOf::Own, "atc_mc", 0.1181),
    ("code", CurveOf::Own, "doc", 0.2229),
    ("code", CurveOf::Own, "ac", 0.2602),
    ("code", CurveOf::Paper, "wf", 0.0575),
    ("steps-500", CurveOf::Own, "wf_batch", 0.0298),
    ("steps-1000", CurveOf::Own, "wf_batch", 0.0408),
    ("probe-100", CurveOf::Own, "wf_batch", 0.0848),
    ("probe-1000", CurveOf::Own, "wf_batch", 0.0408),
    ("limited-memory", CurveOf::Paper, "wf", 0.0567),
    ("tent", CurveOf::Paper, "wf", 0.0507),
    ("rpl", CurveOf::Paper, "wf", 0.0497),
    ("cpl", CurveOf::Paper, "wf", 0.0333),
    ("rdumb", CurveOf::Paper, "wf", 0.0408),
];

/// The paper's error of an estimator for ResNet-50 on ImageNet, if `network` is one.
pub(crate) fn paper_variant(network: &str, variant: &str, paper_fit: Option<&str>, estimator: &str) -> Option<f64> {
    let is_resnet50 = network == "resnet50" || network.starts_with("resnet50.tv_in1k");
    let curve = if paper_fit.is_some() { CurveOf::Paper } else { CurveOf::Own };
    let known = VARIANTS.iter().find(|row| (row.0, row.1, row.2) == (variant, curve, estimator));
    known.filter(|_| is_resnet50).map(|row| row.3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_beside_what_they_are_about() {
        let name = "resnet50.tv_in1k";
        assert_eq!(paper_variant(name, "steps-500", None, "wf_batch"), Some(0.0298));
        assert_eq!(paper_variant(name, "steps-500", Some("paper-resnet50"), "wf"), None);
        assert_eq!(paper_variant("resnet18", "steps-500", None, "wf_batch"), None);
        assert_eq!(paper_transfer("vit_refit", "wf_batch"), Some((0.0661, 0.0415)));
        assert_eq!(paper_transfer("tiny_imagenet", "wf_batch"), None);
    }
}
