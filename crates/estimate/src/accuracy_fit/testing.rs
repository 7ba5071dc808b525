//! Samples for tests.

use super::share;
use crate::{ClassShares, SignalSample, Signals};
use flipcast_ground::SplitMix64;

/// Samples of `kinds` kinds of shift whose signals tell the accuracy up to an error of the kind's own.
pub(crate) fn samples(kinds: usize, per_kind: usize, seed: u64) -> Vec<SignalSample> {
    let mut random = SplitMix64::new(seed);
    let mut samples = Vec::new();
    for kind in 0..=kinds {
        let offset = if kind == 0 { 0.0 } else { 0.1 * random.normal() };
        for sample in 0..per_kind {
            let images = [50, 100, 300, 1000, 5000][(kind + sample) % 5];
            let odds = 1.5 - 2.5 * random.uniform();
            let expected = share(odds);
            let right = (0..images).filter(|_| random.uniform() < expected).count();
            let usual_shares = sample % 3 == 0;
            let shares = if usual_shares { ClassShares::Sample } else { ClassShares::Dirichlet01 };
            // Each kind of shift has its own way from accuracy to signals.
            let seen = odds + offset + random.normal() / (images as f64).sqrt();
            let concentration = if usual_shares { 0.0 } else { 2.0 * random.uniform() };
            let signals = Signals {
                images,
                looked_at: images.min(1000),
                classes: 100,
                confidence: share(1.2 * seen + 0.3),
                entropy: 1.5 - 0.5 * seen,
                cross: share(seen),
                reverse: share(seen + 0.02 * random.normal()),
                concentration,
                source_concentration: concentration,
                transport: share(seen - concentration + 0.05 * random.normal()),
                // The statistics of the batch repair most of the shift.
                second_confidence: share(0.3 * seen + 1.0 + 0.05 * random.normal()),
                second_entropy: 1.4 - 0.5 * seen,
                second_transport: share(seen - concentration + 0.05 * random.normal()),
                early_cross: None,
            };
            let accuracy = right as f64 / images as f64;
            let group = (kind > 0).then(|| kind - 1);
            samples.push(SignalSample { signals, accuracy, group, shares });
        }
    }
    samples
}
