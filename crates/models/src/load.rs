use crate::fit::{Sources, fit_tensors};
use crate::hub::{HubFolder, HubModel};
use crate::layout::arrange;
use crate::model::build_graph;
use crate::program::{Lowered, lower_program};
use crate::recognise::recognise;
use crate::vit_weights::{accept_positions, file_params, join_heads, second_head};
use crate::{
    Architecture, ArchitectureConfig, Format, KnownFrom, Model, ModelCard, ModelError, ModelKnowledge, ProgramError,
    RestoredNorms, TensorInfo, WEIGHT_TAGS, WeightFile, WeightTag,
};
use flipcast_graph::Graph;
use flipcast_images::preprocess::{Preprocess, PreprocessChange, Size};
use flipcast_tensor::Tensor;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The safetensors metadata entry that may hold a whole card.
const CARD_ENTRY: &str = "flipcast_card";
/// The safetensors metadata entry that may name the architecture.
const ARCHITECTURE_ENTRY: &str = "architecture";
/// What stands for the architecture of a network that brought its layers with it.
const EXPORTED: &str = "exported";
/// Rows and columns of images where neither the network nor anything else fixes them.
const USUAL_SIDE: usize = 224;

/// What to load, and what the caller knows about it.
///
/// ```
/// use flipcast_models::LoadRequest;
///
/// let request = LoadRequest { architecture: Some("resnet50"), classes: Some(10), ..LoadRequest::new("pets.pth".as_ref()) };
/// assert!(request.card.is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// The weight file.
    pub path: &'a Path,
    /// An architecture such as `resnet50`, or weights such as `resnet50.tv_in1k`.
    pub architecture: Option<&'a str>,
    /// The number of classes, where it differs from the usual one.
    pub classes: Option<usize>,
    /// The model card; without one `<weights>.json` beside the file is read if it is there.
    pub card: Option<&'a Path>,
    /// Which state dict to take from a checkpoint that holds several, such as `ema`.
    pub within: Option<&'a str>,
    /// How images are prepared, where the caller knows better than card or name.
    pub preprocess: Option<&'a PreprocessChange>,
    /// Whether batch norms that were restored for the network, in a file beside it, are put in.
    pub restored_norms: bool,
}

impl<'a> LoadRequest<'a> {
    /// The file at `path`, about which nothing else is known.
    pub fn new(path: &'a Path) -> Self {
        Self {
            path,
            architecture: None,
            classes: None,
            card: None,
            within: None,
            preprocess: None,
            restored_norms: true,
        }
    }
}

/// What is known about a file before its tensors are read.
#[derive(Default)]
struct Knowledge {
    name: Option<String>,
    architecture: Option<(Architecture, KnownFrom)>,
    classes: Option<(usize, KnownFrom)>,
    preprocess: Option<(Preprocess, KnownFrom)>,
    class_names: Option<(Vec<String>, KnownFrom)>,
    sha256: Option<String>,
    notes: Vec<String>,
}

impl Model {
    /// Loads a weight file as a model.
    ///
    /// ```no_run
    /// use flipcast_models::{LoadRequest, Model};
    ///
    /// // `resnet50.json` beside the file, if it is there, is its model card.
    /// let model = Model::load(LoadRequest::new("resnet50.safetensors".as_ref()))?;
    /// println!("{}: {} classes", model.name(), model.num_classes());
    /// # Ok::<(), flipcast_models::ModelError>(())
    /// ```
    ///
    /// An exported program or ONNX file is a network of its own, with the batch norms that were restored for it beside it; a card beside it, or the name of published weights, tells preprocessing and
    /// class names. Of other files the architecture is the one asked for, or else the card's, the one named in the file's metadata, or the one
    /// the tensors fit exactly. Preprocessing and class names come from the card or the weights' name. Position embeddings of a
    /// vision transformer asked for with images of another size are resampled. A card that says otherwise than the name of
    /// published weights is an error.
    pub fn load(request: LoadRequest<'_>) -> Result<Self, ModelError> {
        let path = request.path.display().to_string();
        let folder = open_folder(request.path)?;
        let request = LoadRequest { path: folder.as_ref().map_or(request.path, |hub| &hub.weights), ..request };
        let file = open(request.path, request.within)?;
        let hub = match &folder {
            Some(folder) => {
                let tensors: Vec<TensorInfo> = file.tensors().cloned().collect();
                let model = folder.model(&tensors);
                Some(model.map_err(|source| ModelError::Hub { path: path.clone(), source: Box::new(source) })?)
            }
            None => None,
        };
        let known = gather(&request, &file, folder.as_ref().zip(hub.as_ref()))?;
        let sha256 = file.sha256();
        if let Some(expected) = &known.sha256
            && !expected.eq_ignore_ascii_case(&sha256)
        {
            let (expected, found) = (expected.clone(), sha256);
            return Err(ModelError::OtherWeights { path, expected, found });
        }
        let name = known.name.clone().unwrap_or_else(|| file_stem(request.path));
        let mut model = match file.format() {
            Format::ExportedProgram | Format::Onnx => from_program(&request, &file, &known)?,
            Format::Safetensors | Format::TorchZip | Format::TorchLegacy => {
                from_weights(&request, &file, &known, hub.as_ref())?
            }
        };
        model = model.with_name(name).with_sha256(sha256);
        let mut notes = known.notes;
        if request.restored_norms && matches!(file.format(), Format::ExportedProgram | Format::Onnx) {
            model = with_norms_beside(request.path, model, &mut notes)?;
        }
        model.notes = notes.into();
        let is_network = matches!(file.format(), Format::ExportedProgram | Format::Onnx);
        let mut knowledge = ModelKnowledge {
            architecture: if is_network { KnownFrom::Network } else { KnownFrom::Tensors },
            classes: if is_network { KnownFrom::Network } else { KnownFrom::Tensors },
            class_names: None,
            preprocess: None,
            input_size: if is_network { KnownFrom::Network } else { KnownFrom::Architecture },
        };
        if let Some((_, origin)) = known.architecture.filter(|_| !is_network) {
            knowledge.architecture = origin;
        }
        if let Some((preprocess, origin)) = known.preprocess {
            if preprocess.fixed_size().is_some() {
                knowledge.input_size = KnownFrom::Preprocessing;
            }
            model = model.with_preprocess(preprocess);
            knowledge.preprocess = Some(origin);
        }
        if let Some((names, origin)) = known.class_names {
            model = model.with_class_names(names)?;
            knowledge.class_names = Some(origin);
        }
        model.knowledge = Some(Arc::new(knowledge));
        Ok(model)
    }
}

impl Model {
    /// The network of an exported program, of whose preprocessing and classes nothing is known. Some layers may hold for images
    /// of [`Model::input_size`] alone; [`Model::load`] refuses other sizes then.
    pub fn from_program(file: &WeightFile) -> Result<Self, ModelError> {
        Ok(program_model(file, None)?.0)
    }
}

/// The model whose architecture is known or recognised by the tensors of `file`.
fn from_weights(
    request: &LoadRequest<'_>,
    file: &WeightFile,
    known: &Knowledge,
    hub: Option<&HubModel>,
) -> Result<Model, ModelError> {
    let path = request.path.display().to_string();
    let tensors: Vec<TensorInfo> = match hub {
        Some(hub) => hub.tensors.infos.clone(),
        None => file.tensors().cloned().collect(),
    };
    let mut architecture = match &known.architecture {
        Some((architecture, _)) => architecture.clone(),
        None => recognise_only(&path, &tensors)?,
    };
    if let Some(classes) = request.classes {
        architecture = architecture.with_classes(classes);
    }
    let mut graph = build_graph(&architecture)?;
    if let Some(hub) = hub {
        graph = hub.adjust(graph);
    }
    let family = architecture.config.family();
    let wanted = file_params(&architecture.config, &graph);
    let (mut fit, mut sources) = fit_tensors(family, &wanted, tensors.iter());
    accept_positions(&architecture.config, &tensors, &mut fit, &mut sources);
    if !fit.is_exact() {
        let model = known.name.clone().unwrap_or(architecture.name);
        return Err(ModelError::do_not_fit(model, &graph, fit));
    }
    let load = |name: &str| {
        let loaded = match hub {
            Some(hub) => hub.tensors.load(file, name),
            None => file.load(name),
        };
        loaded.map_err(|source| ModelError::Import { path: path.clone(), source: Box::new(source) })
    };
    let params = load_params(&graph, &sources, load)?;
    let mut model = Model::from_params(graph, params)?.with_architecture(&architecture);
    model.published = published_weights(&architecture.config).into();
    Ok(model)
}

/// Names of published weights for a network of these settings.
pub(crate) fn published_weights(config: &ArchitectureConfig) -> Vec<&'static str> {
    WEIGHT_TAGS.iter().filter(|tag| tag.architecture().config == *config).map(|tag| tag.name).collect()
}

/// `model` with the batch norms that were restored for it, if a file beside it at `path` holds some.
fn with_norms_beside(path: &Path, model: Model, notes: &mut Vec<String>) -> Result<Model, ModelError> {
    let place = RestoredNorms::place_beside(path);
    if !place.is_file() {
        return Ok(model);
    }
    let restored = RestoredNorms::load(&place).and_then(|norms| {
        norms.check_model(&place, &model)?;
        Ok((model.with_restored_norms(&norms)?, norms))
    });
    let (model, norms) = restored.map_err(|source| ModelError::Restore { source: Box::new(source) })?;
    let (count, images) = (norms.layers.len(), norms.images);
    notes.push(format!("{count} batch norms are restored from `{}` ({images} clean images)", place.display()));
    Ok(model)
}

/// The model that the exported program in `file` describes by itself, if it fits what else is known.
fn from_program(request: &LoadRequest<'_>, file: &WeightFile, known: &Knowledge) -> Result<Model, ModelError> {
    if let Some(name) = request.architecture.filter(|name| !name.contains('.')) {
        return Err(ModelError::NamedProgram { name: name.to_owned() });
    }
    let used = known.preprocess.as_ref().and_then(|(preprocess, _)| preprocess.fixed_size());
    let (model, bound_to_size) = program_model(file, used)?;
    let size = model.input_size();
    if let (Some(layer), Some(used)) = (bound_to_size, used)
        && used != size
    {
        let text = |size: Size| format!("{} x {}", size.height, size.width);
        let source = ProgramError::OtherSize { exported: text(size), found: text(used), layer };
        return Err(ModelError::Program { source: Box::new(source) });
    }
    let found = model.num_classes();
    let expected = request.classes.or(known.classes.as_ref().map(|(classes, _)| *classes));
    match expected.filter(|&expected| expected != found) {
        Some(expected) => Err(ModelError::OtherClasses { expected, found }),
        None => Ok(model),
    }
}

/// The model of a network that brings its layers with it, and a layer that holds for images of its input size alone.
fn program_model(file: &WeightFile, used: Option<Size>) -> Result<(Model, Option<String>), ModelError> {
    let program = file.program().ok_or(ModelError::NotAProgram { format: file.format() })?;
    let size = used.unwrap_or(Size::square(USUAL_SIDE));
    let lowered =
        lower_program(file, program, size).map_err(|source| ModelError::Program { source: Box::new(source) })?;
    let Lowered { graph, params, size, bound_to_size } = lowered;
    Ok((Model::from_params(graph, params)?.with_input_size(EXPORTED, size), bound_to_size))
}

pub(crate) fn open(path: &Path, within: Option<&str>) -> Result<WeightFile, ModelError> {
    let file = match within {
        Some(within) => WeightFile::open_within(path, within),
        None => WeightFile::open(path),
    };
    file.map_err(|source| ModelError::Import { path: path.display().to_string(), source: Box::new(source) })
}

/// The folder at `path`, if it is one.
pub(crate) fn open_folder(path: &Path) -> Result<Option<HubFolder>, ModelError> {
    let refused = |source| ModelError::Hub { path: path.display().to_string(), source: Box::new(source) };
    HubFolder::open(path).map_err(refused)
}

/// Puts together the request, the card, the configuration of a hub's folder and the file's metadata, in this order of precedence.
fn gather(
    request: &LoadRequest<'_>,
    file: &WeightFile,
    hub: Option<(&HubFolder, &HubModel)>,
) -> Result<Knowledge, ModelError> {
    let mut notes = Vec::new();
    let card = find_card(request, file, &mut notes)?;
    let metadata = file.metadata().get(ARCHITECTURE_ENTRY).filter(|_| card.is_none() && hub.is_none());
    let named = request.architecture.or(metadata.map(String::as_str));
    // A name with a dot means published weights.
    let tag = match named {
        Some(name) if name.contains('.') => Some(WeightTag::find(name)?),
        _ => None,
    };
    let mut known = Knowledge { notes, ..Knowledge::default() };
    if let Some((folder, model)) = hub {
        let from = KnownFrom::HubConfig { place: folder.config.clone() };
        known.name = Some(folder.name.clone()).filter(|name| !name.is_empty());
        known.architecture = Some((model.architecture.clone(), from.clone()));
        known.preprocess = model.preprocess.clone().map(|preprocess| (preprocess, from.clone()));
        known.class_names = model.class_names.clone().map(|names| (names, from));
    }
    if let Some((card, place)) = card {
        let conflicts = tag.map_or(Vec::new(), |tag| conflicts(&card, tag, request.classes));
        if let Some(tag) = tag.filter(|_| !conflicts.is_empty()) {
            return Err(ModelError::CardConflict { card: place, name: tag.name.to_owned(), conflicts });
        }
        let origin = KnownFrom::Card { place };
        known.name = card.name.or(known.name);
        known.architecture =
            card.architecture.map(|architecture| (architecture, origin.clone())).or(known.architecture);
        known.classes = Some((card.classes, origin.clone()));
        known.preprocess = Some((card.preprocess, origin.clone()));
        known.class_names = card.class_names.map(|names| (names, origin)).or(known.class_names);
        known.sha256 = card.weights_sha256;
    }
    let named_by = || match request.architecture {
        Some(_) => KnownFrom::Caller,
        None => KnownFrom::Metadata,
    };
    if let Some(tag) = tag {
        let origin = KnownFrom::Name { name: tag.name.to_owned() };
        known.name = Some(tag.name.to_owned());
        known.architecture = Some((tag.architecture(), origin.clone()));
        known.preprocess = Some(((tag.preprocess)(), origin));
    } else if let Some(name) = named {
        let found = Architecture::find(name)?;
        let classes = known.classes.as_ref().map_or(found.config.classes(), |(classes, _)| *classes);
        known.architecture = Some((found.with_classes(classes), named_by()));
    }
    if let Some(change) = request.preprocess.filter(|change| !change.is_empty()) {
        let changed = change.apply(known.preprocess.as_ref().map(|(preprocess, _)| preprocess));
        let changed = changed.map_err(|source| ModelError::Preprocess { source })?;
        let origin = match known.preprocess {
            Some((_, rest)) => KnownFrom::Changed { rest: Box::new(rest) },
            None => KnownFrom::Caller,
        };
        known.preprocess = Some((changed, origin));
    }
    Ok(known)
}

/// What a card says otherwise than the name of published weights; a number of classes asked for settles that one.
fn conflicts(card: &ModelCard, tag: &WeightTag, classes: Option<usize>) -> Vec<String> {
    let named = tag.architecture();
    let json = |preprocess: &Preprocess| serde_json::to_value(preprocess).unwrap_or_default();
    let (by_card, by_name) = (json(&card.preprocess), json(&(tag.preprocess)()));
    let card_classes = card.classes;
    let mut settings =
        vec![("classes", card_classes.to_string(), classes.map_or(tag.classes, |_| card_classes).to_string())];
    if let Some(by_card) = &card.architecture
        && by_card.config != named.config.clone().with_classes(card_classes)
    {
        settings.push(("architecture", by_card.name.clone(), named.name));
    }
    for setting in ["resize", "crop", "interpolation", "normalise"] {
        settings.push((setting, by_card[setting].to_string(), by_name[setting].to_string()));
    }
    let differ = settings.into_iter().filter(|(_, card, name)| card != name);
    differ.map(|(setting, card, name)| format!("`{setting}` is {card} in the card and {name} by the name")).collect()
}

/// The card the caller named, the one beside the file, or the one inside it, and where it is.
fn find_card(
    request: &LoadRequest<'_>,
    file: &WeightFile,
    notes: &mut Vec<String>,
) -> Result<Option<(ModelCard, String)>, ModelError> {
    let at = |place: String| move |source| ModelError::Card { path: place, source: Box::new(source) };
    if let Some(path) = request.card {
        let place = path.display().to_string();
        return Ok(Some((ModelCard::load(path).map_err(at(place.clone()))?, place)));
    }
    let beside = ModelCard::place_beside(request.path);
    if beside.is_file() {
        let place = beside.display().to_string();
        if let Some(card) = ModelCard::load_if_card(&beside).map_err(at(place.clone()))? {
            return Ok(Some((card, place)));
        }
        notes.push(format!("`{place}` lies beside the weights but is no model card, so it is ignored"));
    }
    let Some(text) = file.metadata().get(CARD_ENTRY) else {
        return Ok(None);
    };
    let place = format!("{} ({CARD_ENTRY})", request.path.display());
    Ok(Some((ModelCard::read(text.as_bytes()).map_err(at(place.clone()))?, place)))
}

/// The one architecture the tensors fit exactly.
fn recognise_only(path: &str, tensors: &[TensorInfo]) -> Result<Architecture, ModelError> {
    let path = path.to_owned();
    match recognise(tensors) {
        Some(best) if best.fit.is_exact() && best.ties.is_empty() => Ok(best.architecture),
        Some(best) if best.fit.is_exact() => {
            let mut candidates = vec![best.architecture.name];
            candidates.extend(best.ties);
            Err(ModelError::Ambiguous { path, candidates })
        }
        best => Err(ModelError::NotRecognised { path, best: best.map(Box::new) }),
    }
}

fn load_params(
    graph: &Graph,
    sources: &Sources,
    load: impl Fn(&str) -> Result<Tensor, ModelError>,
) -> Result<HashMap<String, Tensor>, ModelError> {
    let mut params = HashMap::new();
    for param in graph.params() {
        let (name, layout) = &sources[&param.name];
        let mut tensor = load(name)?;
        let second = second_head(&param.name).and_then(|second| sources.get(&second));
        if let Some((second, _)) = second {
            tensor = join_heads(&tensor, &load(second)?);
        }
        params.insert(param.name, arrange(tensor, *layout, &param.shape));
    }
    Ok(params)
}

fn file_stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    stem.to_string_lossy().into_owned()
}
