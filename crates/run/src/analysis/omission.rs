use super::observer::Observer;
use super::steps::adapt;
use super::subject::at_least;
use super::{Analysis, Subject};
use crate::images::Images;
use crate::{RunError, Watcher};
use flipcast_images::dataset::{Subset, split_halves};
use flipcast_images::loader::Order;
use flipcast_record::Protocol;
use flipcast_record::results::{CurvePoint, Omission};

/// Which images are kept from adaptation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OmissionRule {
    /// Those whose label is among this many classes with the largest initial scores.
    TopK(usize),
    /// Those whose initial entropy, in nats, is at most this; 0 keeps none from it.
    Entropy(f64),
}

impl OmissionRule {
    /// Its name in protocols.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TopK(_) => "top_k",
            Self::Entropy(_) => "entropy",
        }
    }

    /// Its value in protocols.
    pub fn value(&self) -> f64 {
        match *self {
            Self::TopK(k) => k as f64,
            Self::Entropy(threshold) => threshold,
        }
    }
}

/// Omission: adapt without the images the network was right or certain about.
///
/// *Idea.* If adaptation only confirmed what the network knows, images it gets wrong could teach it nothing. Leave out those it
/// gets right, or is certain about, and see how much of the gain remains.
///
/// *Formula.* The images are split into an adaptation and a holdout half. The unadapted network predicts the first half; an image
/// is left out if its label is among the `k` largest outputs, or if its entropy is at most a threshold. The network adapts to what
/// is left, and its accuracy on images of the holdout half is taken every few steps.
///
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024, section 5.
///
/// *Departures from the reference.* Sizes are not published: halves by class, and a sample of the holdout. Initial predictions have
/// the statistics the method adapts with, which is the network at step 0. Where fewer than two images are left, nothing adapts
/// and the curve has its first point alone.
pub struct OmissionJob<'a> {
    /// What adapts to what.
    pub subject: Subject<'a>,
    /// What is left out.
    pub rule: OmissionRule,
    /// Steps of adaptation.
    pub steps: usize,
    /// Steps from one look at the holdout to the next.
    pub every: usize,
    /// Holdout images that are predicted, at most.
    pub holdout: usize,
}

impl Analysis for OmissionJob<'_> {
    type Result = Omission;

    fn protocol(&self) -> Result<Protocol, RunError> {
        Ok(self
            .subject
            .protocol("omission")?
            .with("steps", &self.steps)?
            .with("every", &self.every)?
            .with("rule", &self.rule.name())?
            .with("value", &self.rule.value())?
            .with("holdout", &self.holdout)?)
    }

    fn run(&self, watcher: &mut dyn Watcher) -> Result<Omission, RunError> {
        self.check()?;
        let subject = &self.subject;
        let scope = subject.request.scope;
        let seed = subject.request.seed;
        let available = Subset::new(subject.request.dataset.clone(), (0..subject.images()).collect())?;
        let (half, holdout) = split_halves(&available, seed)?;
        let holdout = sampled(holdout, self.holdout, seed);
        let (kept, mut omission) = self.choose(half, watcher)?;

        let holdout = subject.open_some(holdout)?;
        let mut observer = Observer::new(subject, &holdout, holdout.len())?;
        let seen = observer.observe(None)?;
        omission.holdout_images = seen.labels.len();
        omission.curve.push(CurvePoint { step: 0, accuracy: seen.accuracy(scope) });
        if kept.len() < 2 {
            return Ok(omission);
        }
        let images = subject.open_some(kept)?;
        adapt(subject, &images, self.steps, watcher, |step, affine| {
            if step.is_multiple_of(self.every) || step == self.steps {
                let accuracy = observer.observe(Some(affine))?.accuracy(scope);
                omission.curve.push(CurvePoint { step, accuracy });
            }
            Ok(())
        })?;
        Ok(omission)
    }
}

impl OmissionJob<'_> {
    fn check(&self) -> Result<(), RunError> {
        self.subject.check()?;
        at_least("number of images", self.subject.images(), 4, "at least 4")?;
        at_least("number of holdout images", self.holdout, 2, "at least 2")?;
        at_least("steps between looks", self.every, 1, "at least 1")?;
        if let OmissionRule::Entropy(threshold) = self.rule
            && !(threshold.is_finite() && threshold >= 0.0)
        {
            return Err(RunError::Number {
                setting: "entropy threshold",
                found: threshold,
                expected: "a finite number of nats that is not negative",
            });
        }
        Ok(())
    }

    /// The images of `half` that are left, and what is known of the others. Images that cannot be read count as neither.
    fn choose(&self, half: Vec<usize>, watcher: &mut dyn Watcher) -> Result<(Vec<usize>, Omission), RunError> {
        let subject = &self.subject;
        let scope = subject.request.scope;
        let images: Images = subject.open_some(half.clone())?;
        watcher.predicted(0, images.len());
        let mut observer = Observer::new(subject, &images, images.len())?;
        let seen = observer.observe(None)?;
        watcher.predicted(images.len(), images.len());
        let entropies = seen.outputs.entropies();
        let mut kept = Vec::new();
        let mut dropped = Vec::new();
        for (place, (row, label)) in seen.outputs.rows().zip(&seen.labels).enumerate() {
            let drop = match self.rule {
                OmissionRule::TopK(0) => false,
                OmissionRule::TopK(k) => {
                    let class = scope.alternative(label).ok_or(RunError::Unlabelled {
                        unlabelled: seen.labels.iter().filter(|l| !l.is_known()).count(),
                        images: seen.labels.len(),
                    })?;
                    rank_of(row, class) < k
                }
                OmissionRule::Entropy(threshold) => threshold > 0.0 && entropies[place] <= threshold,
            };
            if drop {
                dropped.push(entropies[place]);
            } else {
                kept.push(half[seen.indices[place]]);
            }
        }
        kept.sort_unstable();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let omission = Omission {
            images: entropies.len(),
            dropped: dropped.len(),
            dropped_entropy: (!dropped.is_empty()).then(|| mean(&dropped)),
            mean_entropy: mean(&entropies),
            holdout_images: 0,
            curve: Vec::new(),
        };
        Ok((kept, omission))
    }
}

/// Classes with a larger output than `class`; of equal ones the first is the larger.
fn rank_of(row: &[f32], class: usize) -> usize {
    let own = row[class];
    let before = row.iter().enumerate();
    before.filter(|&(other, &value)| value > own || (value == own && other < class)).count()
}

/// Up to `most` of `indices`, drawn by `seed`, in order.
fn sampled(indices: Vec<usize>, most: usize, seed: u64) -> Vec<usize> {
    let order = Order::Shuffled { seed };
    let places = order.indices(indices.len()).into_iter().take(most);
    let mut chosen: Vec<usize> = places.map(|place| indices[place]).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_larger_outputs_and_earlier_equals() {
        let row = [0.5, 2.0, 0.5, -1.0];
        assert_eq!([0, 1, 2, 3].map(|class| rank_of(&row, class)), [1, 0, 2, 3]);
    }

    #[test]
    fn samples_are_in_order_and_bounded() {
        let found = sampled((10..30).collect(), 5, 3);
        assert_eq!(found.len(), 5);
        assert!(found.is_sorted() && found.iter().all(|index| (10..30).contains(index)));
        assert_eq!(sampled(vec![4, 9], 5, 3), [4, 9]);
    }
}
