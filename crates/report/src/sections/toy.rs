use super::Section;
use crate::Study;

/// Clusters in the plane.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("toy", "The same in two dimensions");
    if study.toys.is_empty() {
        return section;
    }
    section.say("Clusters of points under entropy minimisation, in settings that differ in one thing; stars are the means of what was one cluster at the start.");
    section.show(study, "toy");
    section
}
