use super::log_softmax_entropy;
use crate::Logits;

/// Probabilities, their logarithms and their entropies for every image of a batch, in double precision.
#[derive(Debug, Default)]
pub struct Predictions {
    classes: usize,
    log_probs: Vec<f64>,
    probs: Vec<f64>,
    entropies: Vec<f64>,
    /// One image's log-probabilities, before they join the others.
    row: Vec<f64>,
}

impl Predictions {
    /// Replaces what is known by the predictions of `logits`.
    pub fn see(&mut self, logits: Logits) {
        self.classes = logits.classes();
        self.log_probs.clear();
        self.probs.clear();
        self.entropies.clear();
        for row in logits.rows() {
            self.entropies.push(log_softmax_entropy(row, &mut self.row));
            self.log_probs.extend_from_slice(&self.row);
            self.probs.extend(self.row.iter().map(|z| z.exp()));
        }
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.entropies.len()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// One image's log-probabilities.
    pub fn log_probs(&self, image: usize) -> &[f64] {
        &self.log_probs[image * self.classes..][..self.classes]
    }

    /// One image's probabilities.
    pub fn probs(&self, image: usize) -> &[f64] {
        &self.probs[image * self.classes..][..self.classes]
    }

    /// One image's entropy, in nats.
    pub fn entropy(&self, image: usize) -> f64 {
        self.entropies[image]
    }

    /// The mean entropy of the batch, in nats.
    pub fn mean_entropy(&self) -> f64 {
        self.entropies.iter().sum::<f64>() / self.images() as f64
    }

    /// One image's class: the first of the most probable.
    pub fn class(&self, image: usize) -> usize {
        let ranked = self.log_probs(image).iter().enumerate();
        let best = ranked.reduce(|a, b| if b.1 > a.1 { b } else { a });
        best.map_or(0, |(class, _)| class)
    }

    /// Makes `gradient` the zero gradient of all logits.
    pub fn clear_gradient(&self, gradient: &mut Vec<f32>) {
        gradient.clear();
        gradient.resize(self.probs.len(), 0.0);
    }

    /// Writes `weight` times the gradient of one image's entropy, `-p_k (log p_k + H)`, to its row of `gradient`.
    pub fn write_entropy_gradient(&self, image: usize, weight: f64, gradient: &mut [f32]) {
        let row = &mut gradient[image * self.classes..][..self.classes];
        let entropy = self.entropies[image];
        let known = self.probs(image).iter().zip(self.log_probs(image));
        for (g, (p, log_p)) in row.iter_mut().zip(known) {
            *g = (-weight * p * (log_p + entropy)) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distributions_with_their_entropy_and_class() {
        let mut predictions = Predictions::default();
        predictions.see(Logits::new(&[9.0, 9.0], 2));
        predictions.see(Logits::new(&[0.0, 2.0, 2.0, 5.0, 1.0, 0.0], 3));
        assert_eq!((predictions.images(), predictions.classes()), (2, 3));
        for image in 0..2 {
            let probs = predictions.probs(image);
            assert!((probs.iter().sum::<f64>() - 1.0).abs() < 1e-15);
            let entropy: f64 = probs.iter().map(|p| -p * p.ln()).sum();
            assert!((entropy - predictions.entropy(image)).abs() < 1e-14);
        }
        assert_eq!((predictions.class(0), predictions.class(1)), (1, 0));
    }
}
