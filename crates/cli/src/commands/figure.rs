//! `flipcast figure`: one figure of a report, for a paper or a slide.

use super::files::Files;
use super::report::{load, tell_unshown};
use crate::failure::Advised;
use crate::output::print;
use crate::table::render;
use anyhow::Result;
use clap::ValueEnum;
use flipcast_ground::nearest_quoted;
use flipcast_record::write_atomically;
use flipcast_report::chart::{Size, Theme, to_png, to_svg};
use flipcast_report::{FIGURES, build_figure};
use std::path::{Path, PathBuf};

/// Write one figure of a report as SVG or PNG.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The figure; `--list` names them
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Record files, or folders of files that end in `.jsonl` or `.jsonl.gz`
    #[arg(required_unless_present = "list")]
    runs: Vec<PathBuf>,
    /// Where to write it; the ending, `.svg` or `.png`, says how
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Width in pixels; the height follows unless it is given
    #[arg(long, value_parser = clap::value_parser!(u32).range(50..=20000))]
    width: Option<u32>,
    /// Height in pixels; the width follows unless it is given
    #[arg(long, value_parser = clap::value_parser!(u32).range(50..=20000))]
    height: Option<u32>,
    /// Colours for light or dark ground
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light)]
    theme: ThemeChoice,
    /// Pixels of a PNG file for each pixel of the size
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    scale: u32,
    /// Of a figure that moves, this frame, from 1; the last if none is given
    #[arg(long, value_name = "N")]
    frame: Option<usize>,
    /// Name all figures and what they show
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThemeChoice {
    Light,
    Dark,
}

enum Format {
    Svg,
    Png,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (Some(name), Some(out), false) = (&args.name, &args.out, args.list) else {
        return list();
    };
    check_figure(name)?;
    let format = format_of(out)?;
    Files::default().reads_records(&args.runs).writes("--out", "figure.svg", Some(out)).check()?;
    let study = load(&args.runs)?;
    let figure = build_figure(&study, name, args.frame).inspect_err(|_| tell_unshown(&study))?;
    let scene = figure.draw(Size { width: args.width.map(f64::from), height: args.height.map(f64::from) });
    let theme = match args.theme {
        ThemeChoice::Light => Theme::Light,
        ThemeChoice::Dark => Theme::Dark,
    };
    let bytes = match format {
        Format::Svg => to_svg(&scene, theme).into_bytes(),
        Format::Png => to_png(&scene, theme, f64::from(args.scale))?,
    };
    write_atomically(out, &bytes)?;
    tell_unshown(&study);
    print(&format!("{name} written to {}\n", out.display()))
}

/// Refuses a name that is not known before anything is read.
fn check_figure(name: &str) -> Result<()> {
    let known = || FIGURES.iter().map(|figure| figure.name);
    if known().any(|figure| figure == name) {
        return Ok(());
    }
    let all: Vec<String> = known().map(|figure| format!("`{figure}`")).collect();
    Err(Advised {
        problem: format!("there is no figure `{name}`, the nearest are {}", nearest_quoted(name, known())),
        hint: format!("all figures are {}; `flipcast figure --list` tells what each shows", all.join(", ")),
    }
    .into())
}

fn list() -> Result<()> {
    let rows: Vec<Vec<String>> = FIGURES
        .iter()
        .map(|figure| vec![figure.name.to_owned(), figure.summary.to_owned(), figure.commands.join(", ")])
        .collect();
    print(&render(&["figure", "shows", "records from"], &rows))
}

fn format_of(out: &Path) -> Result<Format> {
    match out.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        _ => Err(Advised {
            problem: format!("`{}` ends in neither `.svg` nor `.png`", out.display()),
            hint: "the ending of the file says which of the two is written".to_owned(),
        }
        .into()),
    }
}
