//! Arguments and steps that all analyses of a model share.

use crate::commands::adapt::method::{MethodArgs, RecipeChoice};
use crate::commands::inputs::{DataRequest, Labels, ModelArgs, OpenedData, open_data, open_model};
use crate::commands::scoring::ScoringArgs;
use crate::commands::thread_count;
use crate::failure::Advised;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use flipcast_adapt::MethodConfig;
use flipcast_exec::NormMode;
use flipcast_models::Model;
use flipcast_run::analysis::{Clean, CleanSettings, ClusterSettings, Restriction, Subject, checkpoints};
use flipcast_run::{Device, Scope};
use serde::Serialize;

/// Classes of a network for ImageNet.
const IMAGENET_CLASSES: usize = 1000;

/// What is analysed: flatten into an analysis's arguments.
#[derive(clap::Args)]
pub struct SubjectArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Images, perhaps with a corruption (`DIR@gaussian_noise:3`); may be given several times
    #[arg(long, required = true)]
    pub data: Vec<String>,
    /// The published dataset whose root --data is
    #[arg(long)]
    pub dataset: Option<String>,
    /// Which split of it
    #[arg(long)]
    pub split: Option<String>,
    /// How the dataset's classes become the model's
    #[arg(long, value_enum, default_value = "auto")]
    pub labels: Labels,
    /// How the model adapts, if not as the paper has it: source, bn, bn_cumulative, tent, rpl, cpl, eta, eata, rdumb, sar, cotta,
    /// roid, deyo, come or asr
    #[arg(long)]
    pub method: Option<String>,
    /// Settings as published for these data; `auto` takes flipcast's own, which depend on the number of classes
    #[arg(long, value_enum, default_value_t = RecipeChoice::Auto)]
    pub recipe: RecipeChoice,
    /// Learning rate, in place of the method's own
    #[arg(long, value_name = "X")]
    pub lr: Option<f32>,
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

/// Images and how they reach the model.
pub struct Images {
    data: OpenedData,
    scope: Scope,
}

impl SubjectArgs {
    /// Loads the model; `method` adapts it unless another is asked for.
    pub fn adapted(&self, method: &str) -> Result<Adapted> {
        let threads = thread_count(self.scoring.threads)?;
        let device = self.scoring.device.device(threads)?;
        self.scoring.end_on_interrupt()?;
        let model = open_model(&self.model)?;
        let args = MethodArgs {
            method: self.method.clone().unwrap_or_else(|| method.to_owned()),
            recipe: self.recipe,
            published_code: false,
            lr: self.lr,
        };
        let method = args.config(model.num_classes())?;
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

    /// Opens the images at `spec`.
    pub fn open(&self, spec: &str, adapted: &Adapted) -> Result<Images> {
        let request = DataRequest {
            dataset: self.dataset.as_deref(),
            split: self.split.as_deref(),
            labels: self.labels,
            seed: self.scoring.seed,
            ..DataRequest::new(spec)
        };
        let data = open_data(request, &adapted.model)?;
        let scope = Scope::new(adapted.model.num_classes(), data.class_space.clone());
        Ok(Images { data, scope })
    }

    /// What an analysis of `images` is about.
    pub fn subject<'a>(&self, adapted: &'a Adapted, images: &'a Images) -> Result<Subject<'a>> {
        Ok(Subject {
            model: &adapted.model,
            request: self.scoring.request(&images.data, &images.scope)?,
            method: &adapted.method,
            batch_size: self.batch_size,
            chunk: self.chunk,
            device: adapted.device,
        })
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
    /// Opens the clean images, if there are any.
    pub fn open(&self, subject: &SubjectArgs, adapted: &Adapted) -> Result<Option<Images>> {
        let Some(spec) = &self.clean else {
            return Ok(None);
        };
        let request = DataRequest {
            labels: match subject.labels {
                Labels::None => Labels::Auto,
                labels => labels,
            },
            seed: subject.scoring.seed,
            ..DataRequest::new(spec)
        };
        let data = open_data(request, &adapted.model)?;
        let scope = Scope::new(adapted.model.num_classes(), data.class_space.clone());
        Ok(Some(Images { data, scope }))
    }

    /// Where the source model puts the classes of `images`.
    pub fn means<'a>(
        &self,
        subject: &SubjectArgs,
        adapted: &'a Adapted,
        images: &'a Images,
        restriction: Restriction,
    ) -> Clean<'a> {
        // The limit is about the images that are analysed; clean ones have one of their own.
        let request = subject.scoring.request_all(&images.data, &images.scope);
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
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}%", 100.0 * value))
}
