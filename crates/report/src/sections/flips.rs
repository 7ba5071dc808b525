use super::Section;
use crate::Study;
use crate::table::{Table, TableCell};

/// Flips, clusters and accuracy.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("flips", "Flips, clusters and accuracy");
    if study.flips.is_empty() {
        return section;
    }
    section.say(
        "A prediction flips when adapting changes it. Where the embeddings of the unadapted model form clear clusters, few predictions flip and \
         accuracy is high: that is why flips can tell accuracy. r is Pearson's correlation, \u{3c1} Spearman's.",
    );
    section.show(study, "flips");
    let table = Table::of(
        "flips",
        "Datasets: flips and accuracy in percent",
        study.flips.iter().map(|entry| (&entry.subject, &entry.result)),
        &[
            ("dataset", &|(subject, _)| TableCell::text(&subject.name)),
            ("model", &|(subject, _)| TableCell::text(&subject.model)),
            ("method", &|(subject, _)| TableCell::text(subject.method_name())),
            ("family", &|(subject, _)| TableCell::text(&subject.family)),
            (">images", &|(_, point)| TableCell::count(point.images)),
            (">silhouette", &|(_, point)| TableCell::number(point.silhouette, 3)),
            (">flips", &|(_, point)| TableCell::percent(Some(point.flips), 1)),
            (">weighted flips", &|(_, point)| TableCell::number(Some(point.weighted_flips), 2)),
            (">accuracy", &|(_, point)| TableCell::percent(point.accuracy, 1)),
        ],
    );
    section.add_or_fold(table, "datasets");
    section
}
