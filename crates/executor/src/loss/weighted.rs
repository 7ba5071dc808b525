//! Losses of chosen images and chosen classes.

use super::Predictions;

/// The gradient of `mean w_i H_i` over the kept images, with `w_i = exp(margin - H_i)` held constant.
pub fn weighted_entropy_gradient(predictions: &Predictions, kept: &[usize], margin: f64, gradient: &mut Vec<f32>) {
    predictions.clear_gradient(gradient);
    for &image in kept {
        let weight = (margin - predictions.entropy(image)).exp() / kept.len() as f64;
        predictions.write_entropy_gradient(image, weight, gradient);
    }
}

/// The mean generalised cross-entropy of a batch against its own classes; `gradient` receives its gradient.
pub fn generalized_cross_entropy(predictions: &Predictions, power: f64, gradient: &mut Vec<f32>) -> f64 {
    let images = predictions.images() as f64;
    let mut loss = 0.0;
    gradient.clear();
    for image in 0..predictions.images() {
        let class = predictions.class(image);
        let scaled = (power * predictions.log_probs(image)[class]).exp();
        loss += (1.0 - scaled) / power / images;
        let probs = predictions.probs(image).iter().enumerate();
        gradient.extend(probs.map(|(k, p)| {
            let target = f64::from(u8::from(k == class));
            (scaled * (p - target) / images) as f32
        }));
    }
    loss
}
