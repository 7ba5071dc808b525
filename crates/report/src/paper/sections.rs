use super::Paper;
use super::items::{LoadedItem, Number};
use super::measure::Found;
use crate::chart::{AxisFormat, Figure, Panel};
use crate::figures::{DotRow, RowDots, Shown};
use crate::html::{escape, prose};
use crate::sections::{Block, Section, TableFormat, all_sections, write_tables};
use crate::table::{Table, TableCell};
use crate::{ReportError, Study};
use flipcast_ground::grouped;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All tables of a paper's page, or the one called `only`: `items` is the overview.
pub fn render_paper_tables(paper: &Paper, format: TableFormat, only: Option<&str>) -> Result<String, ReportError> {
    write_tables(paper.sections(), format, only)
}

impl Paper {
    /// An overview, and a section for every item.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let mut overview = Section::new("items", "Item by item");
        overview.add(self.overview());
        std::iter::once(overview).chain(self.items.iter().map(LoadedItem::section)).collect()
    }

    fn overview(&self) -> Table {
        Table::of(
            "items",
            "Every item of the paper, and what came of it here",
            &self.items,
            &[
                ("item", &|item| TableCell::text(&item.item.title)),
                ("run", &|item| TableCell::text(item.state())),
                ("verdict", &|item| TableCell::text(&item.item.verdict)),
                ("not run, and why", &|item| TableCell::text(item.item.open.as_deref().unwrap_or(""))),
            ],
        )
    }
}

impl LoadedItem {
    fn found(&self) -> Vec<(&Number, Option<Found>)> {
        let find = |number: &Number| number.ours.as_ref()?.find(&self.study);
        self.item.numbers.iter().map(|number| (number, find(number))).collect()
    }

    /// Whether its numbers are there, or its records where it has no numbers.
    fn state(&self) -> &'static str {
        let found = self.found();
        let there = found.iter().filter(|(_, found)| found.is_some()).count();
        let is_whole = there == found.len() && self.item.open.is_none() && self.absent.is_empty();
        match there > 0 || (found.is_empty() && !self.study.is_empty()) {
            true if is_whole => "yes",
            true => "partly",
            false => "no",
        }
    }

    fn section(&self) -> Section {
        let item = &self.item;
        let mut section = Section::new(&item.id, &item.title);
        section.say(&item.asks);
        let found = self.found();
        if self.state() == "no" {
            section.blocks.push(Block::Html("<p class=\"warning\">Not run.</p>".to_owned()));
        }
        section.blocks.push(Block::Html(format!("<p class=\"lead\">{}</p>", prose(&item.verdict))));
        section.add(self.numbers(&found));
        section.blocks.extend(beside(&found).map(|shown| Block::Figure("paper", shown)));
        for figure in &item.figures {
            section.show(&self.study, figure);
        }
        let tables = all_sections(&self.study).into_iter().flat_map(|section| section.blocks);
        for block in tables {
            if let Block::Table(table) | Block::Folded(_, table) = block
                && item.tables.contains(&table.name)
            {
                section.blocks.push(Block::Folded(table.caption.clone(), table));
            }
        }
        if let Some(open) = &item.open {
            section.say(&format!("Not run: {open}"));
        }
        if !self.absent.is_empty() {
            let files: Vec<String> = self.absent.iter().map(|file| format!("`{file}`")).collect();
            section.say(&format!("Records that are not there yet: {}.", files.join(", ")));
        }
        section.say(&provenance(&self.study));
        if !item.commands.is_empty() {
            let commands: Vec<String> = item.commands.iter().map(|command| escape(command)).collect();
            section.blocks.push(Block::Html(format!("<pre>{}</pre>", commands.join("\n"))));
        }
        section
    }

    fn numbers(&self, found: &[(&Number, Option<Found>)]) -> Table {
        let mut table = Table::of(
            &self.item.id,
            &format!("{}: the paper's numbers beside ours", self.item.title),
            found,
            &[
                ("what", &|(number, _)| TableCell::text(&number.what)),
                (">paper", &|(number, _)| TableCell::number(number.paper, 2)),
                (">ours", &|(_, found)| TableCell::number(found.as_ref().map(|found| found.value), 2)),
                ("over", &|(_, found)| TableCell::text(found.as_ref().map_or("not run", |found| &found.over))),
            ],
        );
        if found.iter().any(|(number, _)| !number.says.is_empty()) {
            table.columns.push("beside the paper".to_owned());
            for (row, (number, _)) in table.rows.iter_mut().zip(found) {
                row.push(TableCell::text(&number.says));
            }
        }
        table
    }
}

/// The numbers as charts, one for every unit that some of the paper's have.
fn beside(found: &[(&Number, Option<Found>)]) -> Option<Shown> {
    let mut units: BTreeMap<&str, Vec<DotRow>> = BTreeMap::new();
    for (number, found) in found {
        if let (Some(measure), Some(found)) = (&number.ours, found) {
            let row = DotRow { name: number.what.clone(), values: vec![number.paper, Some(found.value)] };
            units.entry(measure.unit()).or_default().push(row);
        }
    }
    units.retain(|_, rows| rows.iter().any(|row| row.values[0].is_some()));
    let panel = |(unit, rows): (&str, Vec<DotRow>)| {
        let dots = RowDots {
            title: String::new(),
            measure: unit.to_owned(),
            format: AxisFormat::Plain,
            series: vec!["paper".to_owned(), "ours".to_owned()],
            rows,
        };
        dots.panel(|value| format!("{value:.2}"))
    };
    let panels: Vec<Panel> = units.into_iter().filter_map(panel).collect();
    let label = "The paper's numbers and ours".to_owned();
    (!panels.is_empty()).then(|| Shown::still(String::new(), Figure { label, columns: panels.len().min(2), panels }))
}

/// Where an item's numbers come from, in a sentence.
fn provenance(study: &Study) -> String {
    if study.records.is_empty() {
        return "No records.".to_owned();
    }
    let field = |name: &str| -> Vec<String> {
        let values = study.records.iter().filter_map(|record| record.protocol.get(name));
        let texts = values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        texts.collect::<BTreeSet<String>>().into_iter().collect()
    };
    let networks: BTreeSet<&str> = study
        .records
        .iter()
        .filter_map(|record| record.protocol.get("model")?.get("name").and_then(Value::as_str))
        .collect();
    let mut text = format!("From {} records", grouped(study.len()));
    if !networks.is_empty() {
        text += &format!(" of {}", networks.into_iter().collect::<Vec<_>>().join(", "));
    }
    let seeds = field("seed");
    if !seeds.is_empty() {
        text += &format!("; seeds {}", seeds.join(", "));
    }
    let arithmetic = field("arithmetic");
    if !arithmetic.is_empty() {
        text += &format!("; arithmetic {}, f32 where none is recorded", arithmetic.join(", "));
    }
    text + "."
}
