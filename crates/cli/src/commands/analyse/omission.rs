use super::subject::{SubjectArgs, number, percent};
use crate::table::render;
use anyhow::{Context, Result, ensure};
use flipcast_run::Watcher;
use flipcast_run::analysis::{Analysis, CurvePoint, Omission, OmissionJob, OmissionRule};
use serde_json::json;

/// Values of k in the paper.
const PAPER_TOP_K: [usize; 8] = [0, 1, 2, 3, 5, 10, 20, 50];

/// Adapt without images that were right, or certain, to begin with.
///
/// Half of the images adapt the model, the other half tells how accurate it is. Left out of the first half are images whose label
/// is among the k classes the unadapted model finds most likely, or whose entropy is at most a threshold. One record per value.
///
/// Example: flipcast analyse omission --model m.safetensors --data 'D@gaussian_noise:3' --top-k 0,1,10 --record omission.jsonl
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Values of k; 0, 1, 2, 3, 5, 10, 20, 50 if no rule is given
    #[arg(long, value_name = "K,...", value_delimiter = ',')]
    top_k: Vec<usize>,
    /// Entropies in nats up to which images are left out; 0 leaves out none
    #[arg(long, value_name = "X,...", value_delimiter = ',')]
    entropy: Vec<f64>,
    /// Steps from one look at the holdout to the next
    #[arg(long, value_name = "N", default_value_t = 10)]
    every: usize,
    /// Holdout images that are predicted at every look
    #[arg(long, value_name = "N", default_value_t = 1000)]
    holdout: usize,
}

impl Args {
    fn rules(&self) -> Result<Vec<OmissionRule>> {
        for &threshold in &self.entropy {
            ensure!(
                threshold.is_finite() && threshold >= 0.0,
                "--entropy is {threshold}, expected numbers that are not negative"
            );
        }
        if self.top_k.is_empty() && self.entropy.is_empty() {
            return Ok(PAPER_TOP_K.map(OmissionRule::TopK).to_vec());
        }
        let top_k = self.top_k.iter().copied().map(OmissionRule::TopK);
        let entropy = self.entropy.iter().copied().map(OmissionRule::Entropy);
        Ok(top_k.chain(entropy).collect())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let subject = &args.subject;
    let rules = args.rules()?;
    let adapted = subject.adapted("tent")?;
    let mut ledger = subject.scoring.ledger()?;
    let data = subject.open(&adapted)?;
    let mut watcher = subject.scoring.watcher("omission");
    let total = data.len() * rules.len();
    for (place, (spec, data)) in data.iter().enumerate() {
        let mut found: Vec<(OmissionRule, Omission)> = Vec::new();
        for (number, &rule) in rules.iter().enumerate() {
            let name = format!("{spec}, {}", name_of(rule));
            watcher.cell(&name, place * rules.len() + number, total);
            let job = OmissionJob {
                subject: subject.subject(&adapted, data),
                rule,
                steps: subject.steps,
                every: args.every,
                holdout: args.holdout,
            };
            let omission = job
                .recorded(&mut ledger, &mut watcher)
                .with_context(|| format!("cannot analyse omission on `{name}`"))?;
            if subject.json {
                let object = json!({
                    "data": spec,
                    "key": job.protocol()?.key(),
                    "rule": rule.name(),
                    "value": rule.value(),
                    "result": omission,
                });
                watcher.print(&(object.to_string() + "\n"))?;
            }
            found.push((rule, omission));
        }
        if !subject.json {
            watcher.print(&to_text(spec, &found))?;
        }
    }
    Ok(())
}

fn name_of(rule: OmissionRule) -> String {
    match rule {
        OmissionRule::TopK(k) => format!("top {k}"),
        OmissionRule::Entropy(threshold) => format!("entropy {threshold}"),
    }
}

fn to_text(spec: &str, found: &[(OmissionRule, Omission)]) -> String {
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(rule, omission)| {
            let at = |point: Option<&CurvePoint>| point.and_then(|point| point.accuracy);
            let known = omission.curve.iter().filter_map(|point| point.accuracy);
            let best = known.reduce(f64::max);
            let (first, last) = (at(omission.curve.first()), at(omission.curve.last()));
            let gain = last.zip(first).map(|(last, first)| 100.0 * (last - first));
            vec![
                name_of(*rule),
                percent(Some(omission.dropped as f64 / omission.images as f64)),
                number(omission.dropped_entropy, 3),
                percent(first),
                percent(best),
                percent(last),
                gain.map_or_else(|| "-".to_owned(), |gain| format!("{gain:+.1}")),
            ]
        })
        .collect();
    let header = ["left out", ">share", ">entropy", ">before", ">best", ">after", ">gain"];
    let first = found.first().map(|(_, omission)| omission);
    let sizes = first.map_or_else(String::new, |omission| {
        format!(
            "{} images to adapt to, mean entropy {:.3}; holdout of {}",
            omission.images, omission.mean_entropy, omission.holdout_images
        )
    });
    format!("{spec}: {sizes}\n{}\n", render(&header, &rows))
}
