use super::groups::{Groups, Restriction};
use super::observer::Observer;
use super::steps::adapt;
use super::subject::at_least;
use super::{Analysis, Clean, Subject};
use crate::{RunError, Watcher};
use flipcast_estimate::embed::{Centres, KmeansConfig, Points, TsneConfig, kmeans, tsne};
use flipcast_images::Label;
use flipcast_record::Protocol;
use flipcast_record::results::{EmbeddingMap, Frame};
use std::collections::BTreeSet;

/// Embedding map: what adaptation does to the embeddings, in two dimensions.
///
/// *Idea.* Draw the embeddings of a few classes at several steps of one adaptation, with the class means of clean images as fixed
/// stars: clusters tighten around the stars first and drift away later.
///
/// *Formula.* Each frame is a t-SNE map of the embeddings at its step together with the class means. The first starts from the
/// principal components; every later one from the frame before, with few rounds and no exaggeration, so that motion in the picture is
/// motion of the embeddings.
///
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024, figure 1; van der
/// Maaten and Hinton, "Visualizing data using t-SNE", 2008.
///
/// *Departures from the reference.* The paper gives no settings of t-SNE; these are scikit-learn's. Without labels, points are
/// coloured by k-means clusters of the first frame, whose centres take the place of class means.
pub struct MapJob<'a> {
    /// What adapts to what.
    pub subject: Subject<'a>,
    /// Where the classes lie; without it there are no stars, unless labels are missing too.
    pub clean: Option<&'a Clean<'a>>,
    /// Steps of the frames, ascending, 0 first; the last is where adaptation ends.
    pub frames: Vec<usize>,
    /// Images that are drawn, at most.
    pub points: usize,
    /// Classes that are drawn, at most: evenly spread over those there are.
    pub classes: usize,
    /// Which classes count as one.
    pub restriction: Restriction,
    /// How maps are made.
    pub tsne: TsneConfig,
}

/// What stays the same in all frames.
struct Scene {
    class_names: Vec<String>,
    labels: Vec<Option<usize>>,
    /// One per class, or none at all.
    means: Option<Centres>,
}

impl Analysis for MapJob<'_> {
    type Result = EmbeddingMap;

    fn protocol(&self) -> Result<Protocol, RunError> {
        Ok(self
            .subject
            .protocol("map")?
            .with("steps", &self.last())?
            .with("frames", &self.frames)?
            .with("perplexity", &self.tsne.perplexity)?
            .with("classes", &self.classes)?
            .with("points", &self.points)?
            .with("restriction", &self.restriction)?
            .with("tsne", &self.tsne)?
            .with("clean", &self.clean.map(Clean::protocol))?)
    }

    fn run(&self, watcher: &mut dyn Watcher) -> Result<EmbeddingMap, RunError> {
        self.check()?;
        let subject = &self.subject;
        let groups = Groups::new(self.restriction, subject.request.scope)?;
        let shown = self.shown_groups(&groups, watcher)?;
        let chosen = subject.sample(self.points, &groups, |group| match group {
            Some(group) => shown.contains(&group),
            None => shown.is_empty(),
        })?;
        let sample = subject.open_some(chosen)?;
        let mut observer = Observer::new(subject, &sample, sample.len())?;
        let seen = observer.observe(None)?;
        let scene = if shown.is_empty() {
            self.clusters(&seen.embeddings)?
        } else {
            self.classes(&groups, &shown, &seen.labels, watcher)?
        };
        let scope = subject.request.scope;
        let mut layout = None;
        let mut frames = Vec::new();
        let mut draw = |step: usize, affine: Option<&[f32]>| {
            let seen = observer.observe(affine)?;
            let accuracy = seen.accuracy(scope);
            let (frame, next) = self.frame(step, &seen.embeddings, &scene, layout.as_deref())?;
            frames.push(Frame { accuracy, ..frame });
            layout = Some(next);
            Ok::<(), RunError>(())
        };
        draw(0, None)?;
        let images = subject.open()?;
        adapt(subject, &images, self.last(), watcher, |step, affine| {
            if self.frames.contains(&step) {
                draw(step, Some(affine))?;
            }
            Ok(())
        })?;
        Ok(EmbeddingMap { class_names: scene.class_names, labels: scene.labels, frames })
    }
}

impl MapJob<'_> {
    fn check(&self) -> Result<(), RunError> {
        self.subject.check()?;
        at_least("number of classes", self.classes, 1, "at least 1")?;
        at_least("number of points", self.points, 4, "at least 4")?;
        let ascending = self.frames.is_sorted_by(|a, b| a < b);
        if self.frames.first() != Some(&0) || !ascending {
            return Err(RunError::Setting {
                setting: "number of frames",
                found: self.frames.len(),
                expected: "at least 1, ascending from 0",
            });
        }
        Ok(())
    }

    fn last(&self) -> usize {
        self.frames.last().copied().unwrap_or(0)
    }

    /// The groups that are drawn, of those that have images, and a class mean if there are any; none without labels.
    fn shown_groups(&self, groups: &Groups, watcher: &mut dyn Watcher) -> Result<Vec<usize>, RunError> {
        let request = &self.subject.request;
        let mut present = BTreeSet::new();
        for index in 0..self.subject.images() {
            let label = request.dataset.label(index)?;
            present.extend(groups.of(request.scope, &label));
        }
        if let (Some(clean), false) = (self.clean, present.is_empty()) {
            let means = clean.means(watcher)?;
            present.retain(|group| means.groups.contains(group));
        }
        let present: Vec<usize> = present.into_iter().collect();
        let count = self.classes.min(present.len());
        let spread = (0..count).map(|number| present[number * present.len() / count]);
        Ok(spread.collect())
    }

    /// Points coloured by their labels, with the means of clean images.
    fn classes(
        &self,
        groups: &Groups,
        shown: &[usize],
        labels: &[Label],
        watcher: &mut dyn Watcher,
    ) -> Result<Scene, RunError> {
        let scope = self.subject.request.scope;
        let name = |&group: &usize| groups.name(group, scope, self.subject.model);
        let place = |label| {
            let group = groups.of(scope, label)?;
            shown.iter().position(|&other| other == group)
        };
        let means = match self.clean {
            None => None,
            Some(clean) => {
                let found = clean.means(watcher)?;
                let rows = found.groups.iter().zip(found.centres.iter());
                let rows = rows.filter(|(group, _)| shown.contains(group));
                let values = rows.flat_map(|(_, centre)| centre.iter().copied());
                Some(Centres::new(values.collect(), found.centres.dims())?)
            }
        };
        Ok(Scene { class_names: shown.iter().map(name).collect(), labels: labels.iter().map(place).collect(), means })
    }

    /// Points coloured by clusters of their own.
    fn clusters(&self, points: &Points) -> Result<Scene, RunError> {
        let clusters = self.classes.min(points.count());
        let found = kmeans(points, &KmeansConfig::new(clusters, self.tsne.seed))?;
        Ok(Scene {
            class_names: (1..=clusters).map(|n| format!("cluster {n}")).collect(),
            labels: found.labels.into_iter().map(Some).collect(),
            means: Some(found.centres),
        })
    }

    /// One frame, and the whole layout to start the next one from.
    fn frame(
        &self,
        step: usize,
        embeddings: &Points,
        scene: &Scene,
        start: Option<&[[f64; 2]]>,
    ) -> Result<(Frame, Vec<[f64; 2]>), RunError> {
        let mut values: Vec<f32> = embeddings.iter().flatten().copied().collect();
        if let Some(means) = &scene.means {
            values.extend(means.iter().flatten().map(|&value| value as f32));
        }
        let all = Points::new(values, embeddings.dims())?.with_threads(embeddings.threads());
        let config = match start {
            None => self.tsne.clone(),
            Some(_) => self.tsne.carried(),
        };
        let found = tsne(&all, &config, start)?;
        let rounded = |at: &[[f64; 2]]| at.iter().map(|at| at.map(round)).collect();
        let (points, means) = found.layout.split_at(embeddings.count());
        let frame = Frame { step, accuracy: None, points: rounded(points), class_means: rounded(means), kl: found.kl };
        Ok((frame, found.layout))
    }
}

/// To three decimals, which is finer than a picture shows.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
