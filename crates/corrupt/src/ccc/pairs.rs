//! Which corruptions follow each other.

use super::python_random::PythonRandom;

/// The corruptions of CCC-Easy; the harder levels use fewer.
const EASY: [&str; 14] = [
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
];
const HARD: [&str; 4] = ["gaussian_noise", "shot_noise", "impulse_noise", "contrast"];

/// The accuracy a ResNet-50 keeps along a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Difficulty {
    /// 40 per cent.
    Easy,
    /// 20 per cent.
    Medium,
    /// 0 per cent.
    Hard,
}

impl Difficulty {
    /// The target accuracy in per cent, as the published tables count.
    pub fn target_percent(self) -> f64 {
        match self {
            Self::Easy => 40.0,
            Self::Medium => 20.0,
            Self::Hard => 0.0,
        }
    }

    /// The corruptions pairs are made of, in published order.
    pub fn corruptions(self) -> &'static [&'static str] {
        match self {
            Self::Easy => &EASY,
            Self::Medium => &EASY[..13],
            Self::Hard => &HARD,
        }
    }
}

/// Two different corruptions, in the order they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Applied first.
    pub first: &'static str,
    /// Applied to the result.
    pub second: &'static str,
}

/// The endless sequence of pairs of a stream: the second corruption of a pair is the first of the next.
#[derive(Clone, Debug)]
pub struct PairSequence {
    corruptions: &'static [&'static str],
    random: PythonRandom,
    previous: Option<Pair>,
}

impl PairSequence {
    /// The published sequences have seeds 43, 44 and 45.
    pub fn new(difficulty: Difficulty, seed: u32) -> Self {
        Self { corruptions: difficulty.corruptions(), random: PythonRandom::new(seed), previous: None }
    }

    fn choose(&mut self) -> &'static str {
        self.corruptions[self.random.choice(self.corruptions.len())]
    }
}

impl Iterator for PairSequence {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        let first = match self.previous {
            Some(previous) => previous.second,
            None => self.choose(),
        };
        let mut second = self.choose();
        while second == first {
            second = self.choose();
        }
        self.previous = Some(Pair { first, second });
        self.previous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pairs_share_a_corruption() {
        let pairs: Vec<Pair> = PairSequence::new(Difficulty::Hard, 43).take(50).collect();
        assert!(pairs.iter().all(|pair| pair.first != pair.second));
        assert!(pairs.windows(2).all(|two| two[0].second == two[1].first));
    }
}
