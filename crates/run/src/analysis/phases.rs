use super::groups::{Groups, Restriction};
use super::observer::{Observer, Seen};
use super::steps::adapt;
use super::subject::at_least;
use super::{Analysis, Clean, SourceMeans, Subject};
use crate::{RunError, Watcher};
use flipcast_estimate::embed::{EmbedError, KmeansConfig, Points, kmeans, shift_distance, silhouette_sampled};
use flipcast_record::Protocol;
use flipcast_record::results::{Checkpoint, Phases};
use serde::{Deserialize, Serialize};

/// How embeddings are grouped and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    /// Images whose embeddings are looked at, at most.
    pub images: usize,
    /// Clusters; `None` is one per class mean, or per class where there are no means.
    pub clusters: Option<usize>,
    /// Starts of k-means.
    pub restarts: usize,
    /// Images whose silhouettes are averaged, at most.
    pub silhouette_sample: usize,
    /// Which classes, and which count as one.
    pub restriction: Restriction,
}

impl Default for ClusterSettings {
    /// 2,000 images, ten starts, all silhouettes, all classes.
    fn default() -> Self {
        Self { images: 2000, clusters: None, restarts: 10, silhouette_sample: 2000, restriction: Restriction::None }
    }
}

/// Two phases: adaptation first helps, then hurts.
///
/// *Idea.* Entropy minimisation first draws embeddings of a class together around where the classes lie, and accuracy rises. It
/// then goes on drawing clusters away from there, and accuracy falls. Both show in the clusters alone.
///
/// *Formula.* At each checkpoint a fixed sample of images is predicted; k-means groups their embeddings; the silhouette of these
/// groups tells how tight they are, and the mean distance between their centres and the class means they match best tells how far
/// they moved. Phase 1 ends at the checkpoint of highest accuracy, the first of several.
///
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024, section 4.
///
/// *Departures from the reference.* What the paper leaves open is fixed: k-means++ with ten starts; class means of the
/// source model on clean images, with the statistics the method adapts with; images predicted in chunks of 100 that share
/// statistics. A sample of images stands for all, accuracies included.
pub struct PhasesJob<'a> {
    /// What adapts to what.
    pub subject: Subject<'a>,
    /// Where the classes lie; without it shift distances are unknown.
    pub clean: Option<&'a Clean<'a>>,
    /// Steps at which the sample is looked at, ascending, 0 first; the last is where adaptation ends.
    pub checkpoints: Vec<usize>,
    /// What is looked at.
    pub embedding: ClusterSettings,
}

impl Analysis for PhasesJob<'_> {
    type Result = Phases;

    fn protocol(&self) -> Result<Protocol, RunError> {
        Ok(self
            .subject
            .protocol("phases")?
            .with("steps", &self.last())?
            .with("checkpoints", &self.checkpoints)?
            .with("embedding", &self.embedding)?
            .with("clean", &self.clean.map(Clean::protocol))?)
    }

    fn run(&self, watcher: &mut dyn Watcher) -> Result<Phases, RunError> {
        self.check()?;
        let subject = &self.subject;
        let scope = subject.request.scope;
        let groups = Groups::new(self.embedding.restriction, scope)?;
        let means = match self.clean {
            Some(clean) => Some(clean.means(watcher)?),
            None => None,
        };
        let clusters = self
            .embedding
            .clusters
            .unwrap_or_else(|| means.map_or_else(|| groups.count(scope), |means| means.groups.len()));
        let chosen = subject.sample(self.embedding.images, &groups, |group| groups.takes(group))?;
        let sample = subject.open_some(chosen)?;
        let mut observer = Observer::new(subject, &sample, sample.len())?;
        let seen = observer.observe(None)?;
        let initial = seen.outputs.classes_predicted();
        let look = |step: usize, seen: &Seen| {
            let predicted = seen.outputs.classes_predicted();
            let flips = predicted.iter().zip(&initial).filter(|(a, b)| a != b);
            let geometry = self.measure(&seen.embeddings, clusters, means)?;
            Ok::<_, RunError>(Checkpoint {
                step,
                accuracy: seen.accuracy(scope),
                entropy: seen.mean_entropy(),
                flips: flips.count() as f64 / initial.len() as f64,
                silhouette: geometry.silhouette,
                shift_distance: geometry.shift_distance,
                inertia: geometry.inertia,
            })
        };
        let mut checkpoints = vec![look(0, &seen)?];
        let images = subject.open()?;
        adapt(subject, &images, self.last(), watcher, |step, affine| {
            if self.checkpoints.contains(&step) {
                let seen = observer.observe(Some(affine))?;
                checkpoints.push(look(step, &seen)?);
            }
            Ok(())
        })?;
        Ok(Phases { phase_1_end: best_step(&checkpoints), checkpoints, images: initial.len(), clusters })
    }
}

impl PhasesJob<'_> {
    fn check(&self) -> Result<(), RunError> {
        self.subject.check()?;
        at_least("number of observed images", self.embedding.images, 2, "at least 2")?;
        at_least("restarts", self.embedding.restarts, 1, "at least 1")?;
        let sample = self.embedding.silhouette_sample;
        at_least("silhouette sample", sample, 1, "at least 1")?;
        let ascending = self.checkpoints.is_sorted_by(|a, b| a < b);
        if self.checkpoints.first() != Some(&0) || !ascending {
            return Err(RunError::Setting {
                setting: "number of checkpoints",
                found: self.checkpoints.len(),
                expected: "at least 1, ascending from 0",
            });
        }
        Ok(())
    }

    fn last(&self) -> usize {
        self.checkpoints.last().copied().unwrap_or(0)
    }

    fn measure(&self, points: &Points, clusters: usize, means: Option<&SourceMeans>) -> Result<Geometry, RunError> {
        let seed = self.subject.request.seed;
        let settings = self.embedding;
        let found = kmeans(points, &KmeansConfig { restarts: settings.restarts, ..KmeansConfig::new(clusters, seed) })?;
        let shift = means.map(|means| shift_distance(&means.centres, &found.centres));
        Ok(Geometry {
            silhouette: mean_silhouette(points, &found.labels, settings.silhouette_sample, seed)?,
            shift_distance: shift.transpose()?.map(|shift| shift.mean),
            inertia: found.inertia,
        })
    }
}

/// What clusters say.
struct Geometry {
    silhouette: Option<f64>,
    shift_distance: Option<f64>,
    inertia: f64,
}

/// The mean silhouette of up to `sample` points; `None` where there are no two clusters.
pub(crate) fn mean_silhouette(
    points: &Points,
    labels: &[usize],
    sample: usize,
    seed: u64,
) -> Result<Option<f64>, RunError> {
    match silhouette_sampled(points, labels, sample, seed) {
        Ok(found) => Ok(Some(found.mean)),
        Err(EmbedError::TooFewClusters { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The first step of the highest accuracy, if all are known.
fn best_step(checkpoints: &[Checkpoint]) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for found in checkpoints {
        let accuracy = found.accuracy?;
        if best.is_none_or(|(most, _)| accuracy > most) {
            best = Some((accuracy, found.step));
        }
    }
    best.map(|(_, step)| step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(step: usize, accuracy: Option<f64>, silhouette: f64) -> Checkpoint {
        Checkpoint {
            step,
            accuracy,
            entropy: 1.0,
            flips: 0.0,
            silhouette: Some(silhouette),
            shift_distance: None,
            inertia: 1.0,
        }
    }

    fn phases(accuracies: &[Option<f64>]) -> Phases {
        let found = accuracies.iter().enumerate();
        let checkpoints: Vec<Checkpoint> =
            found.map(|(step, &accuracy)| checkpoint(step, accuracy, step as f64)).collect();
        Phases { phase_1_end: best_step(&checkpoints), checkpoints, images: 1, clusters: 1 }
    }

    #[test]
    fn phase_1_ends_at_the_first_highest_accuracy() {
        let found = phases(&[Some(0.5), Some(0.75), Some(0.75), Some(0.25)]);
        assert_eq!(found.phase_1_end, Some(1));
        let [first, second] = found.changes().map(|change| change.unwrap());
        assert_eq!((first.accuracy, first.silhouette), (0.25, Some(1.0)));
        assert_eq!((second.accuracy, second.silhouette), (-0.5, Some(2.0)));
        assert_eq!(first.shift_distance, None);
    }

    #[test]
    fn phases_without_steps_or_labels_have_no_changes() {
        let falling = phases(&[Some(0.5), Some(0.25)]);
        assert_eq!(falling.phase_1_end, Some(0));
        assert!(matches!(falling.changes(), [None, Some(_)]));
        let rising = phases(&[Some(0.5), Some(0.75)]);
        assert!(matches!(rising.changes(), [Some(_), None]));
        let blind = phases(&[Some(0.5), None]);
        assert_eq!(blind.phase_1_end, None);
        assert_eq!(blind.changes(), [None, None]);
    }
}
