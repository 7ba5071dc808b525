//! What a check found, as text.

use super::pass::{Sizes, Unreadable};
use crate::table::{grouped, render};
use serde::Serialize;

/// Most unreadable images that are listed.
const MAX_LISTED: usize = 20;
/// Class names shown before the rest is only counted.
const MAX_CLASSES: usize = 5;

/// What a path holds.
#[derive(Serialize)]
pub struct Report {
    pub path: String,
    pub dataset: Option<&'static str>,
    pub corruption: Option<String>,
    pub images: usize,
    pub unreadable: usize,
    pub splits: Vec<SplitReport>,
    pub missing_splits: Vec<String>,
}

/// What one split holds.
#[derive(Serialize)]
pub struct SplitReport {
    pub name: String,
    pub layout: String,
    pub images: usize,
    pub published_images: Option<usize>,
    pub labelled: usize,
    pub classes: Vec<String>,
    pub class_spaces: Vec<String>,
    pub sizes: Option<Sizes>,
    /// Files beside the images that are not read.
    pub ignored: usize,
    /// The same in one line, with endings and examples.
    pub ignored_summary: Option<String>,
    pub unreadable: usize,
    pub unreadable_named: Vec<Unreadable>,
}

/// What makes the check fire.
pub fn problems(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    if report.unreadable > 0 {
        found.push(format!("{} of {} images cannot be read", grouped(report.unreadable), grouped(report.images)));
    }
    for split in &report.splits {
        if let Some(published) = split.published_images.filter(|&n| n != split.images) {
            let name = match split.name.as_str() {
                "" => String::new(),
                name => format!(" in split `{name}`"),
            };
            found.push(format!(
                "{} images found{name}, but {} were published",
                grouped(split.images),
                grouped(published)
            ));
        }
    }
    found
}

/// The report as text.
pub fn describe(report: &Report) -> String {
    let mut text = match report.splits.as_slice() {
        [split] => describe_one(split),
        splits => describe_many(splits),
    };
    if let Some(corruption) = &report.corruption {
        text += &format!("corruption   {corruption}, applied to every image in memory\n");
    }
    if !report.missing_splits.is_empty() {
        text +=
            &format!("missing      {} splits: {}\n", report.missing_splits.len(), shortened(&report.missing_splits));
    }
    for split in &report.splits {
        if let Some(summary) = &split.ignored_summary {
            let folder = if split.name.is_empty() { String::new() } else { format!("{}: ", split.name) };
            text += &format!("ignored      {folder}{summary}\n");
        }
    }
    text += &format!("unreadable   {}\n", grouped(report.unreadable));
    let mut listed = 0;
    for split in &report.splits {
        for bad in &split.unreadable_named {
            if listed < MAX_LISTED {
                let folder = match split.name.as_str() {
                    "" => String::new(),
                    name => format!("{name}: "),
                };
                text += &format!("  {folder}{}: {}\n", bad.id, bad.reason);
                listed += 1;
            }
        }
    }
    if report.unreadable > listed {
        text += &format!("  and {} more\n", grouped(report.unreadable - listed));
    }
    text
}

fn describe_one(split: &SplitReport) -> String {
    let mut text = String::new();
    if !split.name.is_empty() {
        text += &format!("split        {}\n", split.name);
    }
    text += &format!("layout       {}\n", split.layout);
    text += &format!("images       {}, {} with a label\n", grouped(split.images), grouped(split.labelled));
    match split.classes.as_slice() {
        [] => text += "classes      not named\n",
        classes => {
            text += &format!("classes      {}: {}\n", grouped(classes.len()), shortened(classes));
        }
    }
    text += &format!("class space  {}\n", spaces(split));
    let sizes = split.sizes.map(|sizes| sizes.to_string());
    text + &format!("pixels       {}\n", sizes.unwrap_or_else(|| "-".into()))
}

fn describe_many(splits: &[SplitReport]) -> String {
    let rows: Vec<Vec<String>> = splits
        .iter()
        .map(|split| {
            vec![
                split.name.clone(),
                split.layout.clone(),
                grouped(split.images),
                grouped(split.labelled),
                grouped(split.classes.len()),
                spaces(split),
                split.sizes.map_or_else(|| "-".into(), |s| s.to_string()),
                grouped(split.unreadable),
            ]
        })
        .collect();
    let header = ["split", "layout", ">images", ">labelled", ">classes", "class space", "pixels", ">unreadable"];
    let images = splits.iter().map(|split| split.images).sum();
    render(&header, &rows) + &format!("\nsplits       {}, {} images\n", grouped(splits.len()), grouped(images))
}

fn spaces(split: &SplitReport) -> String {
    match split.class_spaces.as_slice() {
        [] => "its own".to_owned(),
        spaces => spaces.join(" or "),
    }
}

/// The first names, and how many more there are.
fn shortened(names: &[String]) -> String {
    let mut text = names[..names.len().min(MAX_CLASSES)].join(", ");
    if names.len() > MAX_CLASSES {
        text += &format!(" and {} more", grouped(names.len() - MAX_CLASSES));
    }
    text
}
