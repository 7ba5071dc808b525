//! How the classes of a dataset relate to a model's outputs.

use super::Labels;
use crate::failure::Advised;
use anyhow::{Result, ensure};
use flipcast_images::dataset::Dataset;
use flipcast_images::labelspace::{
    ClassSpace, Decision, LabelSpace, Rule, SpaceClass, builtin, imagenet_index_of_wnid,
};
use flipcast_models::Model;
use std::collections::HashMap;
use std::sync::Arc;

/// Most class names an error lists.
const MAX_NAMED: usize = 5;
/// Classes of ImageNet-1k, whose WordNet ids are known.
const IMAGENET_CLASSES: usize = 1000;

/// When a prediction of `model` is right on `dataset`; `None` when labels are to be ignored.
pub(super) fn class_space(
    dataset: &dyn Dataset,
    published: Option<&str>,
    model: &Model,
    labels: Labels,
) -> Result<Option<ClassSpace>> {
    let outputs = model.num_classes();
    if labels == Labels::None {
        return Ok(None);
    }
    if let Some(name) = published {
        let space = builtin(name)?;
        ensure!(
            space.outputs() == outputs,
            "the classes of `{name}` are outputs of a network with {}, but the model has {outputs}",
            space.outputs()
        );
        let decision = space.upstream_decision();
        return Ok(Some(ClassSpace::new(space, decision)?));
    }
    let classes = dataset.classes();
    let numbered = classes.iter().all(|name| name.parse::<u32>().is_ok());
    let space = if classes.is_empty() || (numbered && classes.len() <= outputs) {
        LabelSpace::index("outputs", outputs)
    } else if labels == Labels::Auto && !numbered {
        by_name(classes, model)?
    } else if classes.len() == outputs {
        LabelSpace::index("outputs", outputs)
    } else {
        return Err(Advised {
            problem: format!(
                "the dataset has {} classes, but the model has {outputs}, so that numbers do not match",
                classes.len()
            ),
            hint: "match by name with `--labels auto`, or ignore the labels with `--labels none`".to_owned(),
        }
        .into());
    };
    Ok(Some(ClassSpace::new(Arc::new(space), Decision::Full)?))
}

fn by_name(classes: &[String], model: &Model) -> Result<LabelSpace> {
    let outputs = model.num_classes();
    if let Some(names) = model.class_names() {
        let known: HashMap<String, u32> = names.iter().map(|name| plain(name)).zip(0..).collect();
        let place = |class: &String| known.get(&plain(class)).copied();
        let missing: Vec<&String> = classes.iter().filter(|c| place(c).is_none()).collect();
        if missing.is_empty() {
            return named_space(classes, outputs, place);
        }
        // Folders of ImageNet are called by WordNet ids, its classes by words.
        if outputs != IMAGENET_CLASSES || !are_wnids(classes) {
            return Err(unknown_classes(&missing, classes.len()));
        }
    }
    if outputs == IMAGENET_CLASSES && are_wnids(classes) {
        return named_space(classes, outputs, |class| imagenet_index_of_wnid(class));
    }
    if classes.len() == outputs {
        return Ok(LabelSpace::index("outputs", outputs));
    }
    Err(other_count(classes.len(), outputs))
}

fn named_space(classes: &[String], outputs: usize, place: impl Fn(&String) -> Option<u32>) -> Result<LabelSpace> {
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
fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

fn other_count(found: usize, outputs: usize) -> anyhow::Error {
    Advised {
        problem: format!("the dataset has {found} classes, but the model has {outputs} and no names to match them by"),
        hint: "give the model's card the class names, or ignore the labels with `--labels none`".to_owned(),
    }
    .into()
}

fn unknown_classes(missing: &[&String], classes: usize) -> anyhow::Error {
    let named: Vec<String> = missing.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    Advised {
        problem: format!(
            "{} of the dataset's {classes} classes are not among the model's, such as {}",
            missing.len(),
            named.join(", ")
        ),
        hint: "rename the class folders; if only the names differ, match by number with `--labels index`; or ignore the labels with `--labels none`"
            .to_owned(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::Label;
    use flipcast_images::dataset::{DataError, Layout, Sample};

    /// A dataset of which only the classes matter.
    struct Classes(Vec<String>);

    impl Dataset for Classes {
        fn layout(&self) -> Layout {
            Layout::ClassFolders
        }
        fn len(&self) -> usize {
            0
        }
        fn classes(&self) -> &[String] {
            &self.0
        }
        fn id(&self, _: usize) -> String {
            unreachable!("there are no samples")
        }
        fn sample(&self, _: usize) -> Result<Sample, DataError> {
            unreachable!("there are no samples")
        }
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn space(classes: &[&str], names: Option<&[&str]>, outputs: usize, labels: Labels) -> Result<Option<ClassSpace>> {
        let mut model = Model::random("cifar_resnet20", outputs, 1)?;
        if let Some(names) = names {
            model = model.with_class_names(owned(names))?;
        }
        class_space(&Classes(owned(classes)), None, &model, labels)
    }

    fn right(space: &ClassSpace, output: usize, class: u32) -> Option<bool> {
        space.labels().is_correct(output, &Label::Class(class))
    }

    #[test]
    fn names_decide_and_not_their_rank() -> Result<()> {
        let found = space(&["Polar_Bear", "ant"], Some(&["ant", "bee", "polar bear"]), 3, Labels::Auto)?;
        let found = found.expect("labels are used");
        assert_eq!(right(&found, 2, 0), Some(true));
        assert_eq!(right(&found, 0, 1), Some(true));
        assert_eq!(right(&found, 1, 1), Some(false));
        Ok(())
    }

    #[test]
    fn names_the_model_does_not_have_are_refused() {
        let refused = space(&["ant", "cow"], Some(&["ant", "bee"]), 2, Labels::Auto);
        let text = refused.expect_err("`cow` is unknown").to_string();
        assert!(text.contains("1 of the dataset's 2 classes") && text.contains("`cow`"));
        let found = space(&["ant", "cow"], Some(&["ant", "bee"]), 2, Labels::Index);
        assert!(found.expect("by number").is_some());
    }

    #[test]
    fn without_names_the_counts_must_agree() {
        assert!(space(&["a", "b"], None, 2, Labels::Auto).is_ok());
        let text = space(&["a", "b"], None, 3, Labels::Auto).expect_err("2 of 3").to_string();
        assert!(text.contains("2 classes") && text.contains("has 3"));
        assert!(matches!(space(&["a", "b"], None, 3, Labels::None), Ok(None)));
    }

    #[test]
    fn numbers_are_outputs() -> Result<()> {
        let found = space(&["0", "1"], Some(&["x", "y", "z"]), 3, Labels::Auto)?;
        let found = found.expect("labels are used");
        assert_eq!(right(&found, 1, 1), Some(true));
        assert!(space(&["0", "1", "2"], None, 2, Labels::Auto).is_err());
        Ok(())
    }
}
