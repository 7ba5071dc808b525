use std::sync::Arc;

use super::{DataError, Dataset, Ignored, Layout, Sample};
use crate::Label;

/// Another dataset whose labels are classes of something else, such as a network's outputs.
pub struct Relabelled {
    dataset: Arc<dyn Dataset>,
    labels: Vec<Label>,
    classes: Vec<String>,
}

impl Relabelled {
    /// `dataset` with `labels[class]` in place of its label `class`, and unlabelled beyond the list. `classes` are the names of the new classes, if they have some.
    pub fn new(dataset: Arc<dyn Dataset>, labels: Vec<Label>, classes: Vec<String>) -> Self {
        Self { dataset, labels, classes }
    }

    fn relabel(&self, label: &Label) -> Label {
        let of_class = |class: u32| self.labels.get(class as usize).cloned().unwrap_or_default();
        match label {
            Label::Unknown => Label::Unknown,
            Label::Class(class) => of_class(*class),
            Label::AnyOf(classes) => {
                let mut all = Vec::new();
                for label in classes.iter().map(|&class| of_class(class)) {
                    match label {
                        Label::Unknown => return Label::Unknown,
                        Label::Class(class) => all.push(class),
                        Label::AnyOf(several) => all.extend(several),
                    }
                }
                all.sort_unstable();
                all.dedup();
                Label::AnyOf(all)
            }
        }
    }
}

impl Dataset for Relabelled {
    fn layout(&self) -> Layout {
        self.dataset.layout()
    }

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        self.dataset.id(index)
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.relabel(&self.dataset.label(index)?))
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let sample = self.dataset.sample(index)?;
        Ok(Sample { label: self.relabel(&sample.label), ..sample })
    }

    fn stored_index(&self, index: usize) -> usize {
        self.dataset.stored_index(index)
    }

    fn ignored(&self) -> &Ignored {
        self.dataset.ignored()
    }

    fn reads_at_once(&self) -> usize {
        self.dataset.reads_at_once()
    }

    fn is_stream(&self) -> bool {
        self.dataset.is_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;
    use crate::dataset::InMemory;

    #[test]
    fn labels_and_samples_have_the_new_classes() {
        let image = || Image::new(1, 1, vec![7; 3]).expect("one pixel");
        let labels = [Label::Class(0), Label::Class(2), Label::AnyOf(vec![1, 2]), Label::Unknown, Label::Class(9)];
        let data = InMemory::new(labels.map(|label| (image(), label)));
        let new = vec![Label::Class(5), Label::Class(6), Label::AnyOf(vec![6, 4])];
        let data = Relabelled::new(Arc::new(data), new, vec!["x".to_owned()]);
        let found: Vec<Label> = (0..5).map(|index| data.label(index).expect("a label")).collect();
        let several = |classes: &[u32]| Label::AnyOf(classes.to_vec());
        assert_eq!(found, [Label::Class(5), several(&[6, 4]), several(&[4, 6]), Label::Unknown, Label::Unknown]);
        assert_eq!(data.sample(0).expect("a sample").label, Label::Class(5));
        assert_eq!(data.classes(), ["x"]);
    }
}
