use super::scoring::check_writable;
use super::thread_count;
use crate::failure::Advised;
use crate::output::print;
use crate::table::{counted, grouped, render};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use flipcast_ground::with_causes;
use flipcast_images::preprocess::{Preprocess, Resize};
use flipcast_models::{
    ARCHITECTURES, Format, LoadRequest, Model, ModelCard, RestoredNorms, WEIGHT_TAGS, WeightFile, WeightTag,
    count_parameters, inspect_file,
};
use flipcast_record::write_atomically;
use flipcast_run::open::{DataRequest, LabelRule};
use flipcast_run::{RESTORE_IMAGES, RestoreOptions, Unwatched, restore_norms};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List every known architecture and all published weights (the default)
    List,
    /// Tell what a weight file holds and which architecture it matches
    Show {
        /// A safetensors, .pth, .pt, .th, .pt2 or .onnx file
        file: PathBuf,
    },
    /// Write a model card: what a file does not tell about preprocessing and classes, for every command to find beside it
    Card(CardArgs),
    /// Give a network back the batch norms that its exporter folded into the convolutions, from clean images without labels
    Restore(RestoreArgs),
}

#[derive(clap::Args)]
struct CardArgs {
    /// The weight file, exported program or ONNX file
    file: PathBuf,
    /// Prepare images as these published weights do, such as `resnet50.tv_in1k`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["mean", "std", "resize", "crop", "interpolation"])]
    like: Option<String>,
    /// What is taken from red, green and blue, in [0, 1]
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', required_unless_present = "like")]
    mean: Vec<f32>,
    /// What they are then divided by
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', required_unless_present = "like")]
    std: Vec<f32>,
    /// Scale images first: `256` for the short side, `224x224` for width and height; not at all if not given
    #[arg(long, value_name = "SIZE")]
    resize: Option<String>,
    /// Cut so many pixels square from the middle
    #[arg(long, value_name = "N")]
    crop: Option<usize>,
    /// How images are scaled: bilinear, bicubic or another that cards know
    #[arg(long, value_name = "KIND", default_value = "bilinear")]
    interpolation: String,
    /// A text file with one class name per line
    #[arg(long, value_name = "FILE")]
    class_names: Option<PathBuf>,
    /// Where the card is written; beside the file if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(clap::Args)]
struct RestoreArgs {
    /// An .onnx or .pt2 file
    file: PathBuf,
    /// Clean images, as --data of other commands; labels are not used
    #[arg(long, value_name = "DATA")]
    clean: String,
    /// Where the norms are written; they are looked for beside the network, in `net.norms.safetensors`, which is also the default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Images at most, drawn by --seed
    #[arg(long, value_name = "N", default_value_t = RESTORE_IMAGES)]
    images: usize,
    /// Seed of the draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The convolutions that get a norm, parted by commas; all with a bias and several pixels if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    layers: Option<Vec<String>>,
    /// Threads; 0 means one per core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

pub fn run(args: &Args) -> Result<()> {
    let text = match &args.command {
        None | Some(Action::List) => list()?,
        Some(Action::Show { file }) => show(file)?,
        Some(Action::Restore(args)) => restore(args)?,
        Some(Action::Card(args)) => card(args)?,
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

fn card(args: &CardArgs) -> Result<String> {
    let out = args.out.clone().unwrap_or_else(|| ModelCard::place_beside(&args.file));
    if out.exists() {
        return Err(Advised {
            problem: format!("`{}` is there already", out.display()),
            hint: "remove it first, or choose another place with `--out`".to_owned(),
        }
        .into());
    }
    let file = inspect_file(&args.file)?;
    let (architecture, count) = match &file.best {
        _ if matches!(file.format, Format::ExportedProgram | Format::Onnx) => {
            (None, Model::from_program(&WeightFile::open(&args.file)?)?.num_classes())
        }
        Some(best) if best.fit.is_exact() => (Some(best.architecture.name.clone()), best.architecture.config.classes()),
        _ => bail!("the tensors of `{}` fit no known architecture, so that no card can name one", args.file.display()),
    };
    let mut card = match &args.like {
        Some(name) => serde_json::to_value((WeightTag::find(name)?.preprocess)())?,
        None => json!({
            "mean": args.mean, "std": args.std, "resize": resize_entry(args.resize.as_deref())?, "interpolation": args.interpolation,
        }),
    };
    card["flipcast_model"] = 1.into();
    card["weights_sha256"] = file.sha256.into();
    if let Some(crop) = args.crop {
        card["crop"] = crop.into();
    }
    if let Some(architecture) = architecture {
        card["architecture"] = architecture.into();
    }
    card["classes"] = match &args.class_names {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
            let names: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            if names.len() != count {
                bail!("`{}` names {} classes, but the network has {count}", path.display(), names.len());
            }
            names.into()
        }
        None => count.into(),
    };
    let card = ModelCard::read(card.to_string().as_bytes())?;
    write_atomically(&out, card.to_json().as_bytes())?;
    Ok(format!("{}: {} classes, {}\n", out.display(), card.classes, describe(&card.preprocess)))
}

/// What a card says for a size on the command line.
fn resize_entry(size: Option<&str>) -> Result<Value> {
    let bad = |text: &str| Advised {
        problem: format!("--resize is `{text}`, expected a number or two of them"),
        hint: "give the short side, `--resize 256`, or width and height, `--resize 224x224`".to_owned(),
    };
    let Some(text) = size else {
        return Ok("none".into());
    };
    let number = |part: &str| part.parse::<usize>().map_err(|_| bad(text));
    Ok(match text.split_once('x') {
        Some((width, height)) => json!({ "exact": { "width": number(width)?, "height": number(height)? } }),
        None => json!({ "short_side": number(text)? }),
    })
}

fn restore(args: &RestoreArgs) -> Result<String> {
    let threads = thread_count(args.threads)?;
    let beside = RestoredNorms::place_beside(&args.file);
    let out = args.out.as_ref().unwrap_or(&beside);
    check_writable(out)?;
    // Norms that are there already are replaced, not added to.
    let model = Model::load(LoadRequest { restored_norms: false, ..LoadRequest::new(&args.file) })?;
    let clean =
        DataRequest { labels: LabelRule::None, seed: args.seed, ..DataRequest::new(&args.clean) }.open(&model)?;
    let options = RestoreOptions { layers: args.layers.as_deref(), images: args.images, seed: args.seed, threads };
    let norms = restore_norms(&model, &clean, options, &mut Unwatched)?;
    // Whatever is wrong with the layers should be noticed before anything is written.
    model.with_restored_norms(&norms)?;
    write_atomically(out, &norms.to_bytes())?;
    Ok(restored_text(&norms, out) + "\n")
}

/// What was restored, and where it is.
pub fn restored_text(norms: &RestoredNorms, place: &Path) -> String {
    let names: Vec<&str> = norms.layers.iter().map(|layer| layer.layer.as_str()).collect();
    let (first, last) = (names.first().unwrap_or(&""), names.last().unwrap_or(&""));
    let values: usize = norms.layers.iter().map(|layer| 2 * layer.mean.len()).sum();
    format!(
        "batch norms restored behind {} (`{first}` to `{last}`), {} that adapt, from {}: {}",
        counted(names.len(), "convolution"),
        counted(values, "value"),
        counted(norms.images, "clean image"),
        place.display()
    )
}

/// The network that an exported program is, or why it is none that runs.
fn describe_program(path: &Path) -> String {
    match WeightFile::open(path).map_err(anyhow::Error::from).and_then(|file| Ok(Model::from_program(&file)?)) {
        Ok(model) => {
            let mut text = format!(
                "network: {} norm layers with {} values that adapt, images of {} x {}, {} classes\n",
                model.graph().norms().count(),
                grouped(model.graph().affine_table().len()),
                model.input_size().height,
                model.input_size().width,
                model.num_classes()
            );
            let place = RestoredNorms::place_beside(path);
            match model.folded_layers().len() {
                0 => {}
                _ if place.is_file() => text += &format!("restored batch norms: {}\n", describe_norms(&place, &model)),
                count => {
                    text += &format!(
                        "folded batch norms: perhaps behind {}; `flipcast models restore` gives them back\n",
                        counted(count, "convolution")
                    );
                }
            }
            text
        }
        Err(error) => format!("network: cannot be used: {}\n", with_causes(error.as_ref())),
    }
}

/// The norms in the file at `place`, or why they cannot be used.
fn describe_norms(place: &Path, model: &Model) -> String {
    let norms = RestoredNorms::load(place).and_then(|norms| model.with_restored_norms(&norms).map(|_| norms));
    match norms {
        Ok(norms) => {
            format!("{}: {}, {}", place.display(), norms.layers.len(), counted(norms.images, "clean image"))
        }
        Err(error) => format!("{} cannot be used: {}", place.display(), with_causes(&error)),
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
