use crate::embed::EmbedError;
use serde::{Deserialize, Serialize};

/// Most points of a map: all pairs are kept in memory and visited in every round.
const MOST_POINTS: usize = 5000;
/// Fewest points between which there is something to arrange.
const FEWEST_POINTS: usize = 4;

/// Settings of [`tsne`](crate::embed::tsne()).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsneConfig {
    /// About how many neighbours each point has.
    pub perplexity: f64,
    /// How much stronger points attract each other in the first rounds.
    pub early_exaggeration: f64,
    /// Rounds with early exaggeration.
    pub early_rounds: usize,
    /// All rounds, the early ones included.
    pub rounds: usize,
    /// Length of a step; `None` chooses it by the number of points.
    pub learning_rate: Option<f64>,
    /// Seed of the search for the first layout.
    pub seed: u64,
}

impl Default for TsneConfig {
    /// As scikit-learn: perplexity 30, 1,000 rounds, of which 250 with an exaggeration of 12.
    fn default() -> Self {
        Self {
            perplexity: 30.0,
            early_exaggeration: 12.0,
            early_rounds: 250,
            rounds: 1000,
            learning_rate: None,
            seed: 0,
        }
    }
}

impl TsneConfig {
    /// The same settings for a layout that is carried on: few rounds, none of them exaggerated, so that what did not change
    /// stays where it is.
    pub fn carried(&self) -> Self {
        Self { early_rounds: 0, rounds: self.rounds.div_ceil(4), ..self.clone() }
    }

    /// Refuses settings outside their ranges.
    ///
    /// # Errors
    /// When there are too few or too many points, or a setting does not fit them.
    pub fn check(&self, points: usize) -> Result<(), EmbedError> {
        if !(FEWEST_POINTS..=MOST_POINTS).contains(&points) {
            return Err(EmbedError::Setting {
                setting: "number of points",
                found: points,
                expected: format!("{FEWEST_POINTS} to {MOST_POINTS}"),
            });
        }
        let most = (points - 1) as f64;
        let learning_rate = self.learning_rate.unwrap_or(1.0);
        for (setting, found, low, high) in [
            ("perplexity", self.perplexity, 1.0, most),
            ("early_exaggeration", self.early_exaggeration, 1.0, 1e3),
            ("learning_rate", learning_rate, 1e-6, 1e6),
        ] {
            if !(low..=high).contains(&found) {
                return Err(EmbedError::Number { setting, found, low, high });
            }
        }
        if self.early_rounds > self.rounds {
            return Err(EmbedError::Setting {
                setting: "early_rounds",
                found: self.early_rounds,
                expected: format!("at most {}, all rounds", self.rounds),
            });
        }
        Ok(())
    }

    /// Length of a step for this many points.
    pub(super) fn step(&self, points: usize) -> f64 {
        self.learning_rate.unwrap_or_else(|| {
            let exaggeration = Self::default().early_exaggeration;
            (points as f64 / exaggeration / 4.0).max(50.0)
        })
    }
}
