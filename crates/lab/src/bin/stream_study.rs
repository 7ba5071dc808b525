//! `flipcast adapt --method auto` and fixed methods on streams that change.
//!
//! A calibration with advice comes first, on half of labelled images; `--every 3` takes every third of the family's shifts to save time:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin stream_study -- calibrate \
//!     --weights resnet26.cifar100.safetensors --data cifar100_test.tar#first-half --limit 1024 --every 3 --out cifar100.calibration.json
//! ```
//!
//! Then streams of five stretches from the other half: clean, a corruption, clean, another corruption, other class shares. Each of the 15 corruptions of ImageNet-C at severities 3 and 5 comes once in fifteen streams; the last stretch
//! has 30% of the classes, skewed shares (Dirichlet 0.1), or 30% of the classes under the stream's first corruption, in turn. One line of CSV for every stream, stretch and method, on standard output:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin stream_study -- \
//!     --weights resnet26.cifar100.safetensors --data cifar100_test.tar#second-half --calibration cifar100.calibration.json > rows.csv
//! ```
//!
//! Fixed methods are `--methods`; `candidate` among them is what `auto` adapts with, alone. `--device cuda` runs both on a GPU. `judge rows.csv ...` says how `auto` compares.

use flipcast::adapt::{GuardConfig, Norms, Target};
use flipcast::corrupt::CorruptionSet;
use flipcast::corrupt::registry::names;
use flipcast::estimate::ClassShares;
use flipcast::images::dataset::Subset;
use flipcast::images::loader::Order;
use flipcast::images::preprocess::{Preprocess, Resize};
use flipcast::run::adapt::{AdaptJob, Arbiter, SourceRule, StepWatcher, run};
use flipcast::run::advise::{
    ADVICE_IMAGES, AdviceJob, AdviceOrder, Followed, TRIAL_BATCH, advise, follow, learn_advice,
};
use flipcast::run::{CalibrationShift, HELD_OUT, Images, corrupted};
use flipcast::{
    Calibration, CalibrationJob, CellRequest, DataRequest, FlipProtocol, Image, InMemory, Ledger, Loader, LoaderConfig,
    Logits, MethodConfig, Model, ModelRequest, OpenedData, RecordStore, Setting, Unwatched, calibrate,
};
use flipcast_ground::SplitMix64;
use flipcast_lab::StudyArguments;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Images of a stretch.
const STRETCH: usize = 1024;
/// Fixed methods, unless `--methods` names others; `source` is the first.
const METHODS: &str = "source,bn,tent,rdumb";
/// What `auto` adapts with, without the arbiter between its answers and the source model's.
const ALONE: &str = "candidate";
const HEADER: &str = "stream,stretch,images,method,accuracy,as_source,worst_window";

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "calibrate" => make_calibration(rest),
        Some((first, files)) if first == "judge" => judge(files),
        _ => make_rows(&arguments),
    }
}

fn open(arguments: &[String]) -> Outcome<(Model, OpenedData)> {
    let option = |name| StudyArguments::option(arguments, name);
    let weights = option("--weights").ok_or("--weights FILE is missing")?;
    let model = ModelRequest::new(Path::new(weights)).open()?;
    let data = DataRequest::new(option("--data").ok_or("--data PATH is missing")?).open(&model)?;
    Ok((model, data))
}

fn make_calibration(arguments: &[String]) -> Outcome<()> {
    let option = |name| StudyArguments::option(arguments, name);
    let (model, data) = open(arguments)?;
    let out = option("--out").ok_or("--out FILE is missing")?;
    let limit = option("--limit").unwrap_or("1024").parse()?;
    let every: usize = option("--every").unwrap_or("3").parse()?;
    let mut order: Vec<usize> = (0..data.dataset.len()).collect();
    SplitMix64::new(0).shuffle(&mut order);
    order.truncate(limit);
    let dataset = Arc::new(Subset::new(data.dataset.clone(), order)?);
    let protocol = FlipProtocol::for_network("statistics", model.graph())?;
    let setting = Setting { model: &model, protocol: &protocol, device: StudyArguments::device(arguments, 1)? };
    let shifts = CalibrationShift::family().into_iter().step_by(every.max(1)).collect();
    let job = CalibrationJob { shifts, ..CalibrationJob::new(setting, CellRequest { dataset, ..data.request() }) };
    let mut ledger = Ledger::new(RecordStore::open(Path::new(&format!("{out}.cells.jsonl")))?);
    let mut made = calibrate(&job, &mut ledger, &mut Unwatched)?;
    made.advice = Some(learn_advice(&job, &made.basis, &mut ledger, &mut Told)?);
    Ok(std::fs::write(out, made.to_json()?)?)
}

/// Says which cell is tried.
struct Told;

impl flipcast::Watcher for Told {
    fn cell(&mut self, name: &str, number: usize, total: usize) {
        eprintln!("{number}/{total} {name}");
    }
}

/// Part of a stream.
struct Stretch {
    name: String,
    spec: Option<String>,
    shares: ClassShares,
}

/// The stretches of stream `number`.
fn stretches(number: usize, seed: u64) -> Vec<Stretch> {
    let kinds = names(CorruptionSet::ImageNetC).into_iter().filter(|name| !HELD_OUT.contains(name));
    let mut all: Vec<String> = kinds.flat_map(|name| [3, 5].map(|severity| format!("{name}:{severity}"))).collect();
    SplitMix64::new(seed).shuffle(&mut all);
    let streams = all.len() / 2;
    let (first, second) = (all[number % streams].clone(), all[streams + number % streams].clone());
    let part =
        |name: &str, spec: Option<&String>, shares| Stretch { name: name.to_owned(), spec: spec.cloned(), shares };
    let last = match number % 3 {
        0 => part("few classes", None, ClassShares::Subset30),
        1 => part("skewed", None, ClassShares::Dirichlet01),
        _ => part(&format!("few classes {first}"), Some(&first), ClassShares::Subset30),
    };
    vec![
        part("clean", None, ClassShares::Sample),
        part(&first, Some(&first), ClassShares::Sample),
        part("clean again", None, ClassShares::Sample),
        part(&second, Some(&second), ClassShares::Sample),
        last,
    ]
}

/// Images as sets store them, resized and cropped where the network's rule says so in bytes, stretch after stretch, and how many each has: whole batches.
fn build(data: &OpenedData, stretches: &[Stretch], classes: usize, seed: u64) -> Outcome<(InMemory, Vec<usize>)> {
    let labels = (0..data.dataset.len())
        .map(|index| Ok(data.dataset.label(index)?.class().ok_or("an image has no class")? as usize))
        .collect::<Outcome<Vec<usize>>>()?;
    let (mut stream, mut sizes) = (Vec::new(), Vec::new());
    for (number, stretch) in stretches.iter().enumerate() {
        let mut rows = stretch.shares.draw(&labels, classes, 2 * STRETCH, SplitMix64::mix(seed ^ number as u64))?;
        rows.truncate(STRETCH.min(rows.len() / TRIAL_BATCH * TRIAL_BATCH));
        sizes.push(rows.len());
        let dataset = Arc::new(Subset::new(data.dataset.clone(), rows)?);
        let mut request = CellRequest { dataset, seed, ..data.request() };
        if let Resize::ExactFloat(_) = request.config.preprocess.resize {
            // Enlarged when the stream is read.
            request.config.preprocess = Preprocess::normalise_only(data.preprocess.normalise.clone());
        }
        let request = match &stretch.spec {
            Some(spec) => corrupted(&request, spec)?,
            None => request,
        };
        for loaded in Loader::new(request.dataset.clone(), request.config.clone())? {
            let loaded = loaded?;
            let batch = &loaded.batch;
            let (bytes, _) = batch.bytes().ok_or("images are no bytes")?;
            for (pixels, label) in bytes.chunks_exact(batch.height() * batch.width() * 3).zip(&loaded.labels) {
                stream.push((
                    Image::new(batch.width(), batch.height(), pixels.to_vec()).ok_or("no image")?,
                    label.clone(),
                ));
            }
        }
    }
    Ok((InMemory::new(stream), sizes))
}

/// Notes every answer.
#[derive(Default)]
struct Answers(Vec<usize>);

impl StepWatcher for Answers {
    fn logits(&mut self, logits: Logits<'_>) {
        self.0.extend(logits.argmax());
    }
}

fn make_rows(arguments: &[String]) -> Outcome<()> {
    let option = |name| StudyArguments::option(arguments, name);
    let (model, data) = open(arguments)?;
    let calibration = Calibration::load(Path::new(option("--calibration").ok_or("--calibration FILE is missing")?))?;
    calibration.check_fits(&model, &data.preprocess, &data.scope)?;
    let fit = calibration.advice.as_ref().ok_or("the calibration has no advice")?;
    let temperature = calibration.basis.temperature.value;
    let streams: usize = option("--streams").unwrap_or("15").parse()?;
    let methods: Vec<&str> = option("--methods").unwrap_or(METHODS).split(',').collect();
    let trial_images: usize = option("--trial-images").map_or(Ok(ADVICE_IMAGES), str::parse)?;
    let seed: u64 = option("--seed").unwrap_or("0").parse()?;
    let device = StudyArguments::device(arguments, 1)?;
    let norms = Norms::of(&model.graph().affine_table());
    let target = Target { num_classes: model.num_classes(), norms, batch_size: TRIAL_BATCH };
    let config = LoaderConfig {
        batch_size: TRIAL_BATCH,
        threads: 1,
        order: Order::Stored,
        ..LoaderConfig::new(data.preprocess.for_ready_images())
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{HEADER}")?;
    for stream in 0..streams {
        let parts = stretches(stream, seed);
        let (images, sizes) = build(&data, &parts, model.num_classes(), SplitMix64::mix(seed ^ (stream as u64) << 8))?;
        let images = Arc::new(images);
        let labels: Vec<Option<usize>> = (0..flipcast::Dataset::len(&*images))
            .map(|index| Ok(flipcast::Dataset::label(&*images, index)?.class().map(|class| class as usize)))
            .collect::<Outcome<_>>()?;
        let adapt = |method: &MethodConfig, anchored: Option<Model>, arbiter: Option<Arbiter>| -> Outcome<Vec<usize>> {
            let mut answers = Answers::default();
            let job = AdaptJob {
                model: &model,
                dataset: images.clone(),
                data: data.identity(),
                loader: config.clone(),
                class_space: None,
                method,
                seed,
                epochs: None,
                steps: None,
                guard: GuardConfig::off(),
                source: if anchored.is_some() || arbiter.is_some() { SourceRule::Predict } else { SourceRule::Skip },
                start: None,
                anchored,
                arbiter,
                watch_every: None,
                clean: Vec::new(),
                device,
                predictions: None,
            };
            run(job, &mut answers)?;
            Ok(answers.0)
        };
        let kept = Images::open(images.clone(), config.clone(), 1 << 30)?;
        let job = AdviceJob {
            model: &model,
            device,
            images: &kept,
            scope: &data.scope,
            fit,
            temperature,
            order: AdviceOrder::Stored,
            limit: trial_images,
            seed,
            level: 0.9,
        };
        let Followed { candidate: chosen, anchored, arbiter } =
            follow(&model, fit, temperature, &advise(&job, &mut Unwatched)?)?;
        let mut found = vec![("auto".to_owned(), adapt(&chosen.config, anchored.clone(), Some(arbiter))?)];
        for method in &methods {
            let answers = match *method {
                ALONE => adapt(&chosen.config, anchored.clone(), None)?,
                _ => adapt(&MethodConfig::default_on(method, target)?, None, None)?,
            };
            found.push(((*method).to_owned(), answers));
        }
        eprintln!("stream {stream}: {}", chosen.name);
        let right = |answers: &[usize]| -> Vec<bool> {
            answers.iter().zip(&labels).map(|(answer, label)| Some(*answer) == *label).collect()
        };
        let source_answers = &found[1].1;
        let source = right(source_answers);
        for (method, answers) in &found {
            let right = right(answers);
            let same: Vec<bool> = answers.iter().zip(source_answers).map(|(own, source)| own == source).collect();
            let mut first = 0;
            let whole = ("whole".to_owned(), 0..right.len());
            let spans = parts.iter().zip(&sizes).map(|(part, size)| {
                first += size;
                (part.name.clone(), first - size..first)
            });
            for (name, span) in spans.chain([whole]) {
                let worst = worst_window(&right[span.clone()], &source[span.clone()]);
                let share = |of: &[bool]| of.iter().filter(|one| **one).count() as f64 / of.len().max(1) as f64;
                let (accuracy, as_source) = (share(&right[span.clone()]), share(&same[span.clone()]));
                let images = span.len();
                writeln!(out, "{stream},{name},{images},{method},{accuracy:.4},{as_source:.4},{worst:.4}")?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// By how much the source model is better on the 1,000 images in a row on which it is most so.
fn worst_window(right: &[bool], source: &[bool]) -> f64 {
    let ahead: Vec<i32> = source.iter().zip(right).map(|(s, r)| i32::from(*s) - i32::from(*r)).collect();
    let width = 1000.min(ahead.len());
    let mut sum: i32 = ahead[..width].iter().sum();
    let mut worst = sum;
    for next in width..ahead.len() {
        sum += ahead[next] - ahead[next - width];
        worst = worst.max(sum);
    }
    f64::from(worst) / width as f64
}

/// Accuracy and the worst window of every method on a stretch of a stream.
type Found = BTreeMap<(usize, String), BTreeMap<String, (f64, f64)>>;

/// Stretches that are judged together: clean, corrupted, other class shares.
fn kind_of(stretch: &str) -> &'static str {
    match stretch {
        "clean" | "clean again" => "clean",
        _ if stretch.starts_with("few classes") || stretch == "skewed" => "shares",
        _ => "corrupted",
    }
}

fn judge(files: &[String]) -> Outcome<()> {
    println!(
        "| network | streams | mean accuracy | auto less the best fixed: mean, worst | streams more than 0.5 below it | \
         worst 1,000 images below the source: auto, the best fixed | clean stretches: auto, source, bn; of auto 3 below the source | corrupted | other class shares |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for file in files {
        let text = std::fs::read_to_string(file)?;
        let mut found = Found::new();
        let columns: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [stream, stretch, method, accuracy, worst] =
                ["stream", "stretch", "method", "accuracy", "worst_window"].map(|name| {
                    let place = columns.iter().position(|column| *column == name);
                    place.and_then(|place| fields.get(place)).copied().unwrap_or_default()
                });
            let row = (accuracy.parse()?, worst.parse()?);
            found.entry((stream.parse()?, stretch.to_owned())).or_default().insert(method.to_owned(), row);
        }
        let whole: Vec<_> = found.iter().filter(|((_, stretch), _)| stretch == "whole").map(|(_, of)| of).collect();
        let count = whole.len().max(1) as f64;
        let mean = |method: &str| 100.0 * whole.iter().map(|of| of[method].0).sum::<f64>() / count;
        let best = |of: &&BTreeMap<String, (f64, f64)>| {
            let fixed = of.iter().filter(|(method, _)| *method != "auto");
            fixed.max_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or((0.0, 0.0), |(_, row)| *row)
        };
        let less: Vec<f64> = whole.iter().map(|of| 100.0 * (of["auto"].0 - best(of).0)).collect();
        let below = less.iter().filter(|less| **less < -0.5).count();
        let fixed = 100.0 * whole.iter().map(|of| best(of).1).fold(0.0, f64::max);
        let worst = 100.0 * whole.iter().map(|of| of["auto"].1).fold(0.0, f64::max);
        let low = less.iter().copied().fold(f64::INFINITY, f64::min);
        let name = Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let named = whole.first().map(|of| of.keys().map(|name| format!("{name} {:.1}", mean(name))).collect());
        let methods: Vec<String> = named.unwrap_or_default();
        let kinds = ["clean", "corrupted", "shares"].map(|kind| {
            let all: Vec<_> = found
                .iter()
                .filter(|((_, stretch), _)| stretch != "whole" && kind_of(stretch) == kind)
                .map(|(_, of)| of)
                .collect();
            let mean = |method: &str| {
                100.0 * all.iter().filter_map(|of| of.get(method)).map(|row| row.0).sum::<f64>() / all.len() as f64
            };
            let lost = all.iter().filter(|of| of["auto"].1 > 0.03).count();
            format!("{:.1}, {:.1}, {:.1}; {lost} of {}", mean("auto"), mean("source"), mean("bn"), all.len())
        });
        println!(
            "| {name} | {} | {} | {:+.1}, {low:+.1} | {below} | {worst:.1}, {fixed:.1} | {} |",
            whole.len(),
            methods.join(", "),
            less.iter().sum::<f64>() / count,
            kinds.join(" | "),
        );
    }
    Ok(())
}
