use crate::layout::{Layout, find_layout};
use crate::text::{list, list_names, shown};
use crate::{Family, TensorInfo};
use flipcast_graph::ParamSpec;
use flipcast_tensor::Shape;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// A tensor whose extents are not those the network needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The parameter.
    pub name: String,
    /// Extents the network needs.
    pub expected: Shape,
    /// Extents in the file.
    pub found: Shape,
}

/// How the tensors of a file fit the parameters of a network.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Fit {
    /// Parameters the file does not hold, in the network's order.
    pub missing: Vec<String>,
    /// Tensors the network has no place for, in the file's order.
    pub unused: Vec<String>,
    /// Parameters of other extents, in the network's order.
    pub mismatched: Vec<Mismatch>,
    /// Parameters that fit.
    pub matched: usize,
}

impl Fit {
    /// Whether every parameter is there and nothing is left over.
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty() && self.unused.is_empty() && self.mismatched.is_empty()
    }

    /// The number of classes in the file, when only the head named `head` differs.
    pub fn only_head_differs(&self, head: &str) -> Option<usize> {
        let in_head = |name: &str| name.strip_prefix(head).is_some_and(|rest| rest.starts_with('.'));
        if !self.missing.is_empty() || !self.unused.is_empty() || self.mismatched.is_empty() {
            return None;
        }
        let mut classes = None;
        for mismatch in &self.mismatched {
            let (&found, rest) = mismatch.found.extents().split_first()?;
            let (_, expected_rest) = mismatch.expected.extents().split_first()?;
            let same = classes.is_none_or(|classes| classes == found);
            if !in_head(&mismatch.name) || rest != expected_rest || !same {
                return None;
            }
            classes = Some(found);
        }
        classes
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exact() {
            return f.write_str("every tensor fits");
        }
        f.write_str(&describe(&self.missing, &self.unused, &self.mismatched))
    }
}

/// Everything that does not fit in one line of bounded length.
pub(crate) fn describe(missing: &[String], unused: &[String], mismatched: &[Mismatch]) -> String {
    let lists = [
        ("mismatched", mismatched.len(), list(mismatched.iter().map(ToString::to_string))),
        ("missing", missing.len(), list_names(missing)),
        ("unused", unused.len(), list_names(unused)),
    ];
    let found = lists.into_iter().filter(|&(_, count, _)| count > 0);
    found.map(|(what, count, listed)| format!("{count} {what}: {listed}")).collect::<Vec<_>>().join("; ")
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` has shape {}, expected {}", shown(&self.name), self.found, self.expected)
    }
}

/// The file's name for each parameter it holds, and how the values lie there.
pub(crate) type Sources = HashMap<String, (String, Layout)>;

/// Compares the tensors of a file with the parameters of a network. The family says which other names its parameters
/// may have.
pub(crate) fn fit_tensors<'a>(
    family: Family,
    params: &[ParamSpec],
    tensors: impl Iterator<Item = &'a TensorInfo>,
) -> (Fit, Sources) {
    let wanted: HashSet<&str> = params.iter().map(|param| param.name.as_str()).collect();
    let mut fit = Fit::default();
    let mut held: HashMap<String, &TensorInfo> = HashMap::new();
    for tensor in tensors.filter(|tensor| !family.is_ignored(&tensor.name)) {
        let name = family.canonical_name(&tensor.name);
        // Two names of one parameter: the first is taken, the second left over and thereby reported.
        if wanted.contains(name.as_ref()) && !held.contains_key(name.as_ref()) {
            held.insert(name.into_owned(), tensor);
        } else {
            fit.unused.push(tensor.name.clone());
        }
    }
    let mut sources = Sources::new();
    for param in params {
        let Some(tensor) = held.get(&param.name) else {
            fit.missing.push(param.name.clone());
            continue;
        };
        match find_layout(family, tensor.shape.extents(), &param.shape) {
            None => fit.mismatched.push(Mismatch {
                name: param.name.clone(),
                expected: Shape::new(param.shape.clone()),
                found: tensor.shape.clone(),
            }),
            Some(layout) => {
                fit.matched += 1;
                sources.insert(param.name.clone(), (tensor.name.clone(), layout));
            }
        }
    }
    (fit, sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_tensor::DType;

    fn param(name: &str, shape: &[usize]) -> ParamSpec {
        ParamSpec { name: name.into(), shape: shape.to_vec() }
    }

    fn tensor(name: &str, shape: &[usize]) -> TensorInfo {
        TensorInfo { name: name.into(), dtype: DType::F32, shape: Shape::new(shape) }
    }

    fn fit(params: &[ParamSpec], tensors: &[TensorInfo]) -> Fit {
        fit_tensors(crate::resnet::FAMILY, params, tensors.iter()).0
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let params = [param("a.weight", &[2]), param("b.weight", &[2, 3])];
        let tensors = [tensor("b.weight", &[3, 3]), tensor("c", &[1])];
        assert_eq!(
            fit(&params, &tensors).to_string(),
            "1 mismatched: `b.weight` has shape [3, 3], expected [2, 3]; 1 missing: `a.weight`; 1 unused: `c`"
        );
    }

    #[test]
    fn long_lists_and_hostile_names_stay_short() {
        let tensors: Vec<_> = (0..100_000)
            .map(|i| tensor(&format!("{i}\n{}", "x".repeat(50)), &[1]))
            .chain([tensor(&"y".repeat(1_000_000), &[1])])
            .rev()
            .collect();
        let text = fit(&[], &tensors).to_string();
        assert!(text.len() < 1000, "{} characters", text.len());
        assert!(text.ends_with("and 99993 more") && !text.contains('\n'));
    }

    #[test]
    fn another_class_count_is_recognised_only_in_the_head() {
        let params = [param("fc.weight", &[1000, 8]), param("fc.bias", &[1000])];
        let ten = [tensor("fc.weight", &[10, 8]), tensor("fc.bias", &[10])];
        assert_eq!(fit(&params, &ten).only_head_differs("fc"), Some(10));
        let wider = [tensor("fc.weight", &[10, 9]), tensor("fc.bias", &[10])];
        assert_eq!(fit(&params, &wider).only_head_differs("fc"), None);
        let uneven = [tensor("fc.weight", &[10, 8]), tensor("fc.bias", &[11])];
        assert_eq!(fit(&params, &uneven).only_head_differs("fc"), None);
        assert_eq!(fit(&params, &ten[..1]).only_head_differs("fc"), None);
    }

    #[test]
    fn a_second_name_of_the_same_parameter_is_left_over() {
        let params = [param("fc.bias", &[10])];
        let tensors = [tensor("linear.bias", &[10]), tensor("fc.bias", &[10])];
        assert_eq!(fit(&params, &tensors).unused, ["fc.bias"]);
    }

    #[test]
    fn batch_counters_are_not_left_over() {
        let tensors = [tensor("bn1.num_batches_tracked", &[])];
        assert!(fit(&[], &tensors).is_exact());
    }
}
