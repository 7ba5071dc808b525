use super::{Block, Section};
use crate::Study;
use crate::table::{Table, TableCell};

/// Confusions listed for a dataset.
const CONFUSIONS: usize = 20;

/// What is expected of every class: shares, precisions, confusions.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("by-class", "Class by class");
    if study.by_class.is_empty() {
        return section;
    }
    section.say(
        "Expected without labels, from outputs whose mean confidence was matched to the estimated accuracy. Take precisions as a ranking of classes rather \
         than as numbers: under hard shifts their intervals hold less often than they say.",
    );
    for (number, entry) in study.by_class.iter().enumerate() {
        let name = format!("{}, {}", entry.subject.name, entry.subject.model);
        let found = &entry.result.by_class;
        let classes = Table::of(
            &format!("by-class-{}", number + 1),
            &format!("{name}: shares of the classes and precision of their answers, in percent"),
            found.classes.iter(),
            &[
                (">class", &|class| TableCell::count(class.class)),
                (">share", &|class| TableCell::percent(Some(class.share), 1)),
                (">low", &|class| TableCell::percent(Some(class.share_low), 1)),
                (">high", &|class| TableCell::percent(Some(class.share_high), 1)),
                (">answers", &|class| TableCell::count(class.answered)),
                (">precision", &|class| TableCell::percent(class.precision.as_ref().map(|p| p.accuracy), 1)),
                (">low", &|class| TableCell::percent(class.precision.as_ref().map(|p| p.low), 1)),
                (">high", &|class| TableCell::percent(class.precision.as_ref().map(|p| p.high), 1)),
            ],
        );
        section.blocks.push(Block::Folded(format!("Classes of {name}"), classes));
        let confusions = Table::of(
            &format!("confusions-{}", number + 1),
            &format!("{name}: wrong answers expected most"),
            found.confusions.iter().take(CONFUSIONS),
            &[
                (">class", &|confusion| TableCell::count(confusion.class)),
                (">answered", &|confusion| TableCell::count(confusion.answered)),
                (">images", &|confusion| TableCell::number(Some(confusion.images), 1)),
            ],
        );
        section.blocks.push(Block::Folded(format!("Confusions expected of {name}"), confusions));
    }
    section
}
