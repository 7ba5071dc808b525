use crate::output::print;
use crate::table::{grouped, render};
use anyhow::Result;
use clap::Subcommand;
use flipcast_ground::with_causes;
use flipcast_images::preprocess::{Preprocess, Resize};
use flipcast_models::{
    ARCHITECTURES, Format, Model, ModelCard, WEIGHT_TAGS, WeightFile, count_parameters, inspect_file,
};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Show>,
}

#[derive(Subcommand)]
enum Show {
    /// List every known architecture and all published weights (the default)
    List,
    /// Tell what a weight file holds and which architecture it matches
    Show {
        /// A safetensors, .pth, .pt, .th, .pt2 or .onnx file
        file: PathBuf,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let text = match &args.command {
        None | Some(Show::List) => list()?,
        Some(Show::Show { file }) => show(file)?,
    };
    print(&text)
}

fn list() -> Result<String> {
    let mut architectures = Vec::new();
    for entry in ARCHITECTURES {
        let graph = (entry.config)(entry.classes).build()?;
        architectures.push(vec![
            entry.name.to_owned(),
            grouped(count_parameters(&graph)),
            grouped(graph.affine_table().len()),
            entry.input_size.to_string(),
            entry.classes.to_string(),
        ]);
    }
    let tags: Vec<Vec<String>> = WEIGHT_TAGS
        .iter()
        .map(|tag| vec![tag.name.to_owned(), tag.classes.to_string(), describe(&(tag.preprocess)())])
        .collect();
    let header = ["architecture", ">parameters", ">adaptable", ">input", ">classes"];
    let mut text =
        "Architectures, for `--model NAME --weights FILE`. Adaptable are the scales and shifts of norm layers. \
                    `cifar_resnet<depth>_w<width>` and\n`vit_<size>_patch<side>_<image side>` take further numbers.\n\n"
            .to_owned();
    text += &render(&header, &architectures);
    text += "\nPublished weights, for `--model NAME --weights FILE` too. These names bring classes and preprocessing with \
             them; other weights need a\nmodel card beside the file. The files themselves come from torchvision, timm or \
             RobustBench.\n\n";
    text += &render(&["weights", ">classes", "preprocessing"], &tags);
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
        _ if matches!(file.format, Format::ExportedProgram | Format::Onnx) => text += &describe_program(path),
        None => text += "architecture: none of the known ones is close\n",
        Some(best) if best.fit.is_exact() => {
            let names: Vec<&str> =
                std::iter::once(best.architecture.name.as_str()).chain(best.ties.iter().map(String::as_str)).collect();
            let classes = best.architecture.config.classes();
            text += &format!("architecture: {} with {classes} classes; every tensor fits\n", names.join(" or "));
            let config = &best.architecture.config;
            let fitting = WEIGHT_TAGS.iter().filter(|tag| tag.architecture().config == *config);
            let fitting: Vec<&str> = fitting.map(|tag| tag.name).collect();
            if !fitting.is_empty() {
                text += &format!("published weights of this kind: {}\n", fitting.join(", "));
            }
        }
        Some(best) => {
            text += &format!("architecture: none fits; nearest is {}, but {}\n", best.architecture.name, best.fit);
        }
    }
    text += &format!("model card: {}\n", describe_card(&ModelCard::place_beside(path)));
    Ok(text)
}

/// The network that an exported program is, or why it is none that runs.
fn describe_program(path: &Path) -> String {
    match WeightFile::open(path).map_err(anyhow::Error::from).and_then(|file| Ok(Model::from_program(&file)?)) {
        Ok(model) => format!(
            "network: {} norm layers with {} values that adapt, images of {} x {}, {} classes\n",
            model.graph().norms().count(),
            grouped(model.graph().affine_table().len()),
            model.input_size().height,
            model.input_size().width,
            model.num_classes()
        ),
        Err(error) => format!("network: cannot be used: {}\n", with_causes(error.as_ref())),
    }
}

/// What the file says that may be the card.
fn describe_card(path: &Path) -> String {
    let place = path.display();
    if !path.is_file() {
        return format!(
            "none; `{place}` would tell classes and preprocessing, and so does the name of published weights"
        );
    }
    match ModelCard::load_if_card(path) {
        Ok(Some(card)) => {
            let architecture = card.architecture.map_or_else(String::new, |found| format!("{}, ", found.name));
            format!("{place}: {architecture}{} classes, {}", card.classes, describe(&card.preprocess))
        }
        Ok(None) => format!("none; `{place}` is something else"),
        Err(error) => format!("{place} cannot be used: {}", with_causes(&error)),
    }
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
