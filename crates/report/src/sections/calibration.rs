use super::Section;
use crate::Study;
use crate::stats::mean;
use crate::study::{estimator_label, estimator_order};
use crate::table::{Table, TableCell};

/// Curves from score to accuracy.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("calibration", "What was learned from labelled images");
    if study.calibrations.is_empty() {
        return section;
    }
    section.say(
        "Each estimator's score on labelled images under corruptions made for the purpose, and the curve that turns it into an accuracy. \
         The errors are those on corruptions left out of the fit, all severities together.",
    );
    section.show(study, "calibration");
    for (number, entry) in study.calibrations.iter().enumerate() {
        let mut fits: Vec<_> = entry.result.source.by_score.iter().collect();
        fits.sort_by_key(|(name, _)| estimator_order(name));
        let mut table = Table::new(
            &format!("calibration-{}", number + 1),
            &format!("{}, {}: errors on corruptions left out, in points", entry.subject.model, entry.subject.name),
            &["score", ">cells", ">mean error", ">worst", ">bias"],
        );
        for (name, fit) in fits {
            let errors = &fit.errors.errors;
            let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
            let worst = sizes.iter().copied().reduce(f64::max);
            table.rows.push(vec![
                TableCell::text(&estimator_label(name)),
                TableCell::count(errors.len()),
                TableCell::percent(mean(&sizes), 2),
                TableCell::percent(worst, 1),
                TableCell::percent(mean(errors), 2),
            ]);
        }
        table.mark_least(2);
        table.mark_least(3);
        section.add(table);
    }
    section
}
