use super::Section;
use crate::Study;
use crate::table::{Table, TableCell};
use flipcast_estimate::Estimate;

/// What a few labels say, beside the estimates that need none.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("few-labels", "A few labels");
    if study.few_labels.is_empty() {
        return section;
    }
    section.say(
        "A random few of the images were labelled. With the model's guesses for all others they give an accuracy whose interval holds whatever the \
         shift; effective labels are as many random labels as would alone be as certain.",
    );
    let accuracy = |estimate: &Estimate| TableCell::percent(Some(estimate.accuracy), 1);
    let interval =
        |estimate: &Estimate| TableCell::text(&format!("{:.1} to {:.1}", 100.0 * estimate.low, 100.0 * estimate.high));
    section.add(Table::of(
        "few-labels",
        "Accuracy from a few labels, in percent",
        study.few_labels.iter().map(|entry| (&entry.subject, &entry.result)),
        &[
            ("dataset", &|(subject, _)| TableCell::text(&subject.name)),
            ("model", &|(subject, _)| TableCell::text(&subject.model)),
            (">images", &|(_, found)| TableCell::count(found.images)),
            (">labels", &|(_, found)| TableCell::count(found.labels)),
            (">right", &|(_, found)| TableCell::count(found.right)),
            (">true", &|(_, found)| TableCell::percent(found.accuracy, 1)),
            (">with labels", &|(_, found)| accuracy(&found.powered.estimate)),
            (">interval", &|(_, found)| interval(&found.powered.estimate)),
            (">labels alone", &|(_, found)| accuracy(&found.powered.labels_alone)),
            (">interval", &|(_, found)| interval(&found.powered.labels_alone)),
            (">effective labels", &|(_, found)| TableCell::number(Some(found.powered.effective_labels), 0)),
        ],
    ));
    section
}
