use crate::output::print;
use crate::table::{Align, grouped, render};
use anyhow::Result;
use clap::Subcommand;
use flipcast_images::preprocess::{Preprocess, Resize};
use flipcast_models::{inspect_file, list_architectures, list_weight_tags};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Show>,
}

#[derive(Subcommand)]
enum Show {
    /// Tell what a weight file holds and which architecture it matches
    Show {
        /// A safetensors, .pth, .pt or .th file
        file: PathBuf,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let text = match &args.command {
        None => list()?,
        Some(Show::Show { file }) => show(file)?,
    };
    print(&text)
}

fn list() -> Result<String> {
    let architectures: Vec<Vec<String>> = list_architectures()
        .iter()
        .map(|entry| {
            vec![
                entry.name.to_owned(),
                grouped(entry.parameters),
                grouped(entry.norm_parameters),
                entry.input_size.to_string(),
                entry.classes.to_string(),
            ]
        })
        .collect();
    let tags: Vec<Vec<String>> = list_weight_tags()
        .iter()
        .map(|tag| vec![tag.name.to_owned(), tag.classes.to_string(), describe(&tag.preprocess)])
        .collect();
    let header = ["architecture", "parameters", "of norms", "input", "classes"];
    let align = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right];
    let mut text = render(&header, &align, &architectures);
    text.push('\n');
    let align = [Align::Left, Align::Right, Align::Left];
    text.push_str(&render(&["weights", "classes", "preprocessing"], &align, &tags));
    Ok(text)
}

fn show(path: &Path) -> Result<String> {
    let file = inspect_file(path)?;
    let dtypes: Vec<String> = file.dtypes.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    let mut text = format!("format: {}\n", file.format);
    text += &format!("sha256: {}\n", file.sha256);
    text += &format!("tensors: {} ({})\n", file.tensors, dtypes.join(", "));
    text += &format!("parameters: {}\n", grouped(file.parameters));
    for (key, value) in &file.metadata {
        text += &format!("metadata {key}: {value}\n");
    }
    match &file.best {
        None => text += "architecture: none of the known ones is close\n",
        Some(best) if best.fit.is_exact() => {
            let names: Vec<&str> =
                std::iter::once(best.architecture.name.as_str()).chain(best.ties.iter().map(String::as_str)).collect();
            let classes = best.architecture.config.classes();
            text += &format!(
                "architecture: {} with {classes} classes; every tensor fits
",
                names.join(" or ")
            );
        }
        Some(best) => {
            text += &format!(
                "architecture: nearest is {}; {}
",
                best.architecture.name, best.fit
            )
        }
    }
    Ok(text)
}

/// What is done to an image, in a few words.
fn describe(preprocess: &Preprocess) -> String {
    let resize = match preprocess.resize {
        Resize::None => "as it is".to_owned(),
        Resize::ShortSide(side) => format!("short side to {side}"),
        Resize::Exact(size) | Resize::ExactFloat(size) => {
            format!("to {} x {}", size.height, size.width)
        }
    };
    let crop = preprocess.crop.map_or_else(String::new, |size| format!(", crop {} x {}", size.height, size.width));
    let filter = format!("{:?}", preprocess.interpolation).to_lowercase();
    match preprocess.resize {
        Resize::None => format!("{resize}{crop}"),
        _ => format!("{resize} ({filter}){crop}"),
    }
}
