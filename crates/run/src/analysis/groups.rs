use crate::{RunError, Scope};
use flipcast_images::Label;
use flipcast_images::labelspace::{LabelSpace, builtin, imagenet_name};
use flipcast_models::Model;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The class space behind [`Restriction::SixteenClass`].
const SIXTEEN: &str = "16-class-imagenet";
/// Outputs of a network for ImageNet.
const IMAGENET_CLASSES: usize = 1000;

/// Which classes take part in an analysis of embeddings, and which count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restriction {
    /// All, each by itself.
    #[default]
    None,
    /// The 207 classes of ImageNet that make up the 16 of Geirhos et al., 2018, as in the paper.
    SixteenClass,
}

/// Labels as numbers of groups.
pub(super) struct Groups {
    sixteen: Option<Arc<LabelSpace>>,
}

impl Groups {
    /// As `restriction` says, for labels understood by `scope`.
    pub(super) fn new(restriction: Restriction, scope: &Scope) -> Result<Self, RunError> {
        if restriction == Restriction::None {
            return Ok(Self { sixteen: None });
        }
        if scope.num_classes() != IMAGENET_CLASSES {
            return Err(RunError::Setting {
                setting: "number of classes",
                found: scope.num_classes(),
                expected: "1000 where classes are restricted to the 16 of ImageNet",
            });
        }
        Ok(Self { sixteen: Some(builtin(SIXTEEN)?) })
    }

    /// The group of an image with this label; `None` where the label is unknown or outside all groups.
    pub(super) fn of(&self, scope: &Scope, label: &Label) -> Option<usize> {
        let class = scope.alternative(label)?;
        match &self.sixteen {
            None => Some(class),
            Some(space) => space.class_of(class).map(|group| group as usize),
        }
    }

    /// Whether images without a group take part.
    pub(super) fn takes(&self, group: Option<usize>) -> bool {
        self.sixteen.is_none() || group.is_some()
    }

    /// Number of groups there can be.
    pub(super) fn count(&self, scope: &Scope) -> usize {
        match &self.sixteen {
            None => scope.num_classes(),
            Some(space) => space.classes().len(),
        }
    }

    /// What a reader calls a group.
    pub(super) fn name(&self, group: usize, scope: &Scope, model: &Model) -> String {
        let numbered = || format!("class {group}");
        if let Some(space) = &self.sixteen {
            let class = space.classes().get(group);
            return class.map_or_else(numbered, |class| class.name.clone());
        }
        if scope.num_classes() != model.num_classes() {
            return numbered();
        }
        match model.class_names() {
            Some(names) => names.get(group).cloned().unwrap_or_else(numbered),
            None if model.num_classes() == IMAGENET_CLASSES => {
                imagenet_name(group).map_or_else(numbered, str::to_owned)
            }
            None => numbered(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::labelspace::{ClassSpace, Decision};

    fn scope(classes: usize) -> Scope {
        let labels = Arc::new(LabelSpace::index("outputs", classes));
        let space = ClassSpace::new(labels, Decision::Full).unwrap();
        Scope::new(classes, Some(space))
    }

    #[test]
    fn sixteen_groups_hold_207_classes_of_imagenet() {
        let scope = scope(1000);
        let groups = Groups::new(Restriction::SixteenClass, &scope).unwrap();
        assert_eq!(groups.count(&scope), 16);
        let found: Vec<usize> = (0..1000).filter_map(|class| groups.of(&scope, &Label::Class(class))).collect();
        assert_eq!(found.len(), 207);
        // The first polar bear and the last dog.
        let of = |class| groups.of(&scope, &Label::Class(class));
        assert_eq!(of(294), of(297));
        assert_ne!(of(294), of(268));
        assert_eq!(of(0), None);
        assert!(!groups.takes(None));
    }

    #[test]
    fn other_networks_have_no_sixteen_classes() {
        assert!(Groups::new(Restriction::SixteenClass, &scope(100)).is_err());
        let groups = Groups::new(Restriction::None, &scope(100)).unwrap();
        assert_eq!(groups.of(&scope(100), &Label::Class(7)), Some(7));
        assert!(groups.takes(None));
    }
}
