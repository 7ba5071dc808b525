use super::plain_name;
use flipcast_ground::{Hint, nearest_quoted};
use flipcast_images::Label;
use flipcast_images::dataset::{DataError, Dataset, Relabelled, Subset};
use flipcast_images::labelspace::{
    ClassSpace, Decision, FolderClass, LabelError, LabelSpace, Rule, SpaceClass, builtin, builtin_names,
    imagenet_index_of_wnid, imagenet_name,
};
use flipcast_models::Model;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Classes of ImageNet-1k, whose names and WordNet ids are known.
const IMAGENET_CLASSES: usize = 1000;
/// Most class names an error lists.
const MAX_NAMED: usize = 5;
/// The largest table that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Which classes of a model stand for the classes of a dataset that has others.
///
/// A table has a row `data class,model class` for every pair, by name or by number. Several classes of the data may be one of the
/// model's, and one may be several; a data class with an empty model class is left out. Rows about classes that the data does not
/// have do no harm, but a class of the data without a row is an error.
///
/// Where every class of the data is one of the model's, the model decides between all of its outputs. Where some are several, it decides between
/// the classes of the data, each of which has the total probability of its outputs.
///
/// ```
/// use flipcast_run::open::ClassMap;
///
/// let map = ClassMap::read("data class,model class\ntabby,cat\nsiamese,cat\nunknown,\n".as_bytes())?;
/// let stimuli = ClassMap::published("16-class-imagenet")?;
/// # Ok::<(), flipcast_run::open::ClassMapError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassMap(Source);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Model classes by data class, in the table's order.
    Table(Vec<(String, Vec<String>)>),
    /// A published class space of ImageNet's outputs.
    Published(Arc<LabelSpace>),
}

/// Why a class map cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClassMapError {
    /// The file cannot be read.
    #[error("cannot read the class map `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Neither a file nor a published class space.
    #[error("`{name}` is neither a file nor a published class space, which are {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// Published names.
        known: String,
    },
    /// A row that is no pair.
    #[error("line {line} of the class map has {found} fields, expected `data class,model class`")]
    Row {
        /// Its line, from 1.
        line: u64,
        /// Fields found.
        found: usize,
    },
    /// Not CSV.
    #[error("the class map is malformed")]
    Csv {
        /// Where and why.
        #[source]
        source: csv::Error,
    },
    /// A model class that the model does not have.
    #[error("the class map names `{name}` as a class of the model, which has {outputs} classes{}", nearest.as_ref().map_or_else(String::new, |names| format!("; the nearest are {names}")))]
    ModelClass {
        /// What the map says.
        name: String,
        /// Classes of the model.
        outputs: usize,
        /// Names of the model's classes, nearest first.
        nearest: Option<String>,
    },
    /// Classes of the data without a row.
    #[error("the class map says nothing about {missing} of the dataset's classes, such as {examples}")]
    Unmapped {
        /// How many.
        missing: usize,
        /// Some of them.
        examples: String,
    },
    /// A class of the model for classes of the data that differ otherwise.
    #[error("the class map gives output {output} of the model to `{first}` and `{second}`, whose other outputs differ")]
    Overlap {
        /// The output.
        output: u32,
        /// A class of the data.
        first: String,
        /// Another.
        second: String,
    },
    /// Every image belongs to a class that is left out.
    #[error("the class map leaves out every image")]
    NothingLeft,
    /// A published class space of another network.
    #[error("the class space `{space}` is about a network with {expected} outputs, but the model has {found}")]
    OtherOutputs {
        /// The class space.
        space: String,
        /// Outputs it speaks of.
        expected: usize,
        /// The model's.
        found: usize,
    },
    /// The labels cannot be read.
    #[error("cannot read the labels")]
    Data(#[from] DataError),
    /// The class space cannot be used.
    #[error("the class space cannot be used")]
    Space(#[from] LabelError),
}

impl Hint for ClassMapError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unmapped { .. } => "add rows for them; an empty model class leaves a class out",
            Self::Overlap { .. } => {
                "give both the same classes of the model, which makes them one, or no class in common"
            }
            Self::ModelClass { nearest: None, .. } => "the model's classes have no names: use numbers, counted from 0",
            Self::Row { .. } => "write one pair per line; a class that is several of the model's has several lines",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl ClassMap {
    /// The table in the file `text`, or the published class space of that name.
    pub fn find(text: &str) -> Result<Self, ClassMapError> {
        match builtin_names().any(|name| name == text) && !Path::new(text).exists() {
            true => Self::published(text),
            false => Self::load(Path::new(text)),
        }
    }

    /// The table at `path`.
    pub fn load(path: &Path) -> Result<Self, ClassMapError> {
        use std::io::Read;
        let read = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => {
                let name = path.display().to_string();
                let known = builtin_names().collect::<Vec<_>>().join(", ");
                ClassMapError::Unknown { name, known }
            }
            _ => ClassMapError::Read { path: path.to_owned(), source },
        };
        let mut bytes = Vec::new();
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)).map_err(read)?;
        Self::read(&bytes)
    }

    /// A table from the text of a CSV file. A first row `data class,model class` is its header.
    pub fn read(csv: &[u8]) -> Result<Self, ClassMapError> {
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(csv);
        for (number, record) in reader.into_records().enumerate() {
            let record = record.map_err(|source| ClassMapError::Csv { source })?;
            let line = record.position().map_or(0, csv::Position::line);
            let fields: Vec<&str> = record.iter().collect();
            let [data, model] = fields[..] else {
                return Err(ClassMapError::Row { line, found: fields.len() });
            };
            if number == 0 && plain_name(data) == "data class" && plain_name(model) == "model class" {
                continue;
            }
            let place = *places.entry(plain_name(data)).or_insert_with(|| {
                rows.push((data.to_owned(), Vec::new()));
                rows.len() - 1
            });
            if !model.is_empty() {
                rows[place].1.push(model.to_owned());
            }
        }
        Ok(Self(Source::Table(rows)))
    }

    /// The published class space called `name`, such as the 16 classes of texture-shape stimuli, `16-class-imagenet`. Class
    /// folders have its names, and decisions are made as published.
    pub fn published(name: &str) -> Result<Self, ClassMapError> {
        Ok(Self(Source::Published(builtin(name)?)))
    }

    /// `dataset` with labels that a decision of `model` is compared with, and the decision.
    pub(super) fn apply(
        &self,
        dataset: Arc<dyn Dataset>,
        model: &Model,
    ) -> Result<(Arc<dyn Dataset>, ClassSpace), ClassMapError> {
        match &self.0 {
            Source::Table(rows) => apply_table(rows, dataset, model),
            Source::Published(space) => apply_published(space, dataset, model),
        }
    }
}

fn apply_published(
    space: &Arc<LabelSpace>,
    dataset: Arc<dyn Dataset>,
    model: &Model,
) -> Result<(Arc<dyn Dataset>, ClassSpace), ClassMapError> {
    if space.outputs() != model.num_classes() {
        let (space, expected) = (space.name().to_owned(), space.outputs());
        return Err(ClassMapError::OtherOutputs { space, expected, found: model.num_classes() });
    }
    let decided = ClassSpace::new(Arc::clone(space), space.upstream_decision())?;
    // Labels without names are taken as the class space numbers them.
    if dataset.classes().is_empty() {
        return Ok((dataset, decided));
    }
    let label = |folder: &String| {
        Ok(match space.label_of_folder(folder)? {
            FolderClass::Labelled(label) => Some(label),
            FolderClass::Unused => None,
        })
    };
    let labels: Vec<Option<Label>> = dataset.classes().iter().map(label).collect::<Result<_, LabelError>>()?;
    Ok((relabelled(dataset, labels, space.class_names())?, decided))
}

fn apply_table(
    rows: &[(String, Vec<String>)],
    dataset: Arc<dyn Dataset>,
    model: &Model,
) -> Result<(Arc<dyn Dataset>, ClassSpace), ClassMapError> {
    let known: HashMap<String, &[String]> =
        rows.iter().map(|(name, outputs)| (plain_name(name), outputs.as_slice())).collect();
    let names = class_names(&*dataset)?;
    // Outputs of every class of the data; none where it is left out.
    let outputs_of = OutputNames::new(model);
    let (mut outputs, mut missing) = (Vec::new(), Vec::new());
    for (class, name) in &names {
        let number = class.to_string();
        let Some(row) = known.get(&plain_name(name)).or_else(|| known.get(&number)) else {
            missing.push(format!("`{name}`"));
            continue;
        };
        let several: BTreeSet<u32> = row.iter().map(|text| outputs_of.find(text)).collect::<Result<_, _>>()?;
        outputs.push((*class, name, several));
    }
    if !missing.is_empty() {
        let examples = missing[..missing.len().min(MAX_NAMED)].join(", ");
        return Err(ClassMapError::Unmapped { missing: missing.len(), examples });
    }
    let space_name = space_name(&outputs);
    let count = names.keys().last().map_or(0, |&class| class as usize + 1);
    let mut labels: Vec<Option<Label>> = vec![None; count];
    if outputs.iter().all(|(_, _, several)| several.len() <= 1) {
        for (class, _, several) in &outputs {
            labels[*class as usize] = several.first().map(|&output| Label::Class(output));
        }
        let space = LabelSpace::index(&space_name, model.num_classes());
        let names = model.class_names().map(<[String]>::to_vec).unwrap_or_default();
        return Ok((relabelled(dataset, labels, names)?, ClassSpace::new(Arc::new(space), Decision::Full)?));
    }
    // Classes of the data with the same outputs are one class.
    let mut classes: Vec<SpaceClass> = Vec::new();
    let mut class_of_outputs: HashMap<&BTreeSet<u32>, usize> = HashMap::new();
    let mut owner: HashMap<u32, usize> = HashMap::new();
    for (class, name, several) in outputs.iter().filter(|(_, _, several)| !several.is_empty()) {
        let place = match class_of_outputs.get(several) {
            Some(&place) => {
                write!(classes[place].name, " or {name}").expect("a string takes any text");
                place
            }
            None => {
                for &output in several {
                    if let Some(other) = owner.insert(output, classes.len()) {
                        let (first, second) = (classes[other].name.clone(), (*name).clone());
                        return Err(ClassMapError::Overlap { output, first, second });
                    }
                }
                class_of_outputs.insert(several, classes.len());
                let outputs = several.iter().copied().collect();
                classes.push(SpaceClass { name: (*name).clone(), wnid: None, folders: Vec::new(), outputs });
                classes.len() - 1
            }
        };
        labels[*class as usize] = Some(Label::Class(place as u32));
    }
    let space = LabelSpace::new(&space_name, Rule::Map, model.num_classes(), classes)?;
    let space = ClassSpace::new(Arc::new(space), Decision::SumProbability)?;
    Ok((relabelled(dataset, labels, space.labels().class_names())?, space))
}

/// The classes of a dataset by number: with their names, or those that its labels have.
fn class_names(dataset: &dyn Dataset) -> Result<BTreeMap<u32, String>, DataError> {
    if !dataset.classes().is_empty() {
        let named = (0..).zip(dataset.classes()).filter(|(_, name)| !name.is_empty());
        return Ok(named.map(|(class, name)| (class, name.clone())).collect());
    }
    let mut found = BTreeMap::new();
    for index in 0..dataset.len() {
        let classes = match dataset.label(index)? {
            Label::Unknown => Vec::new(),
            Label::Class(class) => vec![class],
            Label::AnyOf(classes) => classes,
        };
        found.extend(classes.into_iter().map(|class| (class, class.to_string())));
    }
    Ok(found)
}

/// `dataset` with new labels by class, without the images whose class has none.
fn relabelled(
    dataset: Arc<dyn Dataset>,
    labels: Vec<Option<Label>>,
    names: Vec<String>,
) -> Result<Arc<dyn Dataset>, ClassMapError> {
    let leaves_out = labels.iter().any(Option::is_none);
    let mut kept = Vec::new();
    if leaves_out {
        let has_label = |class: u32| labels.get(class as usize).is_some_and(Option::is_some);
        for index in 0..dataset.len() {
            let keep = match dataset.label(index)? {
                Label::Unknown => true,
                Label::Class(class) => has_label(class),
                Label::AnyOf(classes) => classes.into_iter().all(has_label),
            };
            kept.extend(keep.then_some(index));
        }
        if kept.is_empty() {
            return Err(ClassMapError::NothingLeft);
        }
    }
    let all = leaves_out && kept.len() < dataset.len();
    let dataset: Arc<dyn Dataset> = if all { Arc::new(Subset::new(dataset, kept)?) } else { dataset };
    let labels = labels.into_iter().map(Option::unwrap_or_default).collect();
    Ok(Arc::new(Relabelled::new(dataset, labels, names)))
}

/// What protocols call the space: other tables have other names.
fn space_name(outputs: &[(u32, &String, BTreeSet<u32>)]) -> String {
    let mut hash = Sha256::new();
    for (class, name, several) in outputs {
        hash.update(format!("{class}\t{name}\t{several:?}\n"));
    }
    hash.finalize()[..6].iter().fold("map-".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes any text");
        text
    })
}

/// The outputs of a model by every name they have.
struct OutputNames<'a> {
    model: &'a Model,
    by_name: HashMap<String, u32>,
}

impl<'a> OutputNames<'a> {
    fn new(model: &'a Model) -> Self {
        let own = model.class_names().unwrap_or_default().iter().map(|name| plain_name(name)).zip(0..);
        Self { model, by_name: own.collect() }
    }

    /// The output called `text`: by the model's own names, ImageNet's where it has as many classes, or by number.
    fn find(&self, text: &str) -> Result<u32, ClassMapError> {
        let outputs = self.model.num_classes();
        let name = plain_name(text);
        let imagenet = || {
            let by_name = || (0..outputs).find(|&output| imagenet_name(output).is_some_and(|n| plain_name(n) == name));
            imagenet_index_of_wnid(text).or_else(|| by_name().map(|output| output as u32))
        };
        let number = || text.parse().ok().filter(|&output: &u32| (output as usize) < outputs);
        let found = self.by_name.get(&name).copied().or_else(number);
        let found = found.or_else(|| (outputs == IMAGENET_CLASSES).then(imagenet)?);
        found.ok_or_else(|| {
            let names = self.model.class_names();
            let nearest = names.map(|names| nearest_quoted(text, names.iter().map(String::as_str)));
            ClassMapError::ModelClass { name: text.to_owned(), outputs, nearest }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::Image;
    use flipcast_images::dataset::InMemory;

    fn model(names: &[&str]) -> Model {
        let model = Model::random("cifar_resnet8_w4", names.len(), 1).unwrap();
        model.with_class_names(names.iter().map(|&name| name.to_owned()).collect()).unwrap()
    }

    fn data(classes: &[&str]) -> Arc<dyn Dataset> {
        let image = || Image::new(1, 1, vec![0; 3]).unwrap();
        let labels = (0..classes.len() as u32).map(|class| (image(), Label::Class(class)));
        Arc::new(InMemory::new(labels).with_classes(classes.iter().copied()))
    }

    fn labels(dataset: &dyn Dataset) -> Vec<Label> {
        (0..dataset.len()).map(|index| dataset.label(index).unwrap()).collect()
    }

    #[test]
    fn several_classes_may_be_one_and_some_may_be_left_out() {
        let map =
            ClassMap::read(b"data class,model class\nTabby,cat\nsiamese, cat\nrex,dog\nother,\nabsent,fish\n").unwrap();
        let (data, space) =
            map.apply(data(&["other", "rex", "siamese", "tabby"]), &model(&["cat", "dog", "fish"])).unwrap();
        assert_eq!(labels(&*data), [1, 0, 0].map(Label::Class));
        assert_eq!((space.decision(), space.num_classes(), space.labels().rule()), (Decision::Full, 3, Rule::Index));
        assert!(space.labels().name().starts_with("map-"), "{}", space.labels().name());
    }

    #[test]
    fn a_class_of_several_outputs_has_their_total_probability() {
        let map = ClassMap::read(b"pet,cat\npet,dog\nhound,1\nhound,0\nwater,fish\n").unwrap();
        let (data, space) = map.apply(data(&["hound", "pet", "water"]), &model(&["cat", "dog", "fish"])).unwrap();
        assert_eq!(labels(&*data), [0, 0, 1].map(Label::Class));
        assert_eq!(space.labels().class_names(), ["hound or pet", "water"]);
        assert_eq!(space.decide(&[1.0, 1.0, 1.5]).unwrap(), Some(0));
        let crossed = ClassMap::read(b"a,cat\na,dog\nb,dog\n").unwrap();
        let refused = crossed.apply(super::tests::data(&["a", "b"]), &model(&["cat", "dog"])).map(|_| ());
        assert!(matches!(refused, Err(ClassMapError::Overlap { output: 1, .. })), "{refused:?}");
    }

    #[test]
    fn labels_without_names_are_mapped_by_number() {
        let map = ClassMap::read(b"0,fish\n2,cat\n").unwrap();
        let image = || Image::new(1, 1, vec![0; 3]).unwrap();
        let numbered = InMemory::new([2, 0].map(|class| (image(), Label::Class(class))));
        let (data, _) = map.apply(Arc::new(numbered), &model(&["cat", "dog", "fish"])).unwrap();
        assert_eq!(labels(&*data), [0, 2].map(Label::Class));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let refused = |csv: &str, classes: &[&str]| {
            let map = ClassMap::read(csv.as_bytes()).unwrap();
            map.apply(data(classes), &model(&["cat", "dog"])).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused("a,cow\n", &["a"]).contains("names `cow`"));
        assert!(refused("a,2\n", &["a"]).contains("2 classes"));
        assert!(refused("a,cat\n", &["a", "b"]).contains("such as `b`"));
        assert!(refused("a,\n", &["a"]).contains("leaves out every image"));
        assert!(matches!(ClassMap::read(b"a\n"), Err(ClassMapError::Row { line: 1, found: 1 })));
        assert!(matches!(ClassMap::find("16-class"), Err(ClassMapError::Unknown { .. })));
    }

    #[test]
    fn the_stimuli_of_16_classes_are_decided_as_published() {
        let map = ClassMap::find("16-class-imagenet").unwrap();
        let refused = map.apply(data(&["airplane"]), &model(&["cat", "dog"])).map(|_| ());
        assert!(matches!(refused, Err(ClassMapError::OtherOutputs { expected: 1000, found: 2, .. })));
        let imagenet = Model::random("cifar_resnet8_w4", 1000, 1).unwrap();
        let (data, space) = map.apply(data(&["airplane", "oven"]), &imagenet).unwrap();
        assert_eq!((space.decision(), space.num_classes()), (Decision::MeanProbability, 16));
        assert_eq!(labels(&*data), [0, 14].map(Label::Class));
    }
}
