use super::answers::match_file;
use super::guesses::Seen;
use super::names::ClassNames;
use super::*;
use crate::open::OpenedData;
use crate::{Basis, Device, FlipProtocol, Ledger, RunError, Scope, ScoreOptions, Setting, SourcePass, Unwatched};
use flipcast_estimate::{Embeddings, Estimate, MarginalReference, Outputs, Reference, fit_temperature};
use flipcast_images::dataset::InMemory;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_record::RecordStore;

fn model() -> Model {
    let names = ["ant", "bee", "cow"].map(str::to_owned).to_vec();
    let model = Model::random("cifar_resnet8_w4", 3, 1).unwrap().with_class_names(names).unwrap();
    model.with_preprocess(Preprocess::normalise_only(Normalise::half()))
}

/// Images `0.jpg` to `99.jpg`, answered `ant` more and more surely.
fn seen() -> Seen {
    let logits = (0..100).flat_map(|i| [0.02 * i as f32, 0.0, -1.0]).collect();
    let pass = SourcePass {
        indices: (0..100).collect(),
        labels: vec![Label::Unknown; 100],
        outputs: Outputs::new(logits, 3).unwrap(),
        embeddings: Embeddings::new(vec![0.0; 100], 1).unwrap(),
    };
    Seen::new((0..100).map(|i| format!("{i}.jpg")).collect(), pass, 1.0)
}

fn labelled(text: &str) -> Result<(usize, usize), LabelFileError> {
    let scope = Scope::new(3, None);
    let names = ClassNames::new(&model(), &scope);
    let file = LabelFile::parse(text)?;
    match match_file(&file, &seen(), &names, &scope, "photos#sample:100:0@fog:3") {
        Ok(found) => Ok((found.answers.len(), found.answers.iter().filter(|answer| answer.right).count())),
        Err(RunError::LabelFile(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

const FIVE: &str = "0.jpg,ant\n1.jpg,0\n2.jpg,BEE\nphotos/3.jpg,2\n4.jpg,ant\n";

#[test]
fn labels_are_understood_by_name_and_number_and_images_by_id_and_path() {
    // The first answer is `ant` because the first of equals counts.
    assert_eq!(labelled(&format!("image,label\n{FIVE}")).unwrap(), (5, 3));
    let right: String = (0..7).map(|i| format!("{i}.jpg,{}\n", i % 2)).collect();
    assert_eq!(labelled(&format!("image,right\n{right}8.jpg,\n")).unwrap(), (7, 3));
}

#[test]
fn what_does_not_fit_the_images_or_the_model_is_named() {
    let refused = |more: &str| labelled(&format!("image,label\n{FIVE}{more}")).expect_err(more);
    assert!(matches!(refused("100.jpg,ant\n"), LabelFileError::UnknownImage { line: 7, images: 100, .. }));
    assert!(matches!(refused("7.jpg,ant\n0.jpg,ant\n"), LabelFileError::Twice { line: 8, .. }));
    for label in ["ent", "3", "-1"] {
        let error = refused(&format!("7.jpg,{label}\n"));
        assert!(matches!(error, LabelFileError::UnknownClass { line: 7, classes: 3, .. }), "{error}");
    }
    assert!(matches!(labelled("image,label\n"), Err(LabelFileError::Empty { .. })));
    assert!(matches!(labelled("image,label\n1.jpg,\n"), Err(LabelFileError::Empty { .. })));
    assert!(matches!(labelled("image,label\n1.jpg,ant\n"), Err(LabelFileError::TooFew { found: 1, expected: 5 })));
}

#[test]
fn strata_must_be_those_of_the_guesses_up_to_rounding() {
    // Two strata: images 0 to 49, and 50 to 99.
    let rows = |stratum_of_9: usize, stratum_of_49: usize| {
        let low = format!("9.jpg,ant,{stratum_of_9}\n49.jpg,ant,{stratum_of_49}\n1.jpg,ant,0\n");
        format!("image,label,stratum\n{low}80.jpg,bee,1\n99.jpg,ant,1\n98.jpg,ant,1\n")
    };
    assert_eq!(labelled(&rows(0, 0)).unwrap(), (6, 5));
    assert!(matches!(labelled(&rows(1, 0)), Err(LabelFileError::OtherStratum { line: 2, found: 1, expected: 0, .. })));
    // Images 49 and 50 are 0.005 apart: more than rounding.
    assert!(matches!(labelled(&rows(0, 1)), Err(LabelFileError::OtherStratum { line: 3, .. })));
    let one_sided: String = (0..6).map(|i| format!("{i}.jpg,ant,0\n")).collect();
    let text = format!("image,label,stratum\n{one_sided}99.jpg,,1\n");
    assert!(matches!(labelled(&text), Err(LabelFileError::StratumWithoutLabel { stratum: 1 })));
}

/// What three images, one of each class, teach.
fn basis(classes: usize) -> Basis {
    let outputs = Outputs::new(vec![1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0], classes).unwrap();
    let labels = [0, 1, 2];
    let value = serde_json::json!({
        "options": ScoreOptions::default(),
        "reference": Reference::fit(&outputs, &labels).unwrap(),
        "marginals": MarginalReference::fit(&outputs, &labels).unwrap(),
        "cott_threshold": 0.5,
        "temperature": fit_temperature(&outputs, &labels).unwrap(),
    });
    serde_json::from_value(value).unwrap()
}

#[test]
fn asked_images_that_are_labelled_tell_the_accuracy_and_are_kept() {
    let model = model();
    let picture = |i: usize| {
        let rgb = (0..32 * 32 * 3).map(|j| ((i * 37 + j * (1 + i % 3)) % 256) as u8).collect();
        Some((Image::new(32, 32, rgb)?, Label::Class((i % 3) as u32)))
    };
    let images: Vec<(Image, Label)> = (0..120).filter_map(picture).collect();
    let data = OpenedData::new("new", InMemory::new(images), &model).unwrap();
    let (request, protocol) = (data.request(), FlipProtocol::named("statistics").unwrap());
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let mut guesses = ImageGuesses::new(&setting, &request, 1.0);

    // Labels of all images leave no doubt, whether they were asked for or known.
    let asked = guesses.choose_images(120, 5, &mut Unwatched).unwrap();
    assert_eq!(asked.iter().map(|asked| asked.stratum).max(), Some(1));
    assert!(asked.iter().all(|asked| ["ant", "bee", "cow"].contains(&asked.predicted.as_str())));
    let label = |asked: &AskedImage| {
        let place = (0..120).find(|&i| request.dataset.id(i) == asked.image).unwrap();
        format!("{},{},{}\n", asked.image, place % 3, asked.stratum)
    };
    let text: String = asked.iter().map(label).collect();
    let file = LabelFile::parse(&format!("image,label,stratum\n{text}")).unwrap();
    let folder = std::env::temp_dir().join(format!("flipcast-few-labels-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut ledger = Ledger::new(RecordStore::open(&folder.join("records.jsonl")).unwrap());
    let found = guesses.with_labels(LabelSource::File(&file), 0.9, &mut ledger, &mut Unwatched).unwrap();
    assert_eq!((found.labels, found.strata, found.images), (120, 2, 120));
    assert!((found.powered.estimate.accuracy - found.accuracy.unwrap()).abs() < 1e-9);
    let known = LabelSource::Known { labels: 120, seed: 5 };
    assert_eq!(guesses.with_labels(known, 0.9, &mut ledger, &mut Unwatched).unwrap(), found);
    let few = LabelSource::Known { labels: 4, seed: 5 };
    assert!(guesses.with_labels(few, 0.9, &mut ledger, &mut Unwatched).is_err());

    // Nothing is looked at again: a network that would be needed is not made.
    let mut again = ImageGuesses::new(&setting, &request, 1.0);
    assert_eq!(again.with_labels(LabelSource::File(&file), 0.9, &mut ledger, &mut Unwatched).unwrap(), found);
    assert!(!again.has_looked());

    let basis = basis(3);
    let accuracy = Estimate::around(0.5, 0.1, Vec::new());
    let by_class = guesses.by_class(&accuracy, &basis, 0.9, &mut ledger, &mut Unwatched).unwrap();
    assert_eq!(by_class.by_class.classes.iter().map(|class| class.answered).sum::<usize>(), 120);
    assert_eq!(again.by_class(&accuracy, &basis, 0.9, &mut ledger, &mut Unwatched).unwrap(), by_class);
    assert!(!again.has_looked());
    std::fs::remove_dir_all(&folder).unwrap();
}
