use super::files::Files;
use super::inputs::PreprocessArgs;
use super::thread_count;
use crate::failure::{Advised, hints};
use crate::output::print;
use crate::table::{counted, grouped, render};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use flipcast_ground::with_causes;
use flipcast_models::{
    ARCHITECTURES, FileSummary, Format, KnownFrom, LoadRequest, Model, ModelCard, ModelError, RestoredNorms,
    WEIGHT_TAGS, WeightFile, WeightTag, count_parameters, inspect_file,
};
use flipcast_record::write_atomically;
use flipcast_run::open::{DataRequest, LabelRule};
use flipcast_run::{RESTORE_IMAGES, RestoreOptions, TrainingCrop, Unwatched, restore_norms};
use std::path::{Path, PathBuf};

/// Classes of ImageNet-1k, whose names and WordNet ids are known without a card.
const IMAGENET_CLASSES: usize = 1000;

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
    /// Prepare images as these published weights do, such as `resnet50.tv_in1k`, but for what else is given
    #[arg(long, value_name = "NAME")]
    like: Option<String>,
    #[command(flatten)]
    preprocess: PreprocessArgs,
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
    /// Cut images as the network's training did, which brings statistics nearer to those that were folded away: `padded:4` for a random part
    /// of an image with 4 black pixels around it, `resized:0.08` for a random part of at least that share brought to the network's size
    #[arg(long, value_name = "CROP")]
    training_crop: Option<TrainingCrop>,
    #[command(flatten)]
    preprocess: PreprocessArgs,
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
        .map(|tag| vec![tag.name.to_owned(), tag.classes.to_string(), (tag.preprocess)().sizing()])
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
    let mut is_usable = true;
    match &file.best {
        _ if matches!(file.format, Format::ExportedProgram | Format::Onnx) => match describe_program(path) {
            Ok(network) => text += &network,
            Err(error) => {
                text += &format!("usable: no: {}\n", with_causes(error.as_ref()));
                for hint in hints(&error) {
                    text += &format!("hint: {hint}\n");
                }
                is_usable = false;
            }
        },
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
    text += &describe_operators(&file);
    if is_usable {
        text += &describe_knowledge(path);
    }
    text += &format!("model card: {}\n", describe_card(&ModelCard::place_beside(path)));
    Ok(text)
}

/// Which operators the network is made of, and which of them are not understood.
fn describe_operators(file: &FileSummary) -> String {
    if file.operators.is_empty() {
        return String::new();
    }
    let listed = |is_known: bool| {
        let some = file.operators.iter().filter(|operator| operator.is_known == is_known);
        some.map(|operator| format!("{} {}", operator.count, operator.name)).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("operators: {}\n", listed(true));
    if file.operators.iter().any(|operator| !operator.is_known) {
        text += &format!("operators that are not understood: {}\n", listed(false));
    }
    text
}

/// What is known about the network, where each piece came from, and what is missing.
fn describe_knowledge(path: &Path) -> String {
    let model = match Model::load(LoadRequest::new(path)) {
        Ok(model) => model,
        Err(error) => return format!("usable: no: {}\n", with_causes(&error)),
    };
    let Some(knowledge) = model.knowledge() else {
        return String::new();
    };
    let size = model.input_size();
    let mut text = format!("layers: from {}\n", knowledge.architecture);
    text += &format!(
        "norms: {} with {} that adapt\n",
        counted(model.graph().norms().count(), "layer"),
        counted(model.graph().affine_table().len(), "value")
    );
    text += &format!("input: {} x {}, from {}\n", size.height, size.width, knowledge.input_size);
    let names = match &knowledge.class_names {
        Some(origin) => format!("names from {origin}"),
        None => "without names".to_owned(),
    };
    text += &format!("classes: {}, from {}, {names}\n", model.num_classes(), knowledge.classes);
    let mut missing = Vec::new();
    match (model.preprocess(), &knowledge.preprocess) {
        (Some(preprocess), Some(origin)) => {
            text += &format!("preprocessing: {}, {}, from {origin}\n", preprocess.sizing(), preprocess.normalise);
        }
        _ => missing.push("preprocessing"),
    }
    if knowledge.class_names.is_none() && model.num_classes() != IMAGENET_CLASSES {
        missing.push("names of the classes, where folders have names");
    }
    if knowledge.input_size == KnownFrom::Architecture && knowledge.preprocess.is_none() {
        missing.push("the size of images");
    }
    text += &match missing.is_empty() {
        true => "missing: nothing\n".to_owned(),
        false => format!(
            "missing: {}; `flipcast models card` writes it down, and --mean, --std, --resize and --crop of other commands tell it\n",
            missing.join("; ")
        ),
    };
    text
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
        Some(best) if best.fit.is_exact() => (Some(best.architecture.clone()), best.architecture.config.classes()),
        _ => bail!("the tensors of `{}` fit no known architecture, so that no card can name one", args.file.display()),
    };
    let like = args.like.as_deref().map(WeightTag::find).transpose()?.map(|tag| (tag.preprocess)());
    let preprocess = args.preprocess.change().apply(like.as_ref());
    let class_names = match &args.class_names {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
            let names: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            if names.len() != count {
                bail!("`{}` names {} classes, but the network has {count}", path.display(), names.len());
            }
            Some(names.into_iter().map(str::to_owned).collect())
        }
        None => None,
    };
    let card = ModelCard {
        name: None,
        architecture,
        classes: count,
        class_names,
        preprocess: preprocess.map_err(|source| ModelError::Preprocess { source })?,
        weights_sha256: Some(file.sha256),
    };
    write_atomically(&out, card.to_json().as_bytes())?;
    Ok(format!("{}: {} classes, {}\n", out.display(), card.classes, card.preprocess.sizing()))
}

fn restore(args: &RestoreArgs) -> Result<String> {
    let threads = thread_count(args.threads)?;
    let beside = RestoredNorms::place_beside(&args.file);
    let out = args.out.as_ref().unwrap_or(&beside);
    let files = Files::default().reads("the network", Some(&args.file)).reads_data([&args.clean]);
    files.writes("--out", "norms.safetensors", Some(out)).check()?;
    // Norms that are there already are replaced, not added to.
    let change = args.preprocess.change();
    let request = LoadRequest { restored_norms: false, preprocess: Some(&change), ..LoadRequest::new(&args.file) };
    let model = Model::load(request)?;
    let clean =
        DataRequest { labels: LabelRule::None, seed: args.seed, ..DataRequest::new(&args.clean) }.open(&model)?;
    let options = RestoreOptions {
        layers: args.layers.as_deref(),
        images: args.images,
        seed: args.seed,
        threads,
        crop: args.training_crop,
    };
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
        restored_from(norms),
        place.display()
    )
}

/// The images behind restored norms.
fn restored_from(norms: &RestoredNorms) -> String {
    let images = counted(norms.images, "clean image");
    norms.crop.as_ref().map_or_else(|| images.clone(), |crop| format!("{images} cut as in training ({crop})"))
}

/// The network that an exported program is, or why it is none that runs.
fn describe_program(path: &Path) -> Result<String> {
    let model = Model::from_program(&WeightFile::open(path)?)?;
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
    Ok(text)
}

/// The norms in the file at `place`, or why they cannot be used.
fn describe_norms(place: &Path, model: &Model) -> String {
    let norms = RestoredNorms::load(place).and_then(|norms| model.with_restored_norms(&norms).map(|_| norms));
    match norms {
        Ok(norms) => {
            format!("{}: {}, {}", place.display(), norms.layers.len(), restored_from(&norms))
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
            format!("{place}: {architecture}{} classes, {}", card.classes, card.preprocess.sizing())
        }
        Ok(None) => format!("none; `{place}` is something else"),
        Err(error) => format!("{place} cannot be used: {}", with_causes(&error)),
    }
}
