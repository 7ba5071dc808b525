use super::groups::{Groups, Restriction};
use super::observer::Observer;
use super::phases::mean_silhouette;
use super::subject::at_least;
use super::{Analysis, ClusterSettings, Subject};
use crate::flips::collect_flips;
use crate::source_pass::run_source;
use crate::{FlipProtocol, RunError, Watcher};
use flipcast_estimate::embed::{KmeansConfig, kmeans};
use flipcast_estimate::{flips, weighted_flips};
use flipcast_record::Protocol;
use flipcast_record::results::FlipPoint;

/// What a flip counts in scores, which are scaled to a probe of this many images.
const SCALE: f64 = 1000.0;

/// Flips against silhouette and accuracy: one point of a scatter.
///
/// *Idea.* The worse the classes are separated before adaptation, the more predictions change during it. So flips tell how well
/// the network was suited to the images.
///
/// *Formula.* The silhouette of k-means clusters of the unadapted network's embeddings of a probe; the share of the probe's
/// predictions that change in `steps` steps, unweighted and weighted by the rank of the initial confidence; and the accuracy of
/// the source model, with its running statistics, on all images.
///
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024, section 6.
///
/// *Departures from the reference.* Flips are shares, so that probes of any size can be compared. Embeddings and initial
/// predictions have the statistics the method adapts with.
pub struct FlipsJob<'a> {
    /// What adapts to what.
    pub subject: Subject<'a>,
    /// Steps of adaptation.
    pub steps: usize,
    /// What is looked at; its images are the probe. Where classes are restricted, flips are still counted on images of all
    /// classes, and the silhouette is taken on as many of the restricted ones.
    pub embedding: ClusterSettings,
}

impl Analysis for FlipsJob<'_> {
    type Result = FlipPoint;

    fn protocol(&self) -> Result<Protocol, RunError> {
        Ok(self.subject.protocol("flips")?.with("steps", &self.steps)?.with("embedding", &self.embedding)?)
    }

    fn run(&self, watcher: &mut dyn Watcher) -> Result<FlipPoint, RunError> {
        self.subject.check()?;
        let settings = self.embedding;
        at_least("number of probe images", settings.images, 2, "at least 2")?;
        let Subject { model, request, method, device, .. } = &self.subject;
        let scope = request.scope;
        let images = self.subject.open()?;
        let accuracy = run_source(model, &images, scope, *device, watcher)?.accuracy(scope);
        let protocol = FlipProtocol {
            name: "analysis".to_owned(),
            method: (*method).clone(),
            batch_size: self.subject.batch_size,
            stops: vec![self.steps],
            probe_images: settings.images,
            probe_chunk: self.subject.chunk,
            image_limit: None,
            seed: request.seed,
        };
        protocol.check()?;
        let groups = Groups::new(settings.restriction, scope)?;
        let seen = match settings.restriction {
            Restriction::None => Observer::new(&self.subject, &images, settings.images)?.observe(None)?,
            Restriction::SixteenClass => {
                let takes = |group| groups.takes(group);
                let chosen = self.subject.sample(settings.images, &groups, takes)?;
                let sample = self.subject.open_some(chosen)?;
                Observer::new(&self.subject, &sample, sample.len())?.observe(None)?
            }
        };
        let clusters = settings.clusters.unwrap_or_else(|| groups.count(scope));
        let config = KmeansConfig { restarts: settings.restarts, ..KmeansConfig::new(clusters, request.seed) };
        let found = kmeans(&seen.embeddings, &config)?;
        let silhouette = mean_silhouette(&seen.embeddings, &found.labels, settings.silhouette_sample, request.seed)?;
        let evidence = collect_flips(model, &images, scope, &protocol, *device, watcher)?;
        let last = evidence.stops.last().ok_or(RunError::NoImages)?;
        let initial = evidence.initial.classes_predicted();
        let adapted = last.outputs.classes_predicted();
        let confidences = evidence.initial.confidences();
        Ok(FlipPoint {
            silhouette,
            flips: flips(&initial, &adapted)?.value / SCALE,
            weighted_flips: weighted_flips(&initial, &confidences, &adapted)?.value / SCALE,
            accuracy,
            images: initial.len(),
        })
    }
}
