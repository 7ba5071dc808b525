use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::DataError;
use crate::Label;
use crate::labelspace::{FolderClass, LabelError, LabelFrom, LabelSpace};

/// Largest class number a folder name may state.
const MAX_CLASS: u32 = 100_000;

/// How class folders become labels.
#[derive(Clone, Debug, Default)]
pub enum ClassRule {
    /// Folders that are all numbers are their own labels; otherwise a folder's rank in byte order is, empty folders
    /// counted. The classes keep the folders' names, so that a model whose classes are called by numbers can still be
    /// matched by name; a number without a folder has an empty name.
    #[default]
    Auto,
    /// As the class space says.
    Space(Arc<LabelSpace>),
    /// The position in this list of folder names.
    Names(Vec<String>),
    /// No labels, whatever the folders are called.
    Unlabelled,
}

impl ClassRule {
    /// The names it gives the classes, where labels are plain numbers.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Names(names) => names.clone(),
            Self::Space(space) => space.class_names(),
            Self::Auto | Self::Unlabelled => Vec::new(),
        }
    }
}

/// Whether `classes`, as [`Dataset::classes`](super::Dataset::classes) gives them, are called by their own numbers: plain
/// digits, or empty where a number has no folder. They may still be names, where a model's classes are called so.
///
/// ```
/// let named = |names: &[&str]| flipcast_images::dataset::are_numbers(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
/// assert!(named(&["", "01", "02"]) && !named(&["1", "one"]));
/// ```
pub fn are_numbers(classes: &[String]) -> bool {
    classes.iter().all(|name| name.is_empty() || number_of(name).is_some())
}

/// The labels of a dataset's class folders.
pub(super) struct ClassTable {
    labels: HashMap<String, FolderClass>,
    names: Vec<String>,
}

impl ClassTable {
    /// The labels of `folders`, all that exist, empty ones included.
    pub fn build(path: &Path, folders: &BTreeSet<String>, rule: &ClassRule) -> Result<Self, DataError> {
        let (labels, names) = match rule {
            ClassRule::Unlabelled => {
                let labelled = FolderClass::Labelled(Label::Unknown);
                let labels = folders.iter().map(|f| (f.clone(), labelled.clone()));
                (labels.collect(), Vec::new())
            }
            ClassRule::Space(space) => {
                let label = |f: &String| Ok((f.clone(), space.label_of_folder(f)?));
                let labels: Result<HashMap<_, _>, LabelError> = folders.iter().map(label).collect();
                (labels.map_err(DataError::label(path))?, space.class_names())
            }
            ClassRule::Names(names) => {
                let position = |f: &String| names.iter().position(|n| n == f);
                let label = |f: &String| {
                    let id = position(f)
                        .ok_or_else(|| DataError::format(path, "a class folder", f, "one of the class names given"))?;
                    Ok((f.clone(), class(id as u32)))
                };
                let labels: Result<_, DataError> = folders.iter().map(label).collect();
                (labels?, names.clone())
            }
            ClassRule::Auto => automatic(path, folders)?,
        };
        Ok(Self { labels, names })
    }

    /// What the images of `folder` are labelled, `None` when they are not part of the dataset.
    pub fn label(&self, folder: &str) -> Option<Label> {
        match self.labels.get(folder) {
            Some(FolderClass::Labelled(label)) => Some(label.clone()),
            Some(FolderClass::Unused) | None => None,
        }
    }

    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// The number that plain digits spell.
fn number_of(name: &str) -> Option<u32> {
    name.parse().ok().filter(|_| name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn class(id: u32) -> FolderClass {
    FolderClass::Labelled(Label::Class(id))
}

type Labels = (HashMap<String, FolderClass>, Vec<String>);

fn automatic(path: &Path, folders: &BTreeSet<String>) -> Result<Labels, DataError> {
    let numbers: Option<Vec<u32>> = folders.iter().map(|folder| number_of(folder)).collect();
    let Some(numbers) = numbers.filter(|n| !n.is_empty()) else {
        let labels = folders.iter().cloned().zip((0..).map(class)).collect();
        return Ok((labels, folders.iter().cloned().collect()));
    };
    let most = numbers.iter().copied().max().unwrap_or(0);
    if most > MAX_CLASS {
        let expected = format!("numbers up to {MAX_CLASS}");
        return Err(DataError::format(path, "a class folder", most, expected));
    }
    let mut names = vec![String::new(); most as usize + 1];
    for (folder, &number) in folders.iter().zip(&numbers) {
        names[number as usize].clone_from(folder);
    }
    let labels = folders.iter().cloned().zip(numbers.into_iter().map(class));
    Ok((labels.collect(), names))
}

/// Checks a label read from a record against the class space in force.
pub(super) fn record_label(path: &Path, value: i64, rule: &ClassRule) -> Result<Label, DataError> {
    let classes = match rule {
        ClassRule::Unlabelled => return Ok(Label::Unknown),
        ClassRule::Auto => u32::MAX as usize,
        ClassRule::Names(names) => names.len(),
        ClassRule::Space(space) if space.label_from() == LabelFrom::None => {
            return Ok(Label::Unknown);
        }
        ClassRule::Space(space) if space.classes().is_empty() => space.outputs(),
        ClassRule::Space(space) => space.classes().len(),
    };
    // Hubs store -1 for the hidden labels of a test split.
    if value == -1 {
        return Ok(Label::Unknown);
    }
    match u32::try_from(value) {
        Ok(class) if (class as usize) < classes => Ok(Label::Class(class)),
        _ => Err(DataError::format(path, "a label", value, format!("-1 or a number below {classes}"))),
    }
}

/// The label of a record with any number of values: none is unknown, several are alternatives.
pub(super) fn record_labels(path: &Path, values: &[i64], rule: &ClassRule) -> Result<Label, DataError> {
    match values {
        [] => Ok(Label::Unknown),
        [one] => record_label(path, *one, rule),
        many => {
            let labels = many.iter().map(|&value| record_label(path, value, rule));
            let labels: Result<Vec<Label>, DataError> = labels.collect();
            Ok(Label::AnyOf(labels?.iter().filter_map(Label::class).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(folders: &[&str], rule: &ClassRule) -> ClassTable {
        let folders = folders.iter().map(|f| f.to_string()).collect();
        ClassTable::build(Path::new("x"), &folders, rule).unwrap()
    }

    #[test]
    fn numbers_are_labels_not_ranks() {
        let folders: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
        let names: Vec<&str> = folders.iter().map(String::as_str).collect();
        let table = table(&names, &ClassRule::Auto);
        for i in [0, 2, 10, 999] {
            assert_eq!(table.label(&i.to_string()), Some(Label::Class(i)));
        }
    }

    #[test]
    fn number_folders_keep_their_spelling() {
        let table = table(&["01", "03"], &ClassRule::Auto);
        assert_eq!(table.label("03"), Some(Label::Class(3)));
        assert_eq!(table.into_names(), ["", "01", "", "03"]);
    }

    #[test]
    fn names_are_ranked_in_byte_order() {
        let table = table(&["dog", "Cat", "ant"], &ClassRule::Auto);
        assert_eq!(table.label("Cat"), Some(Label::Class(0)));
        assert_eq!(table.label("dog"), Some(Label::Class(2)));
        assert_eq!(table.into_names(), ["Cat", "ant", "dog"]);
    }

    #[test]
    fn a_given_list_must_cover_the_folders() {
        let folders = ["b", "z"].map(String::from).into();
        let rule = ClassRule::Names(vec!["a".into(), "b".into()]);
        let refused = ClassTable::build(Path::new("x"), &folders, &rule);
        assert!(matches!(refused, Err(DataError::BadFormat { .. })));
    }

    #[test]
    fn minus_one_means_unknown() {
        let path = Path::new("x");
        assert_eq!(record_label(path, -1, &ClassRule::Auto).unwrap(), Label::Unknown);
        assert_eq!(record_label(path, 7, &ClassRule::Auto).unwrap(), Label::Class(7));
        let rule = ClassRule::Names(vec!["a".into()]);
        assert!(record_label(path, 1, &rule).is_err());
    }
}
