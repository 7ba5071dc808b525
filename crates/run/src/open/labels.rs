//! How the classes of a dataset relate to a model's outputs.

use super::LabelMatchError;
use flipcast_images::dataset::{Dataset, are_numbers};
use flipcast_images::labelspace::{
    ClassSpace, Decision, LabelSpace, Rule, SpaceClass, builtin, imagenet_index_of_wnid,
};
use flipcast_models::Model;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Most class names an error lists.
const MAX_NAMED: usize = 5;
/// Classes of ImageNet-1k, whose WordNet ids are known.
const IMAGENET_CLASSES: usize = 1000;

/// How the classes of a dataset become a model's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelRule {
    /// By name where both have names, otherwise by number. Folders that are called by numbers are names where all of them
    /// are names of the model's classes.
    #[default]
    Auto,
    /// By number, whatever the names are.
    Index,
    /// Not at all: labels are ignored.
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

/// When a prediction of `model` is right on `dataset`; `None` when labels are to be ignored.
pub(super) fn class_space(
    dataset: &dyn Dataset,
    published: Option<&str>,
    model: &Model,
    labels: LabelRule,
    decision: DecisionRule,
) -> Result<Option<ClassSpace>, LabelMatchError> {
    if labels == LabelRule::None {
        return Ok(None);
    }
    let space = match published {
        Some(name) => published_space(name, model.num_classes())?,
        None => Arc::new(own_space(dataset.classes(), model, labels)?),
    };
    let decision = match decision {
        DecisionRule::Published if published.is_some() => space.upstream_decision(),
        DecisionRule::Published | DecisionRule::Full => Decision::Full,
    };
    Ok(Some(ClassSpace::new(space, decision)?))
}

fn published_space(name: &str, outputs: usize) -> Result<Arc<LabelSpace>, LabelMatchError> {
    let space = builtin(name)?;
    if space.outputs() != outputs {
        return Err(LabelMatchError::OtherOutputs {
            space: name.to_owned(),
            expected: space.outputs(),
            found: outputs,
        });
    }
    Ok(space)
}

fn own_space(classes: &[String], model: &Model, labels: LabelRule) -> Result<LabelSpace, LabelMatchError> {
    let outputs = model.num_classes();
    let numbered = are_numbers(classes) && (labels != LabelRule::Auto || !are_other_outputs(classes, model));
    if classes.is_empty() || (numbered && classes.len() <= outputs) {
        return Ok(LabelSpace::index("outputs", outputs));
    }
    if labels == LabelRule::Auto && !numbered {
        return by_name(classes, model);
    }
    if classes.len() == outputs {
        return Ok(LabelSpace::index("outputs", outputs));
    }
    Err(LabelMatchError::OtherNumbers { classes: classes.len(), outputs })
}

fn by_name(classes: &[String], model: &Model) -> Result<LabelSpace, LabelMatchError> {
    let outputs = model.num_classes();
    if let Some(names) = model.class_names() {
        let known: HashMap<String, u32> = names.iter().map(|name| plain(name)).zip(0..).collect();
        let place = |class: &String| known.get(&plain(class)).copied();
        let missing: Vec<&String> = classes.iter().filter(|c| !c.is_empty() && place(c).is_none()).collect();
        if missing.is_empty() {
            return named_space(classes, outputs, place);
        }
        // Folders of ImageNet are called by WordNet ids, its classes by words.
        if outputs != IMAGENET_CLASSES || !are_wnids(classes) {
            return Err(unknown_names(&missing, classes.len()));
        }
    }
    if outputs == IMAGENET_CLASSES && are_wnids(classes) {
        return named_space(classes, outputs, |class| imagenet_index_of_wnid(class));
    }
    if classes.len() == outputs {
        return Ok(LabelSpace::index("outputs", outputs));
    }
    Err(LabelMatchError::NoNames { classes: classes.len(), outputs })
}

/// Whether classes that are called by numbers are the model's by name, and other ones than their numbers say: folders `01`
/// and `02` are the first two outputs of a model whose classes are called so.
fn are_other_outputs(classes: &[String], model: &Model) -> bool {
    let Some(names) = model.class_names() else {
        return false;
    };
    let known: HashMap<String, u32> = names.iter().map(|name| plain(name)).zip(0..).collect();
    let named = classes.iter().zip(0..).filter(|(name, _)| !name.is_empty());
    let places: Option<Vec<(u32, u32)>> =
        named.map(|(name, number)| Some((*known.get(&plain(name))?, number))).collect();
    places.is_some_and(|places| places.iter().any(|(output, number)| output != number))
}

fn named_space(
    classes: &[String],
    outputs: usize,
    place: impl Fn(&String) -> Option<u32>,
) -> Result<LabelSpace, LabelMatchError> {
    let class = |name: &String| SpaceClass {
        name: name.clone(),
        wnid: None,
        folders: vec![name.clone()],
        outputs: place(name).into_iter().collect(),
    };
    let classes = classes.iter().map(class).collect();
    Ok(LabelSpace::new("names", Rule::Subset, outputs, classes)?)
}

fn are_wnids(classes: &[String]) -> bool {
    classes.iter().all(|name| imagenet_index_of_wnid(name).is_some())
}

/// Spelling that does not matter: case, and what separates words.
pub(crate) fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

fn unknown_names(missing: &[&String], classes: usize) -> LabelMatchError {
    let named: Vec<String> = missing.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    LabelMatchError::UnknownNames { missing: missing.len(), classes, examples: named.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::Label;
    use flipcast_images::dataset::InMemory;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn space(
        classes: &[&str],
        names: Option<&[&str]>,
        outputs: usize,
        labels: LabelRule,
    ) -> Result<Option<ClassSpace>, Box<dyn std::error::Error>> {
        let mut model = Model::random("cifar_resnet20", outputs, 1)?;
        if let Some(names) = names {
            model = model.with_class_names(owned(names))?;
        }
        Ok(class_space(
            &InMemory::default().with_classes(owned(classes)),
            None,
            &model,
            labels,
            DecisionRule::Published,
        )?)
    }

    fn right(space: &ClassSpace, output: usize, class: u32) -> Option<bool> {
        space.labels().is_correct(output, &Label::Class(class))
    }

    #[test]
    fn names_decide_and_not_their_rank() -> Result<(), Box<dyn std::error::Error>> {
        let found = space(&["Polar_Bear", "ant"], Some(&["ant", "bee", "polar bear"]), 3, LabelRule::Auto)?;
        let found = found.expect("labels are used");
        assert_eq!(right(&found, 2, 0), Some(true));
        assert_eq!(right(&found, 0, 1), Some(true));
        assert_eq!(right(&found, 1, 1), Some(false));
        Ok(())
    }

    #[test]
    fn names_the_model_does_not_have_are_refused() {
        let refused = space(&["ant", "cow"], Some(&["ant", "bee"]), 2, LabelRule::Auto);
        let text = refused.expect_err("`cow` is unknown").to_string();
        assert!(text.contains("1 of the dataset's 2 classes") && text.contains("`cow`"));
        let found = space(&["ant", "cow"], Some(&["ant", "bee"]), 2, LabelRule::Index);
        assert!(found.expect("by number").is_some());
    }

    #[test]
    fn without_names_the_counts_must_agree() {
        assert!(space(&["a", "b"], None, 2, LabelRule::Auto).is_ok());
        let text = space(&["a", "b"], None, 3, LabelRule::Auto).expect_err("2 of 3").to_string();
        assert!(text.contains("2 classes") && text.contains("has 3"));
        assert!(matches!(space(&["a", "b"], None, 3, LabelRule::None), Ok(None)));
    }

    #[test]
    fn number_folders_are_names_where_the_model_has_such_names() -> Result<(), Box<dyn std::error::Error>> {
        let names: &[&str] = &["01", "02", "03"];
        let found = space(&["", "01", "02"], Some(names), 3, LabelRule::Auto)?.expect("labels are used");
        assert_eq!((right(&found, 0, 1), right(&found, 1, 1)), (Some(true), Some(false)));
        assert_eq!(right(&found, 1, 2), Some(true));
        let by_number = space(&["", "01", "02"], Some(names), 3, LabelRule::Index)?.expect("labels are used");
        assert_eq!(right(&by_number, 1, 1), Some(true));
        // Names that say what the numbers say leave the space as it is, and records with it.
        let same = space(&["0", "1"], Some(&["0", "1"]), 2, LabelRule::Auto)?.expect("labels are used");
        assert_eq!(same.labels().name(), "outputs");
        Ok(())
    }

    #[test]
    fn numbers_are_outputs() -> Result<(), Box<dyn std::error::Error>> {
        let found = space(&["0", "1"], Some(&["x", "y", "z"]), 3, LabelRule::Auto)?;
        let found = found.expect("labels are used");
        assert_eq!(right(&found, 1, 1), Some(true));
        assert!(space(&["0", "1", "2"], None, 2, LabelRule::Auto).is_err());
        Ok(())
    }
}
