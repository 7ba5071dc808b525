use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use flipcast_ground::nearest_quoted;

use super::file::read_space;
use super::{LabelError, LabelFrom, LabelSpace};

/// The built-in class spaces but ImageNet-1k: name and data file.
const SPACES: &[(&str, &str)] = &[
    ("imagenet-r", include_str!("data/imagenet_r.json")),
    ("imagenet-a", include_str!("data/imagenet_a.json")),
    ("imagenet-d", include_str!("data/imagenet_d.json")),
    ("imagenet-9", include_str!("data/imagenet9.json")),
    ("imagenet-v2", include_str!("data/imagenet_v2.json")),
    ("imagenet-patch", include_str!("data/imagenet_patch.json")),
    ("imagenet-hard", include_str!("data/imagenet_hard.json")),
    ("objectnet", include_str!("data/objectnet.json")),
    ("ninco", include_str!("data/ninco.json")),
    ("16-class-imagenet", include_str!("data/sixteen_class.json")),
    ("imagenette", include_str!("data/imagenette.json")),
    ("tiny-imagenet-200", include_str!("data/tiny_imagenet_in_imagenet1k.json")),
];

/// Index, wnid and name of the 1000 classes, tab separated.
const IMAGENET: &str = include_str!("data/imagenet1k.tsv");
/// Classes of ImageNet-1k.
const IMAGENET_CLASSES: usize = 1000;
const IMAGENET_NAME: &str = "imagenet-1k";

struct ImageNet {
    rows: Vec<(&'static str, &'static str)>,
    by_wnid: HashMap<&'static str, u32>,
}

static IMAGENET_TABLE: LazyLock<ImageNet> = LazyLock::new(|| {
    let rows: Vec<_> = IMAGENET.lines().filter_map(|line| line.split_once('\t')?.1.split_once('\t')).collect();
    let by_wnid = rows.iter().zip(0..).map(|(row, i)| (row.0, i)).collect();
    ImageNet { rows, by_wnid }
});

/// The ImageNet-1k index of a WordNet id.
pub fn imagenet_index_of_wnid(wnid: &str) -> Option<u32> {
    IMAGENET_TABLE.by_wnid.get(wnid).copied()
}

/// The WordNet id of an ImageNet-1k index.
pub fn imagenet_wnid(index: usize) -> Option<&'static str> {
    IMAGENET_TABLE.rows.get(index).map(|row| row.0)
}

/// The display name of an ImageNet-1k index.
pub fn imagenet_name(index: usize) -> Option<&'static str> {
    IMAGENET_TABLE.rows.get(index).map(|row| row.1)
}

/// The names `builtin` knows.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(IMAGENET_NAME).chain(SPACES.iter().map(|(name, _)| *name))
}

/// The built-in class space called `name`.
pub fn builtin(name: &str) -> Result<Arc<LabelSpace>, LabelError> {
    if name == IMAGENET_NAME {
        let mut space = LabelSpace::index(IMAGENET_NAME, IMAGENET_CLASSES);
        space.label_from = LabelFrom::WnidFolder;
        return Ok(Arc::new(space));
    }
    let known = SPACES.iter().find(|(known, _)| *known == name);
    let (_, text) = known.ok_or_else(|| LabelError::UnknownSpace {
        name: name.into(),
        nearest: nearest_quoted(name, builtin_names()),
    })?;
    read_space(text, IMAGENET_CLASSES).map(Arc::new)
}
