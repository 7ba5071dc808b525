use crate::output::print;
use crate::table::{grouped, render};
use anyhow::Result;
use flipcast_images::registry::{Count, DATASETS, DatasetInfo, PixelRule, find};
use serde::Serialize;

#[derive(clap::Args)]
pub struct Args {
    /// Show only this dataset, with its splits and where they lie
    name: Option<String>,
    /// Print one JSON object a line instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    splits: Vec<String>,
    images_per_split: Option<usize>,
    class_space: Option<&'static str>,
    layout: Vec<String>,
    pixels: String,
    licence: &'static str,
}

pub fn run(args: &Args) -> Result<()> {
    let shown = match &args.name {
        Some(name) => vec![find(name)?],
        None => DATASETS.to_vec(),
    };
    if args.json {
        let mut lines = String::new();
        for info in &shown {
            lines += &serde_json::to_string(&entry(info))?;
            lines.push('\n');
        }
        return print(&lines);
    }
    print(&match shown.as_slice() {
        [info] => describe(info),
        all => table(all),
    })
}

fn entry(info: &DatasetInfo) -> Entry {
    let splits = info.splits.names();
    Entry {
        name: info.name,
        splits: splits.into_iter().filter(|name| !name.is_empty()).collect(),
        images_per_split: match info.images {
            Count::Exactly(n) | Count::Reported(n) | Count::First(n) => Some(n),
            Count::Unknown => None,
        },
        class_space: Some(info.class_space).filter(|space| !space.is_empty()),
        layout: places(info),
        pixels: pixels(info),
        licence: info.licence,
    }
}

/// One line per dataset; the terms are long and shared by many, so that they stand below.
fn table(shown: &[DatasetInfo]) -> String {
    let mut terms: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for info in shown {
        let known = terms.iter().position(|text| *text == info.licence);
        let number = known.unwrap_or_else(|| {
            terms.push(info.licence);
            terms.len() - 1
        });
        rows.push(vec![
            info.name.to_owned(),
            info.splits.names().len().to_string(),
            images(info),
            class_space(info).to_owned(),
            places(info).join(" or "),
            format!("[{}]", number + 1),
        ]);
    }
    let header = ["dataset", ">splits", ">images a split", "class space", "layout below its root", "terms"];
    let mut text = render(&header, &rows);
    text.push('\n');
    for (number, terms) in terms.iter().enumerate() {
        text += &format!("[{}] {terms}\n", number + 1);
    }
    text
}

fn describe(info: &DatasetInfo) -> String {
    let entry = entry(info);
    let mut text = format!("{}\n", info.name);
    text += &format!("  images       {} a split\n", images(info));
    text += &format!("  class space  {}\n", class_space(info));
    text += &format!("  pixels       {}\n", entry.pixels);
    text += &format!("  layout       {}\n", entry.layout.join(" or "));
    text += &format!("  terms        {}\n", info.licence);
    match entry.splits.as_slice() {
        [] => text += "  splits       one, without a name\n",
        splits => text += &format!("  splits       {}\n", splits.join("\n               ")),
    }
    text
}

fn images(info: &DatasetInfo) -> String {
    match info.images {
        Count::Exactly(n) => grouped(n),
        Count::Reported(n) => format!("about {}", grouped(n)),
        Count::First(n) => format!("first {}", grouped(n)),
        Count::Unknown => "not known".to_owned(),
    }
}

fn class_space(info: &DatasetInfo) -> &'static str {
    match info.class_space {
        "" => "its own classes",
        name => name,
    }
}

/// Where a split lies below the dataset's folder, in the order tried.
fn places(info: &DatasetInfo) -> Vec<String> {
    let place = |place: &&str| match *place {
        "" => ".".to_owned(),
        path => path.replace("{split}", "SPLIT"),
    };
    info.places.iter().map(place).collect()
}

fn pixels(info: &DatasetInfo) -> String {
    match info.pixels {
        PixelRule::AsWeightsSay => "resized and cropped as the weights say".to_owned(),
        PixelRule::Ready => "already cropped; used as they are".to_owned(),
        PixelRule::Bordered(width) => {
            format!("a border of {width} is cut off, then as the weights say")
        }
    }
}
