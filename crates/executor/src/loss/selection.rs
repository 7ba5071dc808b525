use super::Predictions;

/// Share of the class average that a batch leaves in place.
const MEMORY: f64 = 0.9;

/// The two filters of ETA, and the average prediction that the second compares with.
#[derive(Debug, Default)]
pub struct Selection {
    /// Empty until an image has been kept.
    average: Vec<f64>,
    batch_mean: Vec<f64>,
    kept: Vec<usize>,
    reliable: usize,
}

impl Selection {
    /// Keeps the images with an entropy below `entropy_margin` whose cosine with the average is below `cosine_margin`. The
    /// mean of the kept ones then joins the average; a batch of which nothing is kept leaves it as it was.
    pub fn select(&mut self, predictions: &Predictions, entropy_margin: f64, cosine_margin: Option<f64>) {
        let is_reliable = |&image: &usize| predictions.entropy(image) < entropy_margin;
        self.kept.clear();
        self.kept.extend((0..predictions.images()).filter(is_reliable));
        self.reliable = self.kept.len();
        // An average of other classes says nothing of these.
        if self.average.len() != predictions.classes() {
            self.average.clear();
        }
        let average = &self.average;
        if let Some(margin) = cosine_margin
            && !average.is_empty()
        {
            self.kept.retain(|&image| cosine(average, predictions.probs(image)).abs() < margin);
        }
        self.learn(predictions);
    }

    /// The images that passed both filters.
    pub fn kept(&self) -> &[usize] {
        &self.kept
    }

    /// Number of images that passed the first filter.
    pub fn reliable(&self) -> usize {
        self.reliable
    }

    /// The average; empty until an image has been kept.
    pub fn average(&self) -> &[f64] {
        &self.average
    }

    /// Goes on from an average.
    pub fn set_average(&mut self, average: Vec<f64>) {
        self.average = average;
    }

    /// Forgets the average.
    pub fn forget(&mut self) {
        self.average.clear();
    }

    fn learn(&mut self, predictions: &Predictions) {
        if self.kept.is_empty() {
            return;
        }
        self.batch_mean.clear();
        self.batch_mean.resize(predictions.classes(), 0.0);
        for &image in &self.kept {
            for (sum, p) in self.batch_mean.iter_mut().zip(predictions.probs(image)) {
                *sum += p / self.kept.len() as f64;
            }
        }
        if self.average.is_empty() {
            self.average.extend_from_slice(&self.batch_mean);
        } else {
            for (average, new) in self.average.iter_mut().zip(&self.batch_mean) {
                *average = MEMORY * *average + (1.0 - MEMORY) * new;
            }
        }
    }
}

/// The cosine between two vectors.
pub fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logits;

    fn see(logits: &[f32], classes: usize) -> Predictions {
        let mut predictions = Predictions::default();
        predictions.see(Logits::new(logits, classes));
        predictions
    }

    #[test]
    fn an_uncertain_image_is_not_reliable() {
        let mut selection = Selection::default();
        selection.select(&see(&[0.0, 0.0, 9.0, 0.0], 2), 0.4 * 2f64.ln(), None);
        assert_eq!((selection.kept(), selection.reliable()), (&[1][..], 1));
    }

    #[test]
    fn an_image_like_the_average_is_redundant() {
        let mut selection = Selection::default();
        let predictions = see(&[9.0, 0.0], 2);
        selection.select(&predictions, 0.2, Some(0.5));
        assert_eq!(selection.kept(), [0], "there is no average yet");
        selection.select(&predictions, 0.2, Some(0.5));
        assert_eq!((selection.kept().len(), selection.reliable()), (0, 1));
        selection.select(&see(&[0.0, 9.0], 2), 0.2, Some(0.5));
        assert_eq!(selection.kept(), [0], "the other class is new");
        selection.forget();
        selection.select(&predictions, 0.2, Some(0.5));
        assert_eq!(selection.kept(), [0]);
    }

    #[test]
    fn an_empty_keep_set_leaves_the_average() {
        let mut selection = Selection::default();
        selection.select(&see(&[0.0, 0.0], 2), 0.2, Some(0.5));
        assert!(selection.average.is_empty());
        selection.select(&see(&[9.0, 0.0], 2), 0.2, Some(0.5));
        let average = selection.average.clone();
        selection.select(&see(&[0.0, 0.0], 2), 0.2, Some(0.5));
        assert_eq!(selection.average, average);
    }

    #[test]
    fn the_average_keeps_nine_tenths() {
        let mut selection = Selection::default();
        let (first, second) = (see(&[9.0, 0.0], 2), see(&[0.0, 9.0], 2));
        selection.select(&first, 0.2, None);
        selection.select(&second, 0.2, None);
        let expected = 0.9 * first.probs(0)[0] + 0.1 * second.probs(0)[0];
        assert!((selection.average[0] - expected).abs() < 1e-15);
    }
}
