use super::variables::record_name;
use serde::{Deserialize, Serialize};

/// How the classes of a dataset become a model's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelRule {
    /// By name where both have names, otherwise by number.
    #[default]
    Auto,
    /// By number.
    Index,
    /// Not at all.
    None,
}

/// Which outputs a decision is made between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionRule {
    /// Those the dataset's publishers use.
    #[default]
    Published,
    /// All of them.
    Full,
}

/// Images that a plan asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataRef {
    /// Where they lie, variables and parts included: `${CIFAR}/cifar100_test.tar#second-half:0`.
    pub template: String,
    /// What is done to them: `gaussian_noise:3`.
    pub corruption: Option<String>,
    /// The published dataset whose root the template is.
    pub dataset: Option<String>,
    /// Its split.
    pub split: Option<String>,
    /// How labels are understood.
    pub labels: LabelRule,
    /// Which outputs count.
    pub decision: DecisionRule,
    /// Use at most this many images.
    pub limit: Option<usize>,
}

impl DataRef {
    /// What records call it: `cifar100_test.tar#second-half:0@gaussian_noise:3`, or `imagenet-c/gaussian_noise/3`.
    pub fn name(&self) -> String {
        let mut name = match (&self.dataset, &self.split) {
            (None, None) => record_name(&self.template),
            (None, Some(split)) => format!("{}/{split}", record_name(&self.template)),
            (Some(dataset), Some(split)) if !split.is_empty() => format!("{dataset}/{split}"),
            (Some(dataset), _) => dataset.clone(),
        };
        if let Some(corruption) = &self.corruption {
            name += &format!("@{corruption}");
        }
        name
    }
}
