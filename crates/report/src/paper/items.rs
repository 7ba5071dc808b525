use super::measure::Measure;
use crate::figures::FIGURES;
use crate::{ReportError, Study};
use flipcast_ground::nearest_quoted;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The items of a paper and the records that answer them.
///
/// The text is TOML. Record files are given relative to it; one that is not there belongs to a run that has not been made, and the page
/// says so.
///
/// ```toml
/// title = "A paper, item by item"
/// about = ["What was run, and on what."]
///
/// [[items]]
/// id = "table-1"
/// title = "Table 1"
/// asks = "How far off are the estimates?"
/// records = ["resnet50/records.jsonl"]
/// figures = ["errors"]
/// verdict = "As in the paper."
/// commands = ["flipcast study run table1 --out resnet50"]
///
/// [[items.numbers]]
/// what = "WF on ImageNet-C, mean error in points"
/// paper = 4.79
/// ours = { measure = "error", network = "resnet50", estimator = "wf_batch", rows = ["imagenet-c"] }
/// says = "the same"
/// ```
#[derive(Debug)]
pub struct Paper {
    pub(crate) title: String,
    pub(crate) about: Vec<String>,
    pub(crate) items: Vec<LoadedItem>,
}

/// An item with the records it rests on.
#[derive(Debug)]
pub(crate) struct LoadedItem {
    pub item: Item,
    pub study: Study,
    /// Record files that are not there.
    pub absent: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperText {
    title: String,
    /// Paragraphs of plain text.
    #[serde(default)]
    about: Vec<String>,
    items: Vec<Item>,
}

/// A table, a figure or an appendix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Item {
    /// Its anchor.
    pub id: String,
    pub title: String,
    /// The question it answers.
    pub asks: String,
    /// Record files.
    #[serde(default)]
    pub records: Vec<PathBuf>,
    #[serde(default)]
    pub numbers: Vec<Number>,
    /// Figures of these records, by name.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Tables of these records, by name.
    #[serde(default)]
    pub tables: Vec<String>,
    /// What came of it, in a sentence or two.
    pub verdict: String,
    /// What was not run, and why.
    pub open: Option<String>,
    /// How the records are made.
    #[serde(default)]
    pub commands: Vec<String>,
}

/// A number of the paper beside one's own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Number {
    /// What it is, with its unit.
    pub what: String,
    /// The paper's, where it gives one.
    pub paper: Option<f64>,
    /// How one's own is found in the records; absent where nothing was run.
    pub ours: Option<Measure>,
    /// Whether they agree, or why not.
    #[serde(default)]
    pub says: String,
}

impl Paper {
    /// Reads the items and every record file they name.
    pub fn load(path: &Path) -> Result<Self, ReportError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ReportError::Items { path: path.to_owned(), source })?;
        let wrong = |problem: String| ReportError::ItemsText { path: path.to_owned(), problem };
        let PaperText { title, about, items } =
            toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut loaded = Vec::new();
        for item in items {
            for name in &item.figures {
                if !FIGURES.iter().any(|figure| figure.name == name) {
                    let nearest = nearest_quoted(name, FIGURES.iter().map(|figure| figure.name));
                    let id = &item.id;
                    return Err(wrong(format!("`{id}` asks for the figure `{name}`, the nearest are {nearest}")));
                }
            }
            let (there, absent): (Vec<PathBuf>, Vec<PathBuf>) =
                item.records.iter().cloned().partition(|file| folder.join(file).exists());
            let files: Vec<PathBuf> = there.iter().map(|file| folder.join(file)).collect();
            let absent = absent.iter().map(|file| file.display().to_string()).collect();
            loaded.push(LoadedItem { study: Study::load(&files)?, item, absent });
        }
        Ok(Self { title, about, items: loaded })
    }

    /// How many records were read; one that several items rest on counts several times.
    pub fn records(&self) -> usize {
        self.items.iter().map(|item| item.study.len()).sum()
    }
}
