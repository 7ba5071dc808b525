//! What the tests of every loss share.

use flipcast_executor::Logits;
use flipcast_executor::loss::Predictions;

/// Logits of two images of four classes with few bits, so that steps of 1/64 are exact in single precision: one
/// undecided prediction and one nearly certain.
pub const LOGITS: [f32; 8] = [0.25, -1.25, 0.5, 0.0, 5.5, -0.75, 1.0, 0.5];
/// Classes of [`LOGITS`].
pub const CLASSES: usize = 4;

/// Compares a loss's gradient with its differences of fourth order, whose error is about `h^4 / 30`, 2e-9.
///
/// # Panics
/// If they differ by more than single precision explains.
pub fn assert_gradient(loss: impl Fn(&Predictions, &mut Vec<f32>) -> f64) {
    let step = 1.0 / 64.0;
    let mut predictions = Predictions::default();
    let mut gradient = Vec::new();
    predictions.see(Logits::new(&LOGITS, CLASSES));
    loss(&predictions, &mut gradient);
    assert_eq!(gradient.len(), LOGITS.len());
    let mut unused = Vec::new();
    for (i, &found) in gradient.iter().enumerate() {
        let mut at = |steps: f32| {
            let mut moved = LOGITS;
            moved[i] += steps * step;
            predictions.see(Logits::new(&moved, CLASSES));
            loss(&predictions, &mut unused)
        };
        let expected = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / f64::from(12.0 * step);
        let error = (f64::from(found) - expected).abs();
        // Single precision leaves 6e-8 of a gradient of at most 1; the differences leave the rest.
        assert!(error < 2e-7, "logit {i}: {found} and {expected}");
    }
}
