use super::Section;
use crate::Study;

/// Embeddings in the plane.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("map", "Embeddings while the model adapts");
    if study.maps.is_empty() {
        return section;
    }
    section.say(
        "Every point is an image, laid out by t-SNE so that images with similar embeddings lie close together; stars are class means. The \
         layout is carried from frame to frame, so that points can be followed; distances between far groups mean nothing.",
    );
    section.show(study, "map");
    section
}
