use super::{AdaptJob, DataIdentity, SourceRule};
use crate::RunError;
use crate::ledger::with_storage;
use flipcast_adapt::{GuardConfig, MethodConfig};
use flipcast_estimate::ArbiterFit;
use flipcast_images::labelspace::{Decision, SpaceClass};
use flipcast_images::loader::{OnBadImage, Order};
use flipcast_images::preprocess::Preprocess;
use flipcast_record::Protocol;
use flipcast_tensor::Batch;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Raised whenever the numbers of a run change without a setting changing: by the loop, the engine or a method.
pub const ADAPT_VERSION: u32 = 1;

/// Raised whenever an arbiter with the same weights chooses otherwise.
const ARBITER_VERSION: u32 = 1;

/// The weights and what is done to an image before they see it.
#[derive(Serialize)]
struct ModelPart<'a> {
    architecture: &'a str,
    /// The name stands in for weights that came from no file.
    weights: &'a str,
    num_classes: usize,
    preprocess: &'a Preprocess,
    border: usize,
}

/// Which images, in which order, in which batches.
#[derive(Serialize)]
struct StreamPart<'a> {
    #[serde(flatten)]
    data: &'a DataIdentity,
    order: &'static str,
    order_seed: Option<u64>,
    limit: Option<usize>,
    batch_size: usize,
    epochs: Option<usize>,
    steps: Option<usize>,
    bad_images: &'static str,
}

/// When a prediction is right.
#[derive(Serialize)]
struct ClassSpacePart<'a> {
    labels: &'a str,
    decision: Decision,
    /// SHA-256 of the classes and their outputs, where the space lists any.
    classes: Option<String>,
}

/// The adapter and what surrounds it.
#[derive(Serialize)]
struct AdaptationPart<'a> {
    version: u32,
    settings: &'a MethodConfig,
    seed: u64,
    guard: Option<&'a GuardConfig>,
    source_predicts: bool,
    /// SHA-256 of the vector it starts from, if that is not the weights' own.
    start: Option<String>,
    /// SHA-256 of the anchored vector, if norms are anchored.
    #[serde(skip_serializing_if = "Option::is_none")]
    anchored: Option<String>,
    /// How it is chosen between two models' answers, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    arbiter: Option<ArbiterPart<'a>>,
    /// Batches between two looks at the clusters, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    watch_every: Option<usize>,
    /// SHA-256 of the clean batches, for methods that measure something on them.
    clean: Option<String>,
}

/// The choice between two models' answers.
#[derive(Serialize)]
struct ArbiterPart<'a> {
    version: u32,
    fit: &'a ArbiterFit,
    temperature: f64,
}

impl AdaptJob<'_> {
    /// Everything that defines the result. Threads and instruction set do not: they change at most the last bits.
    pub fn protocol(&self) -> Result<Protocol, RunError> {
        let (order, order_seed) = match self.loader.order {
            Order::Stored => ("stored", None),
            Order::Shuffled { seed } => ("shuffled", Some(seed)),
        };
        let model = ModelPart {
            architecture: self.model.architecture(),
            weights: self.model.weights_sha256().unwrap_or_else(|| self.model.name()),
            num_classes: self.model.num_classes(),
            preprocess: &self.loader.preprocess,
            border: self.loader.border,
        };
        let stream = StreamPart {
            data: &self.data,
            order,
            order_seed,
            limit: self.loader.limit,
            batch_size: self.loader.batch_size,
            epochs: self.passes(),
            steps: self.steps,
            bad_images: match self.loader.on_bad_image {
                OnBadImage::Fail => "fail",
                OnBadImage::Skip => "skip",
            },
        };
        let class_space = self.class_space.map(|space| ClassSpacePart {
            labels: space.labels().name(),
            decision: space.decision(),
            classes: class_digest(space.labels().classes()),
        });
        let adaptation = AdaptationPart {
            version: ADAPT_VERSION,
            settings: self.method,
            seed: self.seed,
            guard: self.guard.enabled.then_some(&self.guard),
            source_predicts: self.source == SourceRule::Predict,
            start: self.start.as_deref().map(|start| value_digest([start])),
            anchored: self.anchored.as_ref().map(|model| value_digest([model.affine().as_slice()])),
            arbiter: self.arbiter.as_ref().map(|arbiter| {
                let (fit, temperature) = arbiter.settings();
                ArbiterPart { version: ARBITER_VERSION, fit, temperature }
            }),
            watch_every: self.watch_every,
            clean: (!self.clean.is_empty()).then(|| value_digest(self.clean.iter().map(Batch::values))),
        };
        let protocol = Protocol::new("adapt")
            .with("model", &model)?
            .with("stream", &stream)?
            .with("class_space", &class_space)?
            .with("method", &adaptation)?;
        with_storage(self.device.describe(protocol)?, &self.loader)
    }
}

fn value_digest<'a>(parts: impl IntoIterator<Item = &'a [f32]>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        for value in part {
            digest.update(value.to_le_bytes());
        }
    }
    hexadecimal(digest)
}

fn class_digest(classes: &[SpaceClass]) -> Option<String> {
    let mut digest = Sha256::new();
    for class in classes {
        digest.update(format!("{:?} {:?}\n", class.name, class.outputs));
    }
    (!classes.is_empty()).then(|| hexadecimal(digest))
}

fn hexadecimal(digest: Sha256) -> String {
    let bytes = digest.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
