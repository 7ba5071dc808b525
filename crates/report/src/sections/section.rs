use super::{
    adaptations, advice, by_class, calibration, errors, estimates, few_labels, flags, flips, map, omission, phases,
    protocols, provenance, refits, toy, variants,
};
use crate::Study;
use crate::figures::{FIGURES, Shown};
use crate::html::prose;
use crate::table::Table;

/// Most rows of a table that is not folded.
pub(super) const LONG: usize = 12;

/// A part of a section.
pub(crate) enum Block {
    /// Markup that is already safe.
    Html(String),
    /// A figure, and the name it can be asked for by.
    Figure(&'static str, Shown),
    /// A table.
    Table(Table),
    /// A table that is there for those who look for it.
    Folded(String, Table),
}

/// A part of the page.
pub(crate) struct Section {
    /// Its anchor.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What it holds; a section without anything is left out.
    pub blocks: Vec<Block>,
}

impl Section {
    pub fn new(id: &str, title: &str) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), blocks: Vec::new() }
    }

    /// A paragraph of plain text.
    pub fn say(&mut self, text: &str) {
        self.blocks.push(Block::Html(format!("<p>{}</p>", prose(text))));
    }

    /// Everything the figure called `name` shows.
    pub fn show(&mut self, study: &Study, name: &str) {
        for info in FIGURES.iter().filter(|info| info.name == name) {
            let shown = (info.build)(study).into_iter();
            self.blocks.extend(shown.map(|shown| Block::Figure(info.name, shown)));
        }
    }

    /// A table of so many of `what`; a long one is folded.
    pub fn add_or_fold(&mut self, table: Table, what: &str) {
        match table.rows.len() {
            rows if rows > LONG => self.blocks.push(Block::Folded(format!("Table: {rows} {what}"), table)),
            _ => self.add(table),
        }
    }

    /// A table, unless it is empty.
    pub fn add(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }
}

/// The sections that have something to show, in the order of the page.
pub(crate) fn all_sections(study: &Study) -> Vec<Section> {
    let build: [fn(&Study) -> Section; 17] = [
        estimates::build,
        few_labels::build,
        by_class::build,
        errors::build,
        variants::build,
        calibration::build,
        refits::build,
        advice::build,
        adaptations::build,
        phases::build,
        omission::build,
        flips::build,
        map::build,
        toy::build,
        flags::build,
        protocols::build,
        provenance::build,
    ];
    let sections = build.into_iter().map(|build| build(study));
    sections.filter(|section| !section.blocks.is_empty()).collect()
}

/// What the records do not hold, and the commands that would write it.
pub(crate) fn missing(study: &Study) -> Option<String> {
    let absent = [
        (study.estimates.is_empty(), "estimates beside the truth", "flipcast study run"),
        (study.calibrations.is_empty(), "calibration curves", "flipcast study run"),
        (study.adaptations.is_empty(), "models that adapted", "flipcast adapt"),
        (study.phases.is_empty(), "adaptation curves and their phases", "flipcast analyse phases"),
        (study.omissions.is_empty(), "adapting without some images", "flipcast analyse omission"),
        (study.flips.is_empty(), "flips against clusters", "flipcast analyse flips"),
        (study.maps.is_empty(), "the map of embeddings", "flipcast analyse map"),
        (study.toys.is_empty(), "the toy", "flipcast analyse toy"),
    ];
    let absent: Vec<String> = absent
        .into_iter()
        .filter(|(is_absent, _, _)| *is_absent)
        .map(|(_, what, command)| format!("{what} (<code>{command}</code>)"))
        .collect();
    (!absent.is_empty()).then(|| format!("These records hold nothing about: {}.", absent.join(", ")))
}
