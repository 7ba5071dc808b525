//! A strength to one side or the other.

use crate::rng::CounterRng;

/// Share of the full strength below which no draw falls: images of one severity differ, but not in kind.
const LEAST: f64 = 0.8;

/// A value between 0.8 and 1 times `most`, of either sign.
pub(super) fn draw_signed(rng: &mut CounterRng, most: f64) -> f64 {
    let size = most * rng.uniform_in(LEAST, 1.0);
    if rng.below(2) == 0 { size } else { -size }
}
