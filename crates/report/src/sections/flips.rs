use super::{Block, Section};
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
    let mut table = Table::new(
        "flips",
        "Datasets: flips and accuracy in percent",
        &["dataset", "model", "method", "family", ">images", ">silhouette", ">flips", ">weighted flips", ">accuracy"],
    );
    for entry in &study.flips {
        let (subject, result) = (&entry.subject, &entry.result);
        table.rows.push(vec![
            TableCell::text(&subject.name),
            TableCell::text(&subject.model),
            TableCell::text(subject.method.as_deref().unwrap_or("")),
            TableCell::text(&subject.family),
            TableCell::count(result.images),
            TableCell::number(result.silhouette, 3),
            TableCell::percent(Some(result.flips), 1),
            TableCell::number(Some(result.weighted_flips), 2),
            TableCell::percent(result.accuracy, 1),
        ]);
    }
    if table.rows.len() > 12 {
        section.blocks.push(Block::Folded(format!("Table: {} datasets", table.rows.len()), table));
    } else {
        section.add(table);
    }
    section
}
