//! Which adaptation makes flips tell the accuracy? One line of settings in, one line per cell and stop out.
//!
//! ```text
//! cargo run --release -p flipcast-run --example sweep_flips -- MODEL DATA IMAGES PROBE < settings > sweep.csv
//! ```
//!
//! A line of settings has eight words: method, optimiser (`sgd` or `adam`), learning rate, rule of the parameters that adapt, images of
//! a step, stops (`5,25`), cells (`few`: clean and severities 2 and 5; `all`: clean and severities 1 to 5) and margin (`0.4`: share of
//! `ln K`, or `-` for the method's own). The cells are calibration's: clean images and the corruptions kept apart for such uses.
//! Standard output gets every cell; standard error gets, for each stop, errors on corruptions the curves were fitted without.

use flipcast_adapt::{
    EntropyMargin, EtaConfig, MethodConfig, OptimiserConfig, ParamRule, RedundancyMargin,
};
use flipcast_corrupt::{CorruptionStep, Corruptor};
use flipcast_estimate::{
    Combination, CurveKind, Direction, FitPoint, ScoreFit, cot, flips, standard_error,
    weighted_flips,
};
use flipcast_graph::Purpose;
use flipcast_images::dataset::{Dataset, Subset, open};
use flipcast_images::labelspace::{ClassSpace, Decision, LabelSpace};
use flipcast_images::loader::{LoaderConfig, Order};
use flipcast_models::{LoadRequest, Model};
use flipcast_run::{
    Basis, Device, HELD_OUT, Images, Scope, ScoreOptions, SourcePass, Unwatched, run_source,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Seed of every draw.
const SEED: u64 = 0;
/// Images of a forward pass of the probe.
const CHUNK: usize = 100;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, data, images, probe] = args.as_slice() else {
        return Err("expected MODEL DATA IMAGES PROBE".into());
    };
    let model = Model::load(LoadRequest::new(Path::new(model)))?;
    let dataset: Arc<dyn Dataset> = Arc::from(open(data)?);
    // Stored class by class: a part in stored order would hold only some classes.
    let mut indices = Order::Shuffled { seed: SEED }.indices(dataset.len());
    indices.truncate(images.parse()?);
    indices.sort_unstable();
    let sweep = Sweep {
        device: Device::cpu(1),
        scope: Scope::new(
            model.num_classes(),
            Some(ClassSpace::new(
                Arc::new(LabelSpace::index("outputs", model.num_classes())),
                Decision::Full,
            )?),
        ),
        dataset: Arc::new(Subset::new(dataset, indices)?),
        model,
        probe: probe.parse()?,
    };
    println!(
        "cell,accuracy,method,optimiser,lr,params,batch,step,margin,used_share,flips,weighted_flips,adapted_accuracy"
    );
    let mut cells: BTreeMap<String, SeenCell> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let started = Instant::now();
        match Settings::parse(&line).and_then(|settings| sweep.run(&settings, &mut cells)) {
            Ok(()) => eprintln!("  {:.0} s", started.elapsed().as_secs_f64()),
            Err(error) => eprintln!("{line}: {error}"),
        }
    }
    Ok(())
}

/// One line of settings.
struct Settings {
    line: [String; 5],
    method: MethodConfig,
    batch: usize,
    stops: Vec<usize>,
    severities: Vec<usize>,
    margin: String,
}

impl Settings {
    fn parse(line: &str) -> Outcome<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [method, optimiser, lr, params, batch, stops, cells, margin] = words.as_slice() else {
            return Err("expected eight words".into());
        };
        let rate: f32 = lr.parse()?;
        let moves = match *optimiser {
            "adam" => OptimiserConfig::adam(rate),
            _ => OptimiserConfig::sgd(rate),
        };
        let mut config = match MethodConfig::default_for(method, 200)? {
            MethodConfig::Eta(eta) => MethodConfig::Eta(EtaConfig {
                redundancy_margin: RedundancyMargin::Off,
                ..eta
            }),
            other => other,
        };
        config = config
            .with_optimiser(moves)
            .with_param_rule(params.parse::<ParamRule>()?);
        if let Ok(share) = margin.parse() {
            match &mut config {
                MethodConfig::Eta(config) => config.entropy_margin = EntropyMargin::Share(share),
                MethodConfig::Sar(config) => config.entropy_margin = EntropyMargin::Share(share),
                other => return Err(format!("`{}` has no margin", other.name()).into()),
            }
        }
        config.check()?;
        Ok(Self {
            line: [method, optimiser, lr, params, batch].map(|word| (*word).to_owned()),
            method: config,
            batch: batch.parse()?,
            stops: stops.split(',').map(str::parse).collect::<Result<_, _>>()?,
            severities: match *cells {
                "few" => vec![2, 5],
                _ => vec![1, 2, 3, 4, 5],
            },
            margin: (*margin).to_owned(),
        })
    }
}

/// What all settings share.
struct Sweep {
    model: Model,
    dataset: Arc<dyn Dataset>,
    scope: Scope,
    device: Device,
    probe: usize,
}

/// A cell as the source model sees it.
struct SeenCell {
    images: Images,
    source: SourcePass,
    accuracy: f64,
}

impl Sweep {
    fn run(&self, settings: &Settings, cells: &mut BTreeMap<String, SeenCell>) -> Outcome<()> {
        let mut names = vec!["clean".to_owned()];
        for corruption in HELD_OUT {
            names.extend(
                settings
                    .severities
                    .iter()
                    .map(|s| format!("{corruption}:{s}")),
            );
        }
        for name in &names {
            if let Entry::Vacant(place) = cells.entry(name.clone()) {
                place.insert(self.look(name)?);
            }
        }
        let clean = &cells["clean"].source;
        let basis = Basis::fit(clean, &self.scope, ScoreOptions::default())?;
        let mut points: BTreeMap<(usize, &str), Vec<FitPoint>> = BTreeMap::new();
        let mut rivals: BTreeMap<&str, Vec<FitPoint>> = BTreeMap::new();
        for name in &names {
            let cell = &cells[name];
            let group = HELD_OUT.iter().position(|c| name.starts_with(c));
            let point = |score: f64, standard_error| FitPoint {
                score,
                standard_error,
                accuracy: cell.accuracy,
                images: cell.images.len(),
                group: group.map_or(0, |group| group + 1),
            };
            let outputs = &cell.source.outputs;
            let transported = cot(outputs, &basis.shares(outputs)?)?;
            rivals
                .entry("cot")
                .or_default()
                .push(point(transported.value, 0.0));
            let kind = flipcast_estimate::AtcScore::NegativeEntropy;
            let threshold = flipcast_estimate::atc(outputs, &basis.reference, kind)?;
            rivals
                .entry("atc_ne")
                .or_default()
                .push(point(threshold.value, 0.0));
            for stop in self.adapt(settings, cell)? {
                println!(
                    "{name},{:.4},{},{},{},{:.3},{:.4},{:.4},{:.4}",
                    cell.accuracy,
                    settings.line.join(","),
                    stop.step,
                    settings.margin,
                    stop.used_share,
                    stop.flips.0,
                    stop.weighted.0,
                    stop.accuracy
                );
                for (kind, (value, error)) in [("flips", stop.flips), ("weighted", stop.weighted)] {
                    let points = points.entry((stop.step, kind)).or_default();
                    points.push(point(value, error));
                }
            }
        }
        self.tell(settings, &rivals, &points)
    }

    /// Errors on groups the curves were fitted without.
    fn tell(
        &self,
        settings: &Settings,
        rivals: &BTreeMap<&str, Vec<FitPoint>>,
        points: &BTreeMap<(usize, &str), Vec<FitPoint>>,
    ) -> Outcome<()> {
        let mut fits = BTreeMap::new();
        for (name, points) in rivals {
            let fit = ScoreFit::fit(CurveKind::Linear, Direction::Increasing, points)?;
            fits.insert((*name).to_owned(), fit);
        }
        let line = settings.line.join(" ");
        eprintln!(
            "{line} {} ({} cells; cot {:.2}, atc_ne {:.2})",
            settings.margin,
            rivals["cot"].len(),
            100.0 * fits["cot"].errors.mae(),
            100.0 * fits["atc_ne"].errors.mae()
        );
        for ((step, kind), points) in points {
            let (low, high) = points.iter().fold((f64::MAX, 0.0f64), |(low, high), p| {
                (low.min(p.score), high.max(p.score))
            });
            match ScoreFit::fit(CurveKind::Monotone, Direction::Decreasing, points) {
                Err(error) => eprintln!("  step {step:>3} {kind:<8} {error}"),
                Ok(fit) => {
                    fits.insert("wf".to_owned(), fit);
                    let both = Combination::fit(&fits, ["cot", "wf"])?;
                    eprintln!(
                        "  step {step:>3} {kind:<8} mae {:5.2} worst {:5.2} rank {:+.3} with cot {:.2} worst {:.2} (weight {:.2}), scores {low:.3} to {high:.3}",
                        100.0 * fits["wf"].errors.mae(),
                        100.0 * fits["wf"].errors.worst(),
                        rank_correlation(points),
                        100.0 * both.errors.mae(),
                        100.0 * both.errors.worst(),
                        both.weights["wf"],
                    );
                }
            }
        }
        Ok(())
    }

    /// The cell called `name`, seen by the source model.
    fn look(&self, name: &str) -> Outcome<SeenCell> {
        let mut config = LoaderConfig::new(self.model.require_preprocess()?.clone());
        config.threads = 1;
        if name != "clean" {
            let corruptor = Arc::new(Corruptor::new(SEED));
            config = CorruptionStep::join(config, name.parse()?, corruptor);
        }
        let images = Images::open(self.dataset.clone(), config, usize::MAX)?;
        let source = run_source(
            &self.model,
            &images,
            &self.scope,
            self.device,
            &mut Unwatched,
        )?;
        let accuracy = source.accuracy(&self.scope).ok_or("labels are needed")?;
        eprintln!(
            "{name}: {:.2}% of {} images",
            100.0 * accuracy,
            images.len()
        );
        Ok(SeenCell {
            images,
            source,
            accuracy,
        })
    }

    /// Adapts to a cell and counts flips of its first images.
    fn adapt(&self, settings: &Settings, cell: &SeenCell) -> Outcome<Vec<Counted>> {
        let mut adapter = settings.method.build(SEED)?;
        let mut net = self
            .device
            .network(&self.model, Purpose::Adapt, settings.batch)?;
        let mut probe_net = self.device.network(&self.model, Purpose::Predict, CHUNK)?;
        // The probe is the first of another order than the one adapted to.
        let probe_order = Order::Shuffled { seed: SEED };
        let rows: Vec<usize> = probe_order.indices(cell.images.len());
        let rows = &rows[..self.probe.min(rows.len())];
        let outputs = &cell.source.outputs;
        let (classes, confidences) = (outputs.classes_predicted(), outputs.confidences());
        let before: Vec<usize> = rows.iter().map(|&row| classes[row]).collect();
        let confidence: Vec<f64> = rows.iter().map(|&row| confidences[row]).collect();
        let (mut step, mut used, mut seen, mut epoch) = (0, 0, 0, 0);
        let mut counted = Vec::new();
        let last = settings.stops.last().copied().unwrap_or(0);
        while step < last {
            epoch += 1;
            let order = Order::Shuffled { seed: SEED + epoch };
            let mut pass = cell.images.pass(order, None, settings.batch)?;
            while step < last
                && let Some(loaded) = pass.next_batch()?
            {
                if loaded.batch.images() < settings.batch {
                    break;
                }
                let output = adapter.step(&mut *net, &loaded.batch)?;
                (used, seen) = (used + output.used, seen + settings.batch);
                step += 1;
                pass.recycle(loaded.batch);
                if !settings.stops.contains(&step) {
                    continue;
                }
                probe_net.affine_mut().copy_from_slice(net.affine());
                let mut probe = cell.images.pass(probe_order, Some(rows.len()), CHUNK)?;
                let mut after = Vec::new();
                while let Some(loaded) = probe.next_batch()? {
                    after.extend(probe_net.forward(&loaded.batch)?.argmax());
                    probe.recycle(loaded.batch);
                }
                let labels = rows.iter().map(|&row| &cell.source.labels[row]);
                let right = after.iter().zip(labels);
                let right =
                    right.filter(|(class, label)| self.scope.alternative(label) == Some(**class));
                let all = flips(&before, &after)?;
                let weighted = weighted_flips(&before, &confidence, &after)?;
                let with_error = |score: &flipcast_estimate::Score| -> Outcome<(f64, f64)> {
                    let error = score.terms.as_deref().map(standard_error).transpose()?;
                    Ok((score.value, error.unwrap_or(0.0)))
                };
                counted.push(Counted {
                    step,
                    used_share: used as f64 / seen as f64,
                    flips: with_error(&all)?,
                    weighted: with_error(&weighted)?,
                    accuracy: right.count() as f64 / after.len() as f64,
                });
            }
        }
        Ok(counted)
    }
}

/// Flips at a stop, with standard errors.
struct Counted {
    step: usize,
    used_share: f64,
    flips: (f64, f64),
    weighted: (f64, f64),
    accuracy: f64,
}

/// Spearman's correlation of score and accuracy, ties in the order of the cells.
fn rank_correlation(points: &[FitPoint]) -> f64 {
    let rank = |of: fn(&FitPoint) -> f64| {
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|&a, &b| of(&points[a]).total_cmp(&of(&points[b])));
        let mut ranks = vec![0.0; points.len()];
        for (rank, place) in order.into_iter().enumerate() {
            ranks[place] = rank as f64;
        }
        ranks
    };
    let (a, b) = (rank(|p| p.score), rank(|p| p.accuracy));
    let n = points.len() as f64;
    let squares: f64 = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum();
    1.0 - 6.0 * squares / (n * (n * n - 1.0))
}
