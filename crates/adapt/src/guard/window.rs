use super::diversity::entropy;
use flipcast_executor::Logits;
use flipcast_ground::log_softmax;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What is kept of one batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    images: usize,
    /// Sum of the probabilities of every class.
    probs: Vec<f64>,
    classes: Vec<usize>,
    source_classes: Option<Vec<usize>>,
}

/// The last batches, as many as are needed to hold `capacity` images.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Window {
    capacity: usize,
    num_classes: usize,
    batches: VecDeque<Seen>,
    images: usize,
}

impl Window {
    pub fn new(capacity: usize, num_classes: usize) -> Self {
        Self { capacity, num_classes, batches: VecDeque::new(), images: 0 }
    }

    pub fn clear(&mut self) {
        self.batches.clear();
        self.images = 0;
    }

    pub fn images(&self) -> usize {
        self.images
    }

    /// Whether it can have been filled by batches of a network with this many classes.
    pub fn is_sound(&self, capacity: usize, num_classes: usize) -> bool {
        let sound = |seen: &Seen| {
            let classes = seen.classes.iter().chain(seen.source_classes.iter().flatten());
            let rows = |classes: &Vec<usize>| classes.len() == seen.images;
            seen.probs.len() == num_classes
                && rows(&seen.classes)
                && seen.source_classes.as_ref().is_none_or(rows)
                && classes.copied().all(|class| class < num_classes)
        };
        (self.capacity, self.num_classes) == (capacity, num_classes)
            && self.images == self.batches.iter().map(|seen| seen.images).sum::<usize>()
            && self.batches.iter().all(sound)
    }

    /// Adds a batch and forgets those that are not needed to fill the window.
    pub fn push(&mut self, logits: Logits, source_classes: Option<&[usize]>) {
        let mut probs = vec![0.0; self.num_classes];
        let mut log_probs = Vec::with_capacity(self.num_classes);
        for row in logits.rows() {
            log_softmax(row, &mut log_probs);
            for (sum, log_p) in probs.iter_mut().zip(&log_probs) {
                *sum += log_p.exp();
            }
        }
        self.images += logits.images();
        self.batches.push_back(Seen {
            images: logits.images(),
            probs,
            classes: logits.argmax(),
            source_classes: source_classes.map(<[usize]>::to_vec),
        });
        while let Some(oldest) = self.batches.front()
            && self.images - oldest.images >= self.capacity
        {
            self.images -= oldest.images;
            self.batches.pop_front();
        }
    }

    /// Entropy of the mean prediction.
    pub fn entropy_of_mean(&self) -> f64 {
        let mut total = vec![0.0; self.num_classes];
        for batch in &self.batches {
            for (sum, p) in total.iter_mut().zip(&batch.probs) {
                *sum += p;
            }
        }
        entropy(total.iter().copied())
    }

    /// Entropy of the histogram of predictions.
    pub fn entropy_of_classes(&self) -> f64 {
        self.histogram_entropy(|batch| Some(&batch.classes))
    }

    /// The same of the source model's predictions, if all are known.
    pub fn entropy_of_source_classes(&self) -> Option<f64> {
        self.knows_source().then(|| self.histogram_entropy(|batch| batch.source_classes.as_ref()))
    }

    /// Share of predictions that differ from the source model's, if all are known.
    pub fn flip_rate(&self) -> Option<f64> {
        if !self.knows_source() {
            return None;
        }
        let flips = self.batches.iter().flat_map(|batch| {
            let source = batch.source_classes.iter().flatten();
            batch.classes.iter().zip(source).filter(|(a, b)| a != b)
        });
        Some(flips.count() as f64 / self.images as f64)
    }

    fn knows_source(&self) -> bool {
        self.images > 0 && self.batches.iter().all(|batch| batch.source_classes.is_some())
    }

    fn histogram_entropy<'a>(&'a self, of: impl Fn(&'a Seen) -> Option<&'a Vec<usize>>) -> f64 {
        let mut counts = vec![0.0; self.num_classes];
        for &class in self.batches.iter().filter_map(of).flatten() {
            // A class the model does not have cannot be counted; it still is a flip.
            if let Some(count) = counts.get_mut(class) {
                *count += 1.0;
            }
        }
        entropy(counts.iter().copied())
    }
}
