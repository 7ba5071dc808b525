use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::builtin::{imagenet_index_of_wnid, imagenet_name};
use super::{Decision, LabelError};
use crate::Label;

/// What counts as correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The label is a network output; the prediction must equal it.
    Index,
    /// The label is a class id; every class has exactly one output.
    Subset,
    /// The label is a class id; classes have one or more outputs, and an unlisted prediction is wrong.
    Map,
    /// The label is a list of outputs; the prediction must be among them.
    MultiLabel,
    /// No answer is right.
    None,
}

impl Rule {
    /// The name in files and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Subset => "subset",
            Self::Map => "map",
            Self::MultiLabel => "multilabel",
            Self::None => "none",
        }
    }
}

/// Where an image's label comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelFrom {
    /// The class folder is a WordNet id, looked up, never ranked.
    WnidFolder,
    /// The class folder is a decimal number: the output itself.
    IntFolder,
    /// The class folder is one of the class's folder names.
    ClassFolder,
    /// Stored with each image.
    Record,
    /// There is none.
    None,
}

/// One class of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceClass {
    /// Its name.
    pub name: String,
    /// Its WordNet id, where the dataset uses them.
    pub wnid: Option<String>,
    /// Folders that hold its images.
    pub folders: Vec<String>,
    /// Network outputs that count as this class.
    pub outputs: Vec<u32>,
}

/// What a class folder means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderClass {
    /// Its images have this label.
    Labelled(Label),
    /// It is part of the download but not of the evaluation.
    Unused,
}

/// The classes of a dataset and how they relate to a network's outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSpace {
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) label_from: LabelFrom,
    pub(super) alt_label_from: Option<LabelFrom>,
    pub(super) classes: Vec<SpaceClass>,
    pub(super) unused_folders: Vec<String>,
    pub(super) upstream_decision: Decision,
    outputs: usize,
    /// Class of each output.
    by_output: Vec<Option<u32>>,
    by_folder: HashMap<String, u32>,
    by_wnid: HashMap<String, u32>,
}

impl LabelSpace {
    /// A class space called `name` for a network with `outputs` outputs; `classes` may be empty unless the rule is
    /// `Subset` or `Map`.
    pub fn new(name: &str, rule: Rule, outputs: usize, classes: Vec<SpaceClass>) -> Result<Self, LabelError> {
        let mut by_output = vec![None; outputs];
        let (mut by_folder, mut by_wnid) = (HashMap::new(), HashMap::new());
        for (id, class) in classes.iter().enumerate() {
            for &output in &class.outputs {
                let output = output as usize;
                let bad = |problem| LabelError::BadOutput { name: name.into(), output, problem, outputs };
                let slot = by_output.get_mut(output).ok_or_else(|| bad("beyond the network"))?;
                if slot.replace(id as u32).is_some() {
                    return Err(bad("twice"));
                }
            }
            by_folder.extend(class.folders.iter().map(|f| (f.clone(), id as u32)));
            by_wnid.extend(class.wnid.iter().map(|w| (w.clone(), id as u32)));
        }
        Ok(Self {
            name: name.into(),
            rule,
            label_from: LabelFrom::Record,
            alt_label_from: None,
            classes,
            unused_folders: Vec::new(),
            upstream_decision: Decision::Full,
            outputs,
            by_output,
            by_folder,
            by_wnid,
        })
    }

    /// A network and a dataset with the same `classes` classes.
    pub fn index(name: &str, classes: usize) -> Self {
        Self::new(name, Rule::Index, classes, Vec::new()).expect("there is no output to refuse")
    }

    /// Its name, as records state it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What counts as correct.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Where labels come from.
    pub fn label_from(&self) -> LabelFrom {
        self.label_from
    }

    /// The classes in label order; empty where labels are network outputs.
    pub fn classes(&self) -> &[SpaceClass] {
        &self.classes
    }

    /// Outputs of the network this is for.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How the dataset's own script decides.
    pub fn upstream_decision(&self) -> Decision {
        self.upstream_decision
    }

    /// The outputs some class lists, ascending.
    pub fn listed_outputs(&self) -> Vec<usize> {
        (0..self.outputs).filter(|&o| self.by_output[o].is_some()).collect()
    }

    /// The dataset's class that `output` counts as; `None` when no class lists it.
    pub fn class_of(&self, output: usize) -> Option<u32> {
        match self.rule {
            Rule::Index | Rule::MultiLabel => (output < self.outputs).then_some(output as u32),
            Rule::Subset | Rule::Map => self.by_output.get(output).copied().flatten(),
            Rule::None => None,
        }
    }

    /// Whether predicting `output` is right for an image labelled `label`; `None` when the label is unknown.
    pub fn is_correct(&self, output: usize, label: &Label) -> Option<bool> {
        self.is_correct_class(self.class_of(output), label)
    }

    /// The same for a prediction that is already a class of the dataset.
    pub fn is_correct_class(&self, class: Option<u32>, label: &Label) -> Option<bool> {
        if self.rule == Rule::None {
            return Some(false);
        }
        match label {
            Label::Unknown => None,
            Label::Class(right) => Some(class == Some(*right)),
            Label::AnyOf(right) => Some(class.is_some_and(|c| right.contains(&c))),
        }
    }

    /// The label of the images in `folder`.
    pub fn label_of_folder(&self, folder: &str) -> Result<FolderClass, LabelError> {
        if self.rule == Rule::None || self.label_from == LabelFrom::None {
            return Ok(FolderClass::Labelled(Label::Unknown));
        }
        if self.unused_folders.iter().any(|unused| unused == folder) {
            return Ok(FolderClass::Unused);
        }
        let found = [Some(self.label_from), self.alt_label_from]
            .into_iter()
            .flatten()
            .find_map(|from| self.class_of_folder(folder, from));
        match found {
            Some(class) => Ok(FolderClass::Labelled(Label::Class(class))),
            None => Err(LabelError::UnknownFolder {
                folder: folder.into(),
                space: self.name.clone(),
                expected: match self.label_from {
                    LabelFrom::WnidFolder => "its WordNet ids",
                    LabelFrom::IntFolder => "numbers below the class count",
                    LabelFrom::ClassFolder => "its class names",
                    LabelFrom::Record | LabelFrom::None => "no folders",
                },
            }),
        }
    }

    fn class_of_folder(&self, folder: &str, from: LabelFrom) -> Option<u32> {
        match from {
            LabelFrom::WnidFolder if self.classes.is_empty() => {
                imagenet_index_of_wnid(folder).filter(|&i| (i as usize) < self.outputs)
            }
            LabelFrom::WnidFolder => self.by_wnid.get(folder).copied(),
            LabelFrom::ClassFolder => {
                let exact = self.by_folder.get(folder).copied();
                exact.or_else(|| self.class_of_prefix(folder))
            }
            LabelFrom::IntFolder => {
                let index: u32 = folder.parse().ok()?;
                ((index as usize) < self.outputs).then_some(index)
            }
            LabelFrom::Record | LabelFrom::None => None,
        }
    }

    /// `07_primate` and `07_monkey` are class 7 where every known folder starts with its two-digit class id.
    fn class_of_prefix(&self, folder: &str) -> Option<u32> {
        let prefixed = |id: usize, class: &SpaceClass| {
            let expected = format!("{id:02}_");
            class.folders.iter().all(|f| f.starts_with(&expected))
        };
        let all = self.classes.iter().enumerate().all(|(i, c)| prefixed(i, c));
        let (digits, _) = folder.split_once('_').filter(|_| all)?;
        let id: u32 = digits.parse().ok().filter(|_| digits.len() == 2)?;
        ((id as usize) < self.classes.len()).then_some(id)
    }

    /// Display names in label order.
    pub fn class_names(&self) -> Vec<String> {
        if !self.classes.is_empty() {
            return self.classes.iter().map(|c| c.name.clone()).collect();
        }
        match self.rule {
            Rule::None => Vec::new(),
            _ if self.outputs == 1000 => (0..1000).filter_map(|i| imagenet_name(i).map(str::to_owned)).collect(),
            _ => (0..self.outputs).map(|i| i.to_string()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
