//! The star-shaped falloff of the two sparkle corruptions.

use std::f64::consts::PI;

/// A centre with rays of different lengths around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Star {
    /// Row and column of the centre.
    pub centre: [f64; 2],
    /// The length of each ray, at equal angles.
    pub lengths: Vec<f64>,
}

impl Star {
    /// How strongly the star shines at (row `y`, column `x`), 0 to 1; the distance falloff is raised to `power`.
    pub fn falloff(&self, y: f64, x: f64, power: f64) -> f64 {
        let (dy, dx) = (y - self.centre[0], x - self.centre[1]);
        let count = self.lengths.len();
        let position = (dx.atan2(dy) + PI) / (2.0 * PI) * count as f64;
        let ray = position as usize;
        let fraction = position - ray as f64;
        let (here, next) = (self.lengths[ray % count], self.lengths[(ray + 1) % count]);
        let reach = here + fraction * (next - here);
        let mut gain = reach * reach / (dx * dx + dy * dy + 1e-4);
        if power != 1.0 {
            gain = gain.powf(power);
        }
        ((1.0 - (fraction - 0.5) * (fraction - 0.5)) * gain).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_full_at_its_centre_and_fades_outwards() {
        let star = Star { centre: [10.0, 20.0], lengths: vec![3.0; 60] };
        assert_eq!(star.falloff(10.0, 21.0, 1.0), 1.0);
        let (near, far) = (star.falloff(10.0, 26.0, 1.0), star.falloff(10.0, 40.0, 1.0));
        assert!(near > far && far > 0.0);
    }
}
