/// Holds parameters to where they were between resets, each as strongly as the loss depended on it.
#[derive(Debug, Default)]
pub(super) struct Penalty {
    /// Factor of the penalty.
    pub strength: f64,
    /// Sums since the last reset.
    square_gradients: Vec<f64>,
    parameters: Vec<f64>,
    steps: usize,
    /// Averages over resets; empty before the first.
    importance: Vec<f64>,
    home: Vec<f64>,
}

/// Share of the averages that a reset leaves in place.
const MEMORY: f64 = 0.9;

impl Penalty {
    /// Adds a step's parameters and the gradient of its loss.
    pub fn see(&mut self, parameters: &[f32], gradient: &[f32]) {
        self.steps += 1;
        self.square_gradients.resize(gradient.len(), 0.0);
        self.parameters.resize(parameters.len(), 0.0);
        for (sum, &g) in self.square_gradients.iter_mut().zip(gradient) {
            *sum += f64::from(g).powi(2);
        }
        for (sum, &p) in self.parameters.iter_mut().zip(parameters) {
            *sum += f64::from(p);
        }
    }

    /// Adds the gradient of the penalty, `2 strength F_j (theta_j - mu_j)`.
    pub fn add_gradient(&self, parameters: &[f32], gradient: &mut [f32]) {
        let homes = self.importance.iter().zip(&self.home);
        for ((g, &p), (importance, home)) in gradient.iter_mut().zip(parameters).zip(homes) {
            *g += (2.0 * self.strength * importance * (f64::from(p) - home)) as f32;
        }
    }

    /// Lets the averages follow what was seen since the last reset, and forgets the latter.
    pub fn learn(&mut self) {
        let steps = self.steps.max(1) as f64;
        follow(&mut self.importance, &self.square_gradients, steps);
        follow(&mut self.home, &self.parameters, steps);
        self.square_gradients.clear();
        self.parameters.clear();
        self.steps = 0;
    }
}

fn follow(averages: &mut Vec<f64>, sums: &[f64], steps: f64) {
    if averages.is_empty() {
        averages.extend(sums.iter().map(|sum| sum / steps));
        return;
    }
    for (average, sum) in averages.iter_mut().zip(sums) {
        *average = MEMORY * *average + (1.0 - MEMORY) * sum / steps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_between_resets_are_averaged_over_resets() {
        let mut penalty = Penalty { strength: 0.5, ..Penalty::default() };
        let mut gradient = [1.0f32, 1.0];
        penalty.add_gradient(&[3.0, 3.0], &mut gradient);
        assert_eq!(gradient, [1.0, 1.0], "nothing is known yet");
        penalty.see(&[1.0, 0.0], &[2.0, 0.0]);
        penalty.see(&[3.0, 0.0], &[4.0, 1.0]);
        penalty.learn();
        assert_eq!((&penalty.importance[..], &penalty.home[..]), (&[10.0, 0.5][..], &[2.0, 0.0][..]));
        // 2 * 0.5 * 10 * (3 - 2) and 2 * 0.5 * 0.5 * (4 - 0).
        penalty.add_gradient(&[3.0, 4.0], &mut gradient);
        assert_eq!(gradient, [11.0, 3.0]);
        penalty.see(&[4.0, 0.0], &[0.0, 0.0]);
        penalty.learn();
        assert!((penalty.importance[0] - 9.0).abs() < 1e-12);
        assert!((penalty.home[0] - 2.2).abs() < 1e-12);
    }
}
