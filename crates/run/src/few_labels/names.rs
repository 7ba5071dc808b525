//! What classes are called, and which answers a name makes right.

use crate::Scope;
use crate::open::plain_name;
use flipcast_images::Label;
use flipcast_images::labelspace::Decision;
use flipcast_models::Model;
use std::collections::HashMap;

impl Scope {
    /// What the alternatives of a decision are called: by the model's names, the dataset's, or the numbers of outputs.
    pub fn alternative_names(&self, model: &Model) -> Vec<String> {
        let output_name = |output: usize| match model.class_names().and_then(|names| names.get(output)) {
            Some(name) => name.clone(),
            None => output.to_string(),
        };
        match self.class_space() {
            Some(space) if space.decision().is_by_class() => space.labels().class_names(),
            Some(space) if space.decision() == Decision::Mask => {
                space.active_outputs().iter().map(|&output| output_name(output)).collect()
            }
            _ => (0..self.num_classes()).map(output_name).collect(),
        }
    }
}

/// The class that a label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    /// An output of the model.
    Output(usize),
    /// A class of the dataset.
    Class(u32),
}

impl Truth {
    /// Whether the row over the alternatives of `scope` whose largest entry is `predicted` is right.
    pub fn is_right(self, scope: &Scope, row: &[f32], predicted: usize) -> bool {
        let class = match (self, scope.class_space()) {
            (Self::Class(class), _) => Some(class),
            (Self::Output(output), Some(space)) => space.labels().class_of(output),
            (Self::Output(_), None) => None,
        };
        let by_class = class.and_then(|class| scope.is_correct(row, &Label::Class(class)));
        let decides_outputs = scope.class_space().is_none_or(|space| space.decision() == Decision::Full);
        by_class.unwrap_or(decides_outputs && self == Self::Output(predicted))
    }
}

/// Classes by every name they have.
pub(super) struct ClassNames {
    by_name: HashMap<String, Truth>,
    outputs: usize,
}

impl ClassNames {
    /// Of the outputs of `model` and of the classes of `scope`; where a name is both, it is the model's.
    pub fn new(model: &Model, scope: &Scope) -> Self {
        let mut by_name = HashMap::new();
        let classes = scope.class_space().map_or(&[][..], |space| space.labels().classes());
        for (class, number) in classes.iter().zip(0..) {
            for name in class.folders.iter().chain(&class.wnid).chain([&class.name]).filter(|name| !name.is_empty()) {
                by_name.insert(plain_name(name), Truth::Class(number));
            }
        }
        for (output, name) in model.class_names().unwrap_or_default().iter().enumerate() {
            by_name.insert(plain_name(name), Truth::Output(output));
        }
        Self { by_name, outputs: model.num_classes() }
    }

    /// The class that `text` names; a number that is no name is that of an output.
    pub fn find(&self, text: &str) -> Option<Truth> {
        let by_name = self.by_name.get(&plain_name(text)).copied();
        let number = || text.parse().ok().filter(|&output| output < self.outputs).map(Truth::Output);
        by_name.or_else(number)
    }

    /// Every name, in order.
    pub fn all(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::labelspace::{ClassSpace, LabelSpace, Rule, SpaceClass};
    use std::sync::Arc;

    fn model() -> Model {
        let names = ["ant", "Polar_Bear", "cow"].map(str::to_owned).to_vec();
        Model::random("cifar_resnet8_w4", 3, 1).unwrap().with_class_names(names).unwrap()
    }

    /// Two classes of a dataset: `insect` is output 0, `beast` are outputs 1 and 2.
    fn scope(decision: Decision) -> Scope {
        let class = |name: &str, outputs: &[u32]| SpaceClass {
            name: name.to_owned(),
            wnid: None,
            folders: Vec::new(),
            outputs: outputs.to_vec(),
        };
        let classes = vec![class("insect", &[0]), class("beast", &[1, 2])];
        let labels = LabelSpace::new("test", Rule::Map, 3, classes).unwrap();
        Scope::new(3, Some(ClassSpace::new(Arc::new(labels), decision).unwrap()))
    }

    #[test]
    fn classes_are_found_by_name_and_by_number() {
        let names = ClassNames::new(&model(), &scope(Decision::Full));
        assert_eq!(names.find("polar bear"), Some(Truth::Output(1)));
        assert_eq!(names.find("2"), Some(Truth::Output(2)));
        assert_eq!(names.find("Beast"), Some(Truth::Class(1)));
        assert_eq!((names.find("3"), names.find("cat")), (None, None));
    }

    #[test]
    fn an_answer_is_right_as_the_dataset_counts_it() {
        let full = scope(Decision::Full);
        let row = [0.0, 0.0, 5.0];
        assert!(Truth::Class(1).is_right(&full, &row, 2));
        // The dataset does not tell outputs 1 and 2 apart.
        assert!(Truth::Output(1).is_right(&full, &row, 2));
        assert!(!Truth::Output(0).is_right(&full, &row, 2));
        let without = Scope::new(3, None);
        assert!(Truth::Output(2).is_right(&without, &row, 2));
        assert!(!Truth::Output(1).is_right(&without, &row, 2));
        let means = scope(Decision::MeanProbability);
        assert!(Truth::Output(2).is_right(&means, &[0.0, 5.0], 1));
        assert_eq!(means.alternative_names(&model()), ["insect", "beast"]);
        assert_eq!(full.alternative_names(&model())[1], "Polar_Bear");
    }
}
