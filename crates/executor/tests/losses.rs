//! Every loss's gradient equals differences of the loss.

use flipcast_executor::Logits;
use flipcast_executor::loss::{Predictions, conjugate_poly_loss, generalized_cross_entropy, weighted_entropy_gradient};
use flipcast_testkit::{CLASSES, LOGITS, assert_gradient};

#[test]
fn the_generalised_cross_entropy_has_its_gradient() {
    for power in [0.1, 0.8, 1.0] {
        assert_gradient(|predictions, gradient| generalized_cross_entropy(predictions, power, gradient));
    }
}

#[test]
fn the_conjugate_has_its_gradient() {
    for epsilon in [0.0, 1.0, 6.0, 8.0] {
        assert_gradient(|predictions, gradient| conjugate_poly_loss(predictions, epsilon, gradient));
    }
}

#[test]
fn the_weighted_entropy_has_its_gradient_with_weights_held() {
    let margin = 1.5;
    let mut at_start = Predictions::default();
    at_start.see(Logits::new(&LOGITS, CLASSES));
    let weights: Vec<f64> = (0..2).map(|i| (margin - at_start.entropy(i)).exp()).collect();
    assert_gradient(|predictions, gradient| {
        weighted_entropy_gradient(predictions, &[0, 1], margin, gradient);
        (0..2).map(|i| weights[i] * predictions.entropy(i) / 2.0).sum()
    });
}

#[test]
fn an_image_left_out_has_no_gradient() {
    let mut predictions = Predictions::default();
    predictions.see(Logits::new(&LOGITS, CLASSES));
    let mut gradient = vec![9.0; 3];
    weighted_entropy_gradient(&predictions, &[1], 1.5, &mut gradient);
    assert!(gradient[..CLASSES].iter().all(|&g| g == 0.0), "{gradient:?}");
    assert!(gradient[CLASSES..].iter().any(|&g| g != 0.0), "{gradient:?}");
}
