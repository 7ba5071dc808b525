use crate::AdaptError;
use flipcast_executor::Executor;
use flipcast_graph::{AffineEntry, AffineTable, NormGroup, NormKind};
use flipcast_ground::nearest_quoted;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Names a list may hold at most; more come from a mistake.
const MOST_NAMES: usize = 10_000;

/// Which norm layers a method may change.
///
/// | rule | selects | used by |
/// |---|---|---|
/// | `all-norm` | every batch, group and layer norm | the default; the comparisons of mariodoebler/test-time-adaptation, COME |
/// | `batch-norm` | batch norms alone | Tent, EATA, RDumb, RPL and CPL as released |
/// | `sar` | all but those of the last stage | SAR, DeYO |
/// | `list:NAME,...` | layers of these names, or below modules of these names | |
///
/// In a network whose norms are all batch norms the first two are the same; in one that has none, `batch-norm` selects nothing
/// and is refused.
///
/// *Reference.* The released code of the methods named. *Departures from the reference.* SAR tells the last stage by timm's names of
/// ResNets and of ViT-B; here it is found in every family ([`NormGroup`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamRule {
    /// All of them.
    #[default]
    AllNorm,
    /// Batch norms only.
    BatchNorm,
    /// All but those of the last stage and what follows it: `layer4` of a ResNet; the last quarter of a ViT's blocks and
    /// its last norm.
    Sar,
    /// Layers by name, or all below a module of that name.
    Layers(Vec<String>),
}

impl ParamRule {
    /// Whether this is [`ParamRule::AllNorm`], which settings leave unsaid.
    pub fn is_all(&self) -> bool {
        *self == Self::AllNorm
    }

    /// Whether the norm layer of `entry` may change.
    pub fn adapts(&self, entry: &AffineEntry) -> bool {
        match self {
            Self::AllNorm => true,
            Self::BatchNorm => entry.kind == NormKind::Batch,
            Self::Sar => entry.group != NormGroup::Last,
            Self::Layers(names) => names.iter().any(|name| is_within(&entry.name, name)),
        }
    }

    /// The norm layers that may change; an error if there is none, or if a listed name is unknown.
    pub fn select<'a>(&self, table: &'a AffineTable) -> Result<Vec<&'a AffineEntry>, AdaptError> {
        let entries = table.entries();
        if entries.is_empty() {
            return Err(AdaptError::NothingToAdapt);
        }
        if let Self::Layers(names) = self {
            let known = |name: &&String| entries.iter().any(|entry| is_within(&entry.name, name));
            if let Some(unknown) = names.iter().find(|name| !known(name)) {
                return Err(AdaptError::UnknownLayer {
                    name: unknown.clone(),
                    nearest: nearest_layers(unknown, table),
                });
            }
        }
        let selected: Vec<_> = entries.iter().filter(|entry| self.adapts(entry)).collect();
        if selected.is_empty() {
            return Err(AdaptError::NothingSelected {
                rule: self.to_string(),
                layers: entries.len(),
                kinds: kinds(table),
            });
        }
        Ok(selected)
    }

    /// Refuses a network in which nothing may change.
    pub(crate) fn check(&self, net: &dyn Executor) -> Result<(), AdaptError> {
        self.select(net.affine_table()).map(drop)
    }

    /// Makes zero what `gradient` says of the layers that may not change, so that no optimizer here moves them.
    pub(crate) fn mask(&self, net: &dyn Executor, gradient: &mut [f32]) {
        if self.is_all() {
            return;
        }
        for entry in net.affine_table().entries() {
            if !self.adapts(entry) {
                gradient[entry.scale()].fill(0.0);
                gradient[entry.shift()].fill(0.0);
            }
        }
    }

    /// Ones for the parameters that may change and zeros for the others; `None` if all may.
    pub(crate) fn open(&self, net: &dyn Executor) -> Option<Arc<[f32]>> {
        if self.is_all() {
            return None;
        }
        let mut open = vec![1.0; net.affine_table().len()];
        self.mask(net, &mut open);
        Some(open.into())
    }
}

impl fmt::Display for ParamRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllNorm => f.write_str("all-norm"),
            Self::BatchNorm => f.write_str("batch-norm"),
            Self::Sar => f.write_str("sar"),
            Self::Layers(names) => write!(f, "list:{}", names.join(",")),
        }
    }
}

impl FromStr for ParamRule {
    type Err = AdaptError;

    /// Reads what [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, AdaptError> {
        if let Some(names) = text.strip_prefix("list:") {
            let names: Vec<String> = names
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .take(MOST_NAMES)
                .collect();
            if !names.is_empty() {
                return Ok(Self::Layers(names));
            }
        }
        match text {
            "all-norm" => Ok(Self::AllNorm),
            "batch-norm" => Ok(Self::BatchNorm),
            "sar" => Ok(Self::Sar),
            _ => Err(AdaptError::UnknownParamRule { name: text.to_owned() }),
        }
    }
}

/// Whether `layer` is called `module` or lies below it: `layer1.0.bn1` is within `layer1`, `layer10.bn` is not.
fn is_within(layer: &str, module: &str) -> bool {
    let rest = layer.strip_prefix(module);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The layers and modules most similar to `name`, quoted.
fn nearest_layers(name: &str, table: &AffineTable) -> String {
    let mut modules: Vec<&str> = Vec::new();
    for entry in table.entries() {
        let ends = entry.name.match_indices('.').map(|(end, _)| end);
        for end in ends.chain([entry.name.len()]) {
            modules.push(&entry.name[..end]);
        }
    }
    modules.sort_unstable();
    modules.dedup();
    nearest_quoted(name, modules)
}

/// The kinds of a network's norms, in words.
fn kinds(table: &AffineTable) -> String {
    let mut found: Vec<&str> = Vec::new();
    for entry in table.entries() {
        let kind = match entry.kind {
            NormKind::Batch => "batch norms",
            NormKind::Group { .. } => "group norms",
            NormKind::Layer => "layer norms",
        };
        if !found.contains(&kind) {
            found.push(kind);
        }
    }
    found.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::small_network;
    use flipcast_graph::GraphBuilder;
    use flipcast_ground::Hint;

    /// A batch norm, a layer norm in the last stage, and a layer norm behind it.
    fn table() -> AffineTable {
        let (mut g, x) = GraphBuilder::new(3);
        let x = g.batch_norm("layer1.0.bn1", x, 1e-5);
        let x = g.norm("layer4.0.norm", x, NormKind::Layer, 1e-5);
        let x = g.norm("layer10.norm", x, NormKind::Layer, 1e-5);
        let x = g.global_avg_pool("pool", x);
        let x = g.linear("fc", x, 3, 2);
        g.finish(x).unwrap().affine_table()
    }

    fn selected(rule: &str) -> Vec<String> {
        let rule: ParamRule = rule.parse().unwrap();
        assert_eq!(rule.to_string().parse::<ParamRule>().unwrap(), rule);
        let table = table();
        let entries = rule.select(&table).unwrap().into_iter();
        entries.map(|entry| entry.name.clone()).collect()
    }

    #[test]
    fn each_rule_selects_its_layers() {
        let all = ["layer1.0.bn1", "layer4.0.norm", "layer10.norm"];
        assert_eq!(selected("all-norm"), all);
        assert_eq!(selected("batch-norm"), ["layer1.0.bn1"]);
        assert_eq!(selected("sar"), ["layer1.0.bn1", "layer10.norm"]);
        assert_eq!(selected("list:layer1, layer4.0.norm"), all[..2]);
    }

    #[test]
    fn a_rule_that_selects_nothing_says_what_there_is() {
        let (mut g, x) = GraphBuilder::new(3);
        let x = g.norm("norm", x, NormKind::Layer, 1e-5);
        let x = g.global_avg_pool("pool", x);
        let x = g.linear("fc", x, 3, 2);
        let table = g.finish(x).unwrap().affine_table();
        let error = ParamRule::BatchNorm.select(&table).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`batch-norm` selects none of the network's 1 norm layers, which are layer norms"
        );
        assert!(error.hint().is_some());
        let none = AffineTable::default();
        let error = ParamRule::AllNorm.select(&none);
        assert!(matches!(error, Err(AdaptError::NothingToAdapt)));
    }

    #[test]
    fn unknown_layers_and_rules_are_named() {
        let rule = ParamRule::Layers(vec!["layer1".into(), "layer2".into()]);
        let error = rule.select(&table()).unwrap_err().to_string();
        assert!(error.contains("`layer2`") && error.contains("`layer1`"), "{error}");
        for text in ["bn", "list:", "list: ,"] {
            let error = text.parse::<ParamRule>();
            assert!(matches!(error, Err(AdaptError::UnknownParamRule { .. })), "{text}");
        }
    }

    #[test]
    fn older_records_can_be_read() {
        for (text, rule) in [
            ("\"all_norm\"", ParamRule::AllNorm),
            ("\"sar\"", ParamRule::Sar),
            ("\"batch_norm\"", ParamRule::BatchNorm),
            ("{\"layers\":[\"bn1\"]}", ParamRule::Layers(vec!["bn1".into()])),
        ] {
            assert_eq!(serde_json::from_str::<ParamRule>(text).unwrap(), rule);
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
        }
    }

    #[test]
    fn a_mask_keeps_the_gradient_of_layers_that_adapt() {
        let (net, _) = small_network();
        let name = net.affine_table().entries()[0].name.clone();
        let scale = net.affine_table().entries()[0].scale();
        let mut gradient = vec![1.0; net.affine().len()];
        ParamRule::Layers(vec![name]).mask(&net, &mut gradient);
        assert!(gradient[scale.clone()].iter().all(|&g| g == 1.0));
        let kept = gradient.iter().filter(|&&g| g != 0.0).count();
        assert_eq!(kept, 2 * scale.len());
    }
}
