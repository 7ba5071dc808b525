use crate::family::infer_architecture;
use crate::fit::{Fit, fit_tensors};
use crate::registry::ARCHITECTURES;
use crate::vit_weights::file_params;
use crate::{Architecture, TensorInfo};

/// An architecture and how well the tensors of a file fit it.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The architecture, with the class count of the file's head where that could be read.
    pub architecture: Architecture,
    /// What fits and what does not.
    pub fit: Fit,
    /// Other architectures the tensors fit equally well; only their padding and constants differ.
    pub ties: Vec<String>,
}

/// The architecture whose parameters the tensors fit best, or `None` when not a single tensor fits any.
///
/// Names and shapes are all that is compared, so networks that differ only in what no tensor shows, such as padding,
/// are reported as ties.
pub fn recognise(tensors: &[TensorInfo]) -> Option<Match> {
    let mut best: Option<Match> = None;
    for candidate in candidates(tensors) {
        let Ok(graph) = candidate.config.build() else {
            continue;
        };
        let family = candidate.config.family();
        let (fit, _) = fit_tensors(family, &file_params(&candidate.config, &graph), tensors.iter());
        if fit.matched == 0 {
            continue;
        }
        match &mut best {
            Some(best) if score(&fit) == score(&best.fit) => {
                if best.architecture.config != candidate.config {
                    best.ties.push(candidate.name);
                }
            }
            Some(best) if score(&fit) < score(&best.fit) => {}
            _ => {
                best = Some(Match { architecture: candidate, fit, ties: Vec::new() });
            }
        }
    }
    best
}

/// Every architecture of the table with the file's class count, then the one read off the shapes.
fn candidates(tensors: &[TensorInfo]) -> impl Iterator<Item = Architecture> {
    let table = ARCHITECTURES.iter().map(|entry| {
        let architecture = entry.architecture(entry.classes);
        match head_classes(&architecture, tensors) {
            Some(classes) => architecture.with_classes(classes),
            None => architecture,
        }
    });
    table.chain(infer_architecture(tensors))
}

/// Rows of the file's head weight under the name it has in this architecture.
fn head_classes(architecture: &Architecture, tensors: &[TensorInfo]) -> Option<usize> {
    let graph = architecture.config.build().ok()?;
    let head = format!("{}.weight", graph.node(graph.output()).name);
    let family = architecture.config.family();
    let tensor = tensors.iter().find(|tensor| family.canonical_name(&tensor.name) == head)?;
    match *tensor.shape.extents() {
        [classes, _] => Some(classes),
        _ => None,
    }
}

/// Higher is better: what fits, less what does not.
fn score(fit: &Fit) -> isize {
    let wrong = fit.missing.len() + fit.unused.len() + fit.mismatched.len();
    fit.matched as isize - wrong as isize
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_tensor::{DType, Shape};

    fn tensors_of(name: &str, classes: usize) -> Vec<TensorInfo> {
        crate::family::tests::tensors_of(&Architecture::find(name).unwrap().with_classes(classes).config)
    }

    #[test]
    fn every_architecture_recognises_itself() {
        for entry in ARCHITECTURES {
            let found = recognise(&tensors_of(entry.name, 37)).unwrap();
            assert!(found.fit.is_exact(), "{}", entry.name);
            assert_eq!(found.architecture.config.classes(), 37);
            let mut names = found.ties;
            names.push(found.architecture.name);
            assert!(names.iter().any(|name| name == entry.name), "{}", entry.name);
        }
    }

    #[test]
    fn padding_alone_makes_a_tie() {
        let found = recognise(&tensors_of("efficientnet_lite0", 10)).unwrap();
        assert_eq!(found.ties, ["tf_efficientnet_lite0"]);
        assert!(recognise(&tensors_of("resnet50", 10)).unwrap().ties.is_empty());
    }

    #[test]
    fn a_lost_tensor_still_finds_the_network() {
        let mut tensors = tensors_of("resnet34", 10);
        tensors.remove(7);
        let found = recognise(&tensors).unwrap();
        assert_eq!(found.architecture.name, "resnet34");
        assert_eq!(found.fit.missing, ["layer1.0.bn1.bias"]);
    }

    #[test]
    fn strange_tensors_match_nothing() {
        let tensors = [TensorInfo { name: "decoder.ln.weight".into(), dtype: DType::F32, shape: Shape::from([8]) }];
        assert_eq!(recognise(&tensors), None);
    }
}
