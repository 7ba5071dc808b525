//! Arguments and steps that all analyses of a model share.

use crate::commands::adapt::method::MethodArgs;
use crate::commands::inputs::{DataArgs, ModelArgs, PreprocessArgs};
use crate::commands::scoring::ScoringArgs;
use crate::commands::thread_count;
use crate::failure::Advised;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use flipcast_adapt::MethodConfig;
use flipcast_exec::NormMode;
use flipcast_models::Model;
use flipcast_run::analysis::{Analysis, Clean, CleanSettings, ClusterSettings, Restriction, Subject, checkpoints};
use flipcast_run::open::{DataRequest, LabelRule, OpenError, OpenedData};
use flipcast_run::{Device, Watcher};
use serde::Serialize;

/// Classes of a network for ImageNet.
const IMAGENET_CLASSES: usize = 1000;

/// What is analysed: flatten into an analysis's arguments.
#[derive(clap::Args)]
pub struct SubjectArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub preprocess: PreprocessArgs,
    #[command(flatten)]
    pub images: DataArgs,
    /// How the model adapts, if not as the paper has it: source, bn, bn_cumulative, bn_early, tent, rpl, cpl, eta, eata, rdumb, sar, cotta,
    /// roid, deyo, come or asr
    #[arg(long)]
    pub method: Option<String>,
    #[command(flatten)]
    pub settings: MethodArgs,
    /// Steps of adaptation
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub steps: usize,
    /// Images of an adaptation step
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub batch_size: usize,
    /// Images that share batch statistics when they are only predicted
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub chunk: usize,
    /// Print one JSON object per result
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub scoring: ScoringArgs,
}

/// Clean images: flatten into the arguments of an analysis that needs class means.
#[derive(clap::Args)]
pub struct CleanArgs {
    /// Clean images with labels, from which the source model's class means are taken
    #[arg(long, value_name = "DATA")]
    clean: Option<String>,
    /// How many of the clean images are used
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    clean_images: usize,
    /// Statistics of batch norms when class means are taken
    #[arg(long, value_enum, default_value_t = CleanStatistics::Method)]
    clean_statistics: CleanStatistics,
}

/// Which classes: flatten into the arguments of an analysis of embeddings.
#[derive(clap::Args)]
pub struct RestrictionArgs {
    /// Which classes are looked at
    #[arg(long, value_enum, default_value_t = RestrictionChoice::Auto)]
    restriction: RestrictionChoice,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CleanStatistics {
    /// Those the method adapts with
    Method,
    /// The running ones stored with the weights
    Running,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RestrictionChoice {
    /// The 16 groups for a model of ImageNet's classes, otherwise none
    Auto,
    /// All classes
    None,
    /// The 207 classes of ImageNet that make up 16 groups
    SixteenClass,
}

/// How embeddings are clustered: flatten into an analysis's arguments.
#[derive(clap::Args)]
pub struct ClusterArgs {
    /// Images whose embeddings are looked at
    #[arg(long, value_name = "N", default_value_t = 2000)]
    images: usize,
    /// Clusters; one per class if not given
    #[arg(long, value_name = "K")]
    clusters: Option<usize>,
    /// Starts of k-means
    #[arg(long, value_name = "N", default_value_t = 10)]
    restarts: usize,
    /// Images whose silhouettes are averaged
    #[arg(long, value_name = "N", default_value_t = 2000)]
    silhouette_sample: usize,
}

/// The model and how it adapts.
pub struct Adapted {
    pub model: Model,
    pub method: MethodConfig,
    pub device: Device,
}

impl SubjectArgs {
    /// Loads the model; `method` adapts it unless another is asked for.
    pub fn adapted(&self, method: &str) -> Result<Adapted> {
        let threads = thread_count(self.scoring.threads)?;
        let device = self.scoring.device.device(threads)?;
        self.scoring.end_on_interrupt()?;
        let model = self.model.open(&self.preprocess, &self.scoring.progress)?;
        let method = self.method.as_deref().unwrap_or(method);
        let method = self.settings.config(method, &model, self.batch_size)?;
        if method.needs_clean() {
            return Err(Advised {
                problem: format!(
                    "`{}` measures something on clean images first, which analyses do not do",
                    method.name()
                ),
                hint: "use `--method eta`, which needs none".to_owned(),
            }
            .into());
        }
        Ok(Adapted { model, method, device })
    }

    /// Opens all images, before any work is done.
    pub fn open<'a>(&'a self, adapted: &Adapted) -> Result<Vec<(&'a str, OpenedData)>, OpenError> {
        self.images.open_all(&adapted.model, &self.scoring)
    }

    /// What an analysis of `data` is about.
    pub fn subject<'a>(&self, adapted: &'a Adapted, data: &'a OpenedData) -> Subject<'a> {
        Subject {
            model: &adapted.model,
            request: self.scoring.request(data),
            method: &adapted.method,
            batch_size: self.batch_size,
            chunk: self.chunk,
            device: adapted.device,
        }
    }

    /// Makes an analysis of all `data`, one after the other, and prints what it says of each.
    pub fn analyse<'a, A: Analysis>(
        &self,
        what: &str,
        adapted: &'a Adapted,
        data: &'a [(&'a str, OpenedData)],
        job: impl Fn(Subject<'a>) -> A,
        to_text: impl Fn(&str, &A::Result) -> String,
    ) -> Result<Vec<(&'a str, A::Result)>> {
        let mut ledger = self.scoring.ledger()?;
        let mut watcher = self.scoring.watcher(what);
        let mut found = Vec::new();
        for (place, (spec, opened)) in data.iter().enumerate() {
            watcher.cell(spec, place, data.len());
            let job = job(self.subject(adapted, opened));
            let result = job
                .recorded(&mut ledger, &mut watcher)
                .with_context(|| format!("cannot analyse the {what} of `{spec}`"))?;
            let text = match self.json {
                true => to_json(spec, &job.protocol()?.key(), &result)?,
                false => to_text(spec, &result),
            };
            watcher.print(&text)?;
            found.push((*spec, result));
        }
        Ok(found)
    }

    /// The steps listed with 0 before them and the last step behind, or the usual ones.
    pub fn looks(&self, name: &str, listed: &[usize]) -> Result<Vec<usize>> {
        if listed.is_empty() {
            return Ok(checkpoints(self.steps));
        }
        let mut steps = listed.to_vec();
        steps.extend([0, self.steps]);
        steps.sort_unstable();
        steps.dedup();
        ensure!(
            steps.last() == Some(&self.steps),
            "{name} goes up to {}, but --steps is {}",
            steps.last().copied().unwrap_or(0),
            self.steps
        );
        Ok(steps)
    }
}

impl CleanArgs {
    /// Opens the clean images, if there are any. The limit is about the images that are analysed; clean ones have their own.
    pub fn open(&self, subject: &SubjectArgs, adapted: &Adapted) -> Result<Option<OpenedData>, OpenError> {
        let request = |spec| DataRequest {
            labels: match subject.images.labels {
                LabelRule::None => LabelRule::Auto,
                labels => labels,
            },
            class_map: subject.images.class_map.as_ref(),
            seed: subject.scoring.seed,
            ..DataRequest::new(spec)
        };
        self.clean.as_deref().map(|spec| request(spec).open(&adapted.model)).transpose()
    }

    /// Where the source model puts the classes of `data`.
    pub fn means<'a>(
        &self,
        subject: &SubjectArgs,
        adapted: &'a Adapted,
        data: &'a OpenedData,
        restriction: Restriction,
    ) -> Clean<'a> {
        let request = subject.scoring.request(data);
        let settings = CleanSettings {
            images: self.clean_images,
            statistics: match self.clean_statistics {
                CleanStatistics::Method => adapted.method.norm_mode(),
                CleanStatistics::Running => NormMode::Running,
            },
            chunk: subject.chunk,
            restriction,
        };
        Clean::new(&adapted.model, adapted.device, request, settings)
    }
}

impl RestrictionArgs {
    /// The restriction asked for.
    pub fn choose(&self, adapted: &Adapted) -> Restriction {
        match self.restriction {
            RestrictionChoice::None => Restriction::None,
            RestrictionChoice::SixteenClass => Restriction::SixteenClass,
            RestrictionChoice::Auto if adapted.model.num_classes() == IMAGENET_CLASSES => Restriction::SixteenClass,
            RestrictionChoice::Auto => Restriction::None,
        }
    }
}

impl ClusterArgs {
    /// The settings asked for.
    pub fn settings(&self, restriction: Restriction) -> ClusterSettings {
        ClusterSettings {
            images: self.images,
            clusters: self.clusters,
            restarts: self.restarts,
            silhouette_sample: self.silhouette_sample,
            restriction,
        }
    }
}

/// A result as one line of JSON.
pub fn to_json(data: &str, key: &str, result: &impl Serialize) -> Result<String> {
    let object = serde_json::json!({ "data": data, "key": key, "result": result });
    Ok(object.to_string() + "\n")
}

/// A number with `decimals`, or a dash.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// A share as a percentage, or a dash.
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), crate::table::percent)
}
