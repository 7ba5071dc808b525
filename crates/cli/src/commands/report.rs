//! `flipcast report`: records become a page, or tables for a paper.

use super::files::Files;
use super::places::check_there;
use crate::failure::Advised;
use crate::output::{print, tell};
use crate::table::grouped;
use anyhow::Result;
use clap::ValueEnum;
use flipcast_record::write_atomically;
use flipcast_report::{
    PageOptions, Paper, Study, TableFormat, render_page, render_paper, render_paper_tables, render_tables,
};
use std::path::PathBuf;

/// Turn records into a page that opens in a browser, or into tables.
///
/// The page is one file that needs no network. It shows what the records hold and names the commands that would fill
/// the rest.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Record files, or folders of files that end in `.jsonl` or `.jsonl.gz`
    #[arg(required_unless_present = "paper")]
    runs: Vec<PathBuf>,
    /// Go through a paper item by item, its numbers beside those of records: a text file that lists both
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    paper: Option<PathBuf>,
    /// What to write: the page, or all tables
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// Where to write it; pages go to `report.html`, tables to the screen
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// One table alone, by its name
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The title of the page
    #[arg(long)]
    title: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Html,
    Markdown,
    Latex,
    Csv,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let format = match args.format {
        Format::Html => None,
        Format::Markdown => Some(TableFormat::Markdown),
        Format::Latex => Some(TableFormat::Latex),
        Format::Csv => Some(TableFormat::Csv),
    };
    if format.is_none() && args.table.is_some() {
        return Err(Advised {
            problem: "a page holds all tables, but `--table` asks for one".to_owned(),
            hint: "add `--format markdown`, `latex` or `csv`".to_owned(),
        }
        .into());
    }
    let out = match (&args.out, format) {
        (Some(out), _) => Some(out.clone()),
        (None, None) => Some(PathBuf::from("report.html")),
        (None, Some(_)) => None,
    };
    if let Some(out) = &out {
        let files = Files::default().reads_records(&args.runs).reads("the paper", args.paper.as_deref());
        files.writes("--out", "report.html", Some(out)).check()?;
    }
    let (text, records) = match &args.paper {
        Some(items) => {
            check_there(items, "a text file that lists a paper's items")?;
            let paper = Paper::load(items)?;
            let text = match format {
                Some(format) => render_paper_tables(&paper, format, args.table.as_deref())?,
                None => render_paper(&paper, args.title.as_deref()),
            };
            (text, paper.records())
        }
        None => {
            let study = load(&args.runs)?;
            let text = match format {
                Some(format) => render_tables(&study, format, args.table.as_deref())?,
                None => {
                    let options = PageOptions { title: args.title.clone(), about: None };
                    render_page(&study, &options)?
                }
            };
            tell_unshown(&study);
            (text, study.len())
        }
    };
    match out {
        None => print(&text),
        Some(out) => {
            write_atomically(&out, text.as_bytes())?;
            print(&format!("{} records; written to {}\n", grouped(records), out.display()))
        }
    }
}

/// Reads records.
pub(super) fn load(runs: &[PathBuf]) -> Result<Study> {
    for run in runs {
        check_there(run, "a record file, or a folder of files that end in `.jsonl`")?;
    }
    let study = Study::load(runs)?;
    Ok(study)
}

/// Says on stderr what of the records is not shown.
pub(super) fn tell_unshown(study: &Study) {
    for note in study.notes() {
        tell(&format!("not shown: {note}"));
    }
}
