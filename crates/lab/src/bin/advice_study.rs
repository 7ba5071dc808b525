//! What following `flipcast advise` is worth: every candidate on every cell, and the regret of the advice against the best of them in hindsight.
//!
//! A random half of labelled images teaches, clean and with the shifts of a calibration; on the other half, clean and corrupted, every candidate is run on 2,048 images in
//! random order, with skewed class shares, and sorted by class. One line of CSV for every cell, candidate and part, on standard output:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin advice_study -- \
//!     --weights resnet26.cifar100.safetensors --data cifar100_test.tar --bar cifar-c-bar --device cuda > rows.csv
//! ```
//!
//! `--plain FILE` also runs the candidates with anchored norms without anchors, on cells in random order at severity 3, and writes what they gain.
//!
//! `judge` learns from the rows that teach and follows the advice on the others:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin advice_study -- judge rows.csv ...
//! ```

use flipcast::corrupt::CorruptionSet;
use flipcast::corrupt::registry::names;
use flipcast::estimate::{ClassShares, GainFit, GainSample, GainSignals, Lineup, fit_temperature};
use flipcast::images::dataset::Subset;
use flipcast::images::loader::Order;
use flipcast::run::advise::{
    Anchors, FINALISTS, LEAST_GAIN, TRIAL_BATCH, TrialSetting, candidates, models_of, start_trials,
};
use flipcast::run::{CalibrationShift, HELD_OUT, Images, corrupted};
use flipcast::{CellRequest, Dataset, Unwatched};
use flipcast_ground::SplitMix64;
use flipcast_lab::StudyArguments;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

type Outcome<T> = Result<T, Box<dyn Error>>;

const IMAGES: usize = 2048;
const ORDERS: [&str; 3] = ["random", "skewed", "sorted"];
const HEADER: &str = "role,shift,severity,order,candidate,part,images,source_accuracy,gain,flips,source_confidence,cross,confidence,reverse,\
panel_cross,panel_source,concentration,source_concentration,batch_concentration,source_batch_concentration";

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, files)) if first == "judge" => judge(files),
        _ => make_rows(&arguments),
    }
}

/// One cell of the study.
struct Cell {
    role: &'static str,
    shift: String,
    severity: u8,
    spec: Option<String>,
    order: &'static str,
}

/// Cells to be advised on, and cells that teach.
fn cells(bar: CorruptionSet) -> Vec<Cell> {
    let mut cells = Vec::new();
    for order in ORDERS {
        cells.push(Cell { role: "test", shift: "clean".into(), severity: 0, spec: None, order });
        for (set, prefix) in [(CorruptionSet::ImageNetC, String::new()), (bar, format!("{bar}/"))] {
            for name in names(set).into_iter().filter(|name| !HELD_OUT.contains(name)) {
                let all = set == CorruptionSet::ImageNetC && order == "random";
                for &severity in if all { &[1, 3, 5][..] } else { &[3] } {
                    let shift = format!("{prefix}{name}");
                    let spec = Some(format!("{shift}:{severity}"));
                    cells.push(Cell { role: "test", shift, severity, spec, order });
                }
            }
        }
    }
    for order in ORDERS {
        cells.push(Cell { role: "fit", shift: "clean".into(), severity: 0, spec: None, order });
    }
    for (number, shift) in CalibrationShift::family().into_iter().enumerate() {
        let severity = shift.name.rsplit(':').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        for order in ["random", ["skewed", "sorted"][number % 2]] {
            let spec = Some(shift.name.clone());
            cells.push(Cell { role: "fit", shift: shift.kind.clone(), severity, spec, order });
        }
    }
    cells
}

fn make_rows(arguments: &[String]) -> Outcome<()> {
    let StudyArguments { model, opened, bar, seed, device } = StudyArguments::open(arguments)?;
    let clean = CellRequest { memory_limit: 8 << 30, ..opened.request() };
    let mut order: Vec<usize> = (0..opened.dataset.len()).collect();
    SplitMix64::new(seed).shuffle(&mut order);
    let (teaching, asked) = order.split_at(order.len() / 2);
    let some = |indices: Vec<usize>| -> Outcome<Arc<dyn Dataset>> {
        Ok(Arc::new(Subset::new(opened.dataset.clone(), indices)?))
    };
    let label =
        |index: usize| -> Outcome<usize> { Ok(opened.dataset.label(index)?.class().ok_or("no class")? as usize) };

    // The temperature and the anchors come from clean images of the teaching half.
    let dataset = some(teaching[..IMAGES.min(teaching.len())].to_vec())?;
    let images = Images::open(dataset, clean.config.clone(), clean.memory_limit)?;
    let setting = TrialSetting { model: &model, scope: clean.scope, device, temperature: 1.0, seed };
    let trial = start_trials(&setting, &images, Order::Stored, IMAGES)?;
    let truths = teaching[..trial.len()].iter().map(|&index| label(index)).collect::<Outcome<Vec<usize>>>()?;
    let temperature = fit_temperature(&trial.source, &truths)?.value;
    drop(trial);
    let anchors = Anchors::gather(&model, &images, seed, &mut Unwatched)?;
    drop(images);
    let setting = TrialSetting { temperature, ..setting };
    let tried = candidates(&model, TRIAL_BATCH)?;
    let models = models_of(&model, anchors.as_ref(), &tried)?;
    let mut plain_out = match StudyArguments::option(arguments, "--plain") {
        Some(path) => Some(std::fs::File::create(path)?),
        None => None,
    };
    if let Some(out) = &mut plain_out {
        writeln!(out, "shift,severity,candidate,gain")?;
    }

    let mut out = std::io::stdout().lock();
    writeln!(out, "{HEADER}")?;
    for (number, cell) in cells(bar).into_iter().enumerate() {
        let half = if cell.role == "test" { asked } else { teaching };
        let labels = half.iter().map(|&index| label(index)).collect::<Outcome<Vec<usize>>>()?;
        let classes = model.num_classes();
        let mut rows = match cell.order {
            "skewed" => ClassShares::Dirichlet01.draw(&labels, classes, 2 * IMAGES, seed ^ number as u64)?,
            _ => ClassShares::Sample.draw(&labels, classes, IMAGES, seed ^ 77)?,
        };
        rows.truncate(IMAGES);
        if cell.order == "sorted" {
            rows.sort_by_key(|&row| labels[row]);
        }
        let dataset = some(rows.iter().map(|&row| half[row]).collect())?;
        let request = CellRequest { dataset, config: clean.config.clone(), data: cell.shift.clone(), ..clean };
        let request = match &cell.spec {
            Some(spec) => corrupted(&request, spec)?,
            None => request,
        };
        let images = Images::open(request.dataset.clone(), request.config.clone(), request.memory_limit)?;
        let trial = start_trials(&setting, &images, Order::Stored, images.len())?;
        let mut outputs = vec![trial.source.clone()];
        for (candidate, model) in tried.iter().zip(&models).skip(1) {
            outputs.push(trial.run(candidate, model, trial.len())?);
        }
        let right = |place: usize, count: usize| -> f64 {
            let answers = outputs[place].classes_predicted();
            (0..count).filter(|&image| answers[image] == labels[rows[image]]).count() as f64 / count as f64
        };
        let lineup = Lineup::new(&trial.source, outputs.iter().collect(), trial.batch())?;
        for (part, count) in [("screening", trial.len() / 4), ("whole", trial.len())] {
            for (place, candidate) in tried.iter().enumerate().skip(1) {
                let (source, s) = (right(0, count), lineup.signals(place, 0..count));
                let numbers = [
                    source,
                    right(place, count) - source,
                    s.flips,
                    s.source_confidence,
                    s.cross,
                    s.confidence,
                    s.reverse,
                    s.panel_cross,
                    s.panel_source,
                    s.concentration,
                    s.source_concentration,
                    s.batch_concentration,
                    s.source_batch_concentration,
                ];
                let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.4}")).collect();
                let Cell { role, shift, severity, order, .. } = &cell;
                let (name, numbers) = (&candidate.name, numbers.join(","));
                writeln!(out, "{role},{shift},{severity},{order},{name},{part},{count},{numbers}")?;
            }
        }
        let compared = cell.role == "test" && cell.order == "random" && matches!(cell.severity, 0 | 3);
        if let Some(out) = plain_out.as_mut().filter(|_| compared) {
            for candidate in tried.iter().filter(|candidate| candidate.anchored && !candidate.is_forward_only()) {
                let answers = trial.run(candidate, &model, trial.len())?.classes_predicted();
                let is_right = |image: &usize| answers[*image] == labels[rows[*image]];
                let share = (0..answers.len()).filter(is_right).count() as f64 / answers.len() as f64;
                let gain = share - right(0, trial.len());
                let name = candidate.name.replace(" anchored", "");
                writeln!(out, "{},{},{name},{gain:.4}", cell.shift, cell.severity)?;
            }
        }
        eprintln!("{} {}:{} {}", cell.role, cell.shift, cell.severity, cell.order);
    }
    Ok(())
}

/// A line of the table.
struct Row {
    role: String,
    shift: String,
    order: String,
    candidate: String,
    signals: GainSignals,
    gain: f64,
}

/// Rows of a cell: screening, and whole.
type CellRows = (Vec<Row>, Vec<Row>);
/// Rows of a file by cell.
type Cells = BTreeMap<String, CellRows>;

fn read_rows(file: &str) -> Outcome<Cells> {
    let text = std::fs::read_to_string(file)?;
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("{file} has another header").into());
    }
    let mut cells = Cells::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [role, shift, severity, order, candidate, part, images, _, gain, numbers @ ..] = fields.as_slice() else {
            return Err(format!("{file}: `{line}` is too short").into());
        };
        let numbers: Vec<f64> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
        let [flips, source_confidence, cross, confidence, reverse, panel_cross, panel_source, rest @ ..] =
            numbers.as_slice()
        else {
            return Err(format!("{file}: `{line}` is too short").into());
        };
        let [concentration, source_concentration, batch_concentration, source_batch_concentration] = rest else {
            return Err(format!("{file}: `{line}` is too short").into());
        };
        let signals = GainSignals {
            images: images.parse()?,
            flips: *flips,
            source_confidence: *source_confidence,
            cross: *cross,
            confidence: *confidence,
            reverse: *reverse,
            panel_cross: *panel_cross,
            panel_source: *panel_source,
            concentration: *concentration,
            source_concentration: *source_concentration,
            batch_concentration: *batch_concentration,
            source_batch_concentration: *source_batch_concentration,
        };
        let row = Row {
            role: role.to_string(),
            shift: shift.to_string(),
            order: order.to_string(),
            candidate: candidate.to_string(),
            signals,
            gain: gain.parse()?,
        };
        let cell = cells.entry(format!("{role} {shift}:{severity} {order}")).or_default();
        if *part == "whole" { cell.1.push(row) } else { cell.0.push(row) }
    }
    Ok(cells)
}

fn judge(files: &[String]) -> Outcome<()> {
    println!(
        "| network | order | cells | regret | 95th percentile | below the source by more than 1 | always source | always `bn` | always RDumb | gain off | held |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let (mut signs, mut everything) = (Vec::new(), Vec::new());
    for file in files {
        let cells = read_rows(file)?;
        let mut kinds: Vec<&str> = cells.values().map(|cell| cell.1[0].shift.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let taught = |rows: fn(&CellRows) -> &Vec<Row>| {
            let taught = cells.values().map(rows).filter(|rows| rows.iter().all(|row| row.role == "fit"));
            let sample = |row: &Row| GainSample {
                signals: row.signals,
                gain: row.gain,
                kind: kinds.iter().position(|kind| *kind == row.shift).unwrap_or(0),
            };
            let samples: Vec<Vec<GainSample>> = taught.map(|rows| rows.iter().map(sample).collect()).collect();
            GainFit::fit(&samples)
        };
        let (screening, whole) = (taught(|cell| &cell.0)?, taught(|cell| &cell.1)?);
        signs.push(sign_without_others(&cells)?);
        let name = Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        for order in ORDERS.into_iter().chain(["all"]) {
            let asked =
                cells.values().filter(|cell| cell.1[0].role == "test" && (order == "all" || cell.1[0].order == order));
            let followed: Vec<Followed> = asked.map(|cell| follow(&screening, &whole, cell)).collect();
            println!("| {name} | {order} | {} |", summary(&followed));
            if order == "all" {
                everything.extend(followed);
            }
        }
    }
    println!("| all networks | all | {} |", summary(&everything));
    let signs: Vec<String> = signs.iter().map(|share| format!("{:.0}%", 100.0 * share)).collect();
    println!(
        "\nsign of the gain right without other candidates, first quarter, gains of a point and more: {}",
        signs.join(", ")
    );
    Ok(())
}

/// How often a fit without other candidates, as `adapt --method auto` uses it, tells a gain from a loss on the first quarter of the images.
fn sign_without_others(cells: &Cells) -> Outcome<f64> {
    let rows = || cells.values().flat_map(|cell| &cell.0);
    let mut kinds: Vec<&str> = rows().map(|row| row.shift.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sample = |row: &Row| {
        let kind = kinds.iter().position(|kind| *kind == row.shift).unwrap_or(0);
        GainSample { signals: row.signals, gain: row.gain, kind }
    };
    let taught: Vec<GainSample> = rows().filter(|row| row.role == "fit").map(sample).collect();
    let fit = GainFit::fit_alone(&taught)?;
    let asked: Vec<GainSample> =
        rows().filter(|row| row.role == "test" && row.gain.abs() >= 0.01).map(sample).collect();
    let right = asked.iter().filter(|sample| (fit.gain(&sample.signals) > 0.0) == (sample.gain > 0.0)).count();
    Ok(right as f64 / asked.len().max(1) as f64)
}

/// What came of the advice on a cell, in points.
struct Followed {
    regret: f64,
    gain: f64,
    best: f64,
    bn: f64,
    rdumb: f64,
    /// What the chosen candidate was said to gain less what it gained, and whether its interval held; `None` where nothing was chosen.
    told: Option<(f64, bool)>,
}

/// The race of `flipcast advise`, on candidates that were all run to the end.
fn follow(screening: &GainFit, whole: &GainFit, (first, all): &CellRows) -> Followed {
    let forward = |row: &Row| row.candidate.starts_with("bn");
    let mut ranked: Vec<usize> = (0..all.len()).filter(|&place| !forward(&all[place])).collect();
    let screened = |place: usize| screening.gain(&first[place].signals);
    ranked.sort_by(|&a, &b| screened(b).total_cmp(&screened(a)));
    ranked.truncate(FINALISTS);
    ranked.extend((0..all.len()).filter(|&place| forward(&all[place])));
    let told = |place: usize| whole.gain(&all[place].signals);
    let chosen = ranked.into_iter().max_by(|&a, &b| told(a).total_cmp(&told(b))).filter(|&p| told(p) >= LEAST_GAIN);
    let gain = chosen.map_or(0.0, |place| all[place].gain);
    let best = all.iter().map(|row| row.gain).fold(0.0, f64::max);
    let of = |name: &str| all.iter().find(|row| row.candidate.starts_with(name)).map_or(0.0, |row| row.gain);
    Followed {
        regret: best - gain,
        gain,
        best,
        bn: best - of("bn"),
        rdumb: best - of("rdumb"),
        told: chosen.map(|place| {
            let error = told(place) - all[place].gain;
            (error, error.abs() <= whole.half_width(&all[place].signals, 0.9))
        }),
    }
}

fn summary(followed: &[Followed]) -> String {
    let mean = |value: &dyn Fn(&Followed) -> f64| {
        100.0 * followed.iter().map(value).sum::<f64>() / followed.len().max(1) as f64
    };
    let mut regrets: Vec<f64> = followed.iter().map(|one| 100.0 * one.regret).collect();
    regrets.sort_by(f64::total_cmp);
    let high = regrets.get((0.95 * regrets.len() as f64) as usize).copied().unwrap_or(f64::NAN);
    let told: Vec<(f64, bool)> = followed.iter().filter_map(|one| one.told).collect();
    if told.is_empty() {
        return format!(
            "{} | {:.2} | {high:.2} | 0.0% | {:.2} | {:.2} | {:.2} | - | -",
            followed.len(),
            mean(&|one| one.regret),
            mean(&|one| one.best),
            mean(&|one| one.bn),
            mean(&|one| one.rdumb),
        );
    }
    let off = 100.0 * told.iter().map(|(error, _)| error.abs()).sum::<f64>() / told.len().max(1) as f64;
    let held = 100.0 * told.iter().filter(|(_, held)| *held).count() as f64 / told.len().max(1) as f64;
    format!(
        "{} | {:.2} | {high:.2} | {:.1}% | {:.2} | {:.2} | {:.2} | {off:.1} | {held:.0}%",
        followed.len(),
        mean(&|one| one.regret),
        mean(&|one| f64::from(u8::from(one.gain < -0.01))),
        mean(&|one| one.best),
        mean(&|one| one.bn),
        mean(&|one| one.rdumb),
    )
}
