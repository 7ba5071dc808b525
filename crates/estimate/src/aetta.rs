use crate::outputs::check_rows;
use crate::{Embeddings, EstimateError, Score};
use flipcast_ground::{SplitMix64, argmax, log_softmax};
use serde::{Deserialize, Serialize};

/// Power of the normalised entropy that errors are divided by, as published.
const ENTROPY_POWER: i32 = 3;

/// Share of the former estimate that each batch keeps, as published.
const KEPT: f64 = 0.6;

/// A normalised entropy below this is that of a collapsed network whatever its exact size.
const LEAST_ENTROPY: f64 = 1e-9;

/// Settings of [`Aetta`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AettaConfig {
    /// Share of embedding values that a pass drops.
    pub dropout: f64,
    /// Passes with dropout per batch.
    pub passes: usize,
    /// Images whose predictions are judged together.
    pub batch_size: usize,
    /// Where the random numbers come from.
    pub seed: u64,
}

impl AettaConfig {
    /// As published: ten passes, batches of 64, and a rate of 0.4 for 10 classes (CIFAR-10), 0.3 for up to 200 (CIFAR-100,
    /// ImageNet-R) and 0.2 for more (ImageNet).
    pub fn published(classes: usize) -> Self {
        let dropout = match classes {
            0..=10 => 0.4,
            11..=200 => 0.3,
            _ => 0.2,
        };
        Self { dropout, passes: 10, batch_size: 64, seed: 0 }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), EstimateError> {
        let refused = |setting, found, expected| Err(EstimateError::Setting { setting, found, expected });
        if !(0.0..1.0).contains(&self.dropout) {
            return refused("dropout", self.dropout, "at least 0 and below 1");
        }
        if !(1..=1000).contains(&self.passes) {
            return refused("passes", self.passes as f64, "a whole number from 1 to 1000");
        }
        if self.batch_size == 0 {
            return refused("batch_size", 0.0, "at least 1");
        }
        Ok(())
    }
}

/// The last layer of a network: from an embedding to logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// One row per embedding value, so that a dropped value skips a row.
    columns: Vec<f32>,
    bias: Vec<f32>,
}

impl Head {
    /// Takes a row-major weight of one row per class, and one bias per class.
    pub fn new(weight: &[f32], bias: Vec<f32>) -> Result<Self, EstimateError> {
        let classes = bias.len();
        check_rows("biases", &bias, classes)?;
        check_rows("head weights", weight, classes)?;
        let dims = weight.len() / classes;
        let mut columns = Vec::with_capacity(weight.len());
        for d in 0..dims {
            columns.extend(weight[d..].iter().step_by(dims));
        }
        Ok(Self { columns, bias })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.bias.len()
    }

    /// Values of an embedding.
    pub fn dims(&self) -> usize {
        self.columns.len() / self.bias.len()
    }
}

/// AETTA: accuracy of an adapting network by agreement under dropout, batch after batch.
///
/// *Idea.* Predictions that change when parts of the embedding are dropped are often wrong. A network that has collapsed
/// agrees with itself all the same, but its average prediction has little entropy, so errors are divided by a power of that.
/// *Formula.* Per batch: `e` = share of passes whose class differs from the one without dropout; `E` = entropy of the mean
/// prediction over images and passes; error `clip(e / (E / ln K)^3, 0, 1 - 1/K)`, smoothed as `0.6 old + 0.4 new`.
/// *Reference.* Lee et al., "AETTA: Label-Free Accuracy Estimation for Test-Time Adaptation", CVPR 2024.
/// *Departures from the reference.* Logarithms without an epsilon. With one class the accuracy is 1. As in the published code the
/// first batch is smoothed with its own uncorrected `e`.
#[derive(Clone, Debug)]
pub struct Aetta {
    config: AettaConfig,
    random: SplitMix64,
    error: Option<f64>,
}

impl Aetta {
    /// An estimator that has seen nothing.
    pub fn new(config: AettaConfig) -> Result<Self, EstimateError> {
        config.check()?;
        Ok(Self { config, random: SplitMix64::new(config.seed), error: None })
    }

    /// The smoothed accuracy after one more batch, whose size is up to the caller.
    pub fn step(&mut self, embeddings: &Embeddings, head: &Head) -> Result<f64, EstimateError> {
        if embeddings.dims() != head.dims() {
            return Err(EstimateError::Length {
                what: "values of an embedding",
                found: embeddings.dims(),
                expected: head.dims(),
            });
        }
        let rows: Vec<&[f32]> = embeddings.rows().collect();
        self.step_rows(&rows, head)
    }

    fn step_rows(&mut self, rows: &[&[f32]], head: &Head) -> Result<f64, EstimateError> {
        let classes = head.classes();
        let mut logits = vec![0.0f32; (self.config.passes + 1) * classes];
        let mut log_probs = Vec::with_capacity(classes);
        let mut average = vec![0.0f64; classes];
        let mut changed = 0usize;
        for row in rows {
            self.pass_all(row, head, &mut logits)?;
            let (plain, dropped) = logits.split_at(classes);
            let class = argmax(plain);
            for pass in dropped.chunks_exact(classes) {
                changed += usize::from(argmax(pass) != class);
                log_softmax(pass, &mut log_probs);
                let probs = log_probs.iter().map(|log_p| log_p.exp());
                average.iter_mut().zip(probs).for_each(|(a, p)| *a += p);
            }
        }
        let predictions = (rows.len() * self.config.passes) as f64;
        let disagreement = changed as f64 / predictions;
        let entropy: f64 = average.iter().map(|sum| sum / predictions).filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum();
        let error = if classes == 1 {
            0.0
        } else {
            let share = (entropy / (classes as f64).ln()).max(LEAST_ENTROPY);
            (disagreement / share.powi(ENTROPY_POWER)).min(1.0 - 1.0 / classes as f64)
        };
        let old = self.error.unwrap_or(disagreement);
        let smoothed = KEPT * old + (1.0 - KEPT) * error;
        self.error = Some(smoothed);
        Ok(1.0 - smoothed)
    }

    /// Logits of one image: without dropout, then of every pass.
    fn pass_all(&mut self, row: &[f32], head: &Head, logits: &mut [f32]) -> Result<(), EstimateError> {
        let classes = head.classes();
        let kept_scale = (1.0 - self.config.dropout).recip() as f32;
        for pass in logits.chunks_exact_mut(classes) {
            pass.copy_from_slice(&head.bias);
        }
        for (&x, weights) in row.iter().zip(head.columns.chunks_exact(classes)) {
            for (pass, sums) in logits.chunks_exact_mut(classes).enumerate() {
                let factor = if pass == 0 {
                    x
                } else if self.random.uniform() < self.config.dropout {
                    continue;
                } else {
                    x * kept_scale
                };
                sums.iter_mut().zip(weights).for_each(|(s, w)| *s += factor * w);
            }
        }
        match logits.iter().position(|z| !z.is_finite()) {
            Some(index) => Err(EstimateError::NotFinite { what: "logit", index, found: logits[index].into() }),
            None => Ok(()),
        }
    }
}

/// [`Aetta`] over a whole set, in its order: the mean over images of the smoothed accuracy of their batch.
pub fn aetta(embeddings: &Embeddings, head: &Head, config: &AettaConfig) -> Result<Score, EstimateError> {
    let mut state = Aetta::new(*config)?;
    if embeddings.dims() != head.dims() {
        return Err(EstimateError::Length {
            what: "values of an embedding",
            found: embeddings.dims(),
            expected: head.dims(),
        });
    }
    let rows: Vec<&[f32]> = embeddings.rows().collect();
    let mut sum = 0.0;
    for batch in rows.chunks(config.batch_size) {
        sum += batch.len() as f64 * state.step_rows(batch, head)?;
    }
    let images = rows.len();
    Ok(Score::of_images(sum / images as f64, images))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head that reads class `k` from values `3k` to `3k + 2`, so that dropping one of them changes nothing.
    fn redundant_head(classes: usize) -> Head {
        let dims = 3 * classes;
        let weight: Vec<f32> = (0..classes * dims).map(|at| f32::from(u8::from(at % dims / 3 == at / dims))).collect();
        Head::new(&weight, vec![0.0; classes]).unwrap()
    }

    /// Image `i` is of class `of(i)`, with strength 8.
    fn images(count: usize, classes: usize, of: impl Fn(usize) -> usize) -> Embeddings {
        let values = (0..count)
            .flat_map(|i| {
                let class = of(i);
                (0..3 * classes).map(move |d| if d / 3 == class { 8.0 } else { 0.0 })
            })
            .collect();
        Embeddings::new(values, 3 * classes).unwrap()
    }

    #[test]
    fn without_dropout_everything_agrees() {
        let config = AettaConfig { dropout: 0.0, ..AettaConfig::published(4) };
        let score = aetta(&images(100, 4, |i| i % 4), &redundant_head(4), &config).unwrap();
        assert_eq!(score.value, 1.0);
    }

    #[test]
    fn the_first_batch_is_as_written() {
        // A class survives unless all three of its values are dropped: 0.4^3. The first of four equal logits then wins, which
        // is right for class 0 alone: e = 3/4 * 0.064. All classes occur, but a pass without any value spreads evenly.
        let config = AettaConfig { passes: 100, batch_size: 400, ..AettaConfig::published(4) };
        let score = aetta(&images(400, 4, |i| i % 4), &redundant_head(4), &config).unwrap();
        // E is ln 4 by symmetry, so both terms of the smoothing are e. The standard error of e is 0.001.
        assert!((1.0 - score.value - 0.048).abs() < 0.004, "{score:?}");
    }

    #[test]
    fn collapse_lowers_the_estimate() {
        let config = AettaConfig::published(4);
        let head = redundant_head(4);
        let healthy = aetta(&images(400, 4, |i| i % 4), &head, &config).unwrap();
        let collapsed = aetta(&images(400, 4, |_| 1), &head, &config).unwrap();
        assert!(collapsed.value < healthy.value - 0.3);
        assert!(collapsed.value >= 0.25);
    }

    #[test]
    fn the_seed_decides_and_batches_may_come_one_by_one() {
        let config = AettaConfig::published(5);
        let (set, head) = (images(64, 5, |i| i * i % 5), redundant_head(5));
        let whole = aetta(&set, &head, &config).unwrap().value;
        let mut state = Aetta::new(config).unwrap();
        assert_eq!(state.step(&set, &head).unwrap(), whole);
        let other = AettaConfig { seed: 1, ..config };
        assert_ne!(aetta(&set, &head, &other).unwrap().value, whole);
    }

    #[test]
    fn edges_are_handled() {
        let single = Head::new(&[1.0, 2.0], vec![0.5]).unwrap();
        let one = Embeddings::new(vec![1.0, 1.0], 2).unwrap();
        let config = AettaConfig::published(1);
        assert_eq!(aetta(&one, &single, &config).unwrap().value, 1.0);
        assert!(Head::new(&[1.0; 5], vec![0.0; 2]).is_err());
        assert!(Head::new(&[], vec![]).is_err());
        assert!(Head::new(&[f32::NAN; 2], vec![0.0; 2]).is_err());
        let wide = Embeddings::new(vec![1.0; 3], 3).unwrap();
        assert!(aetta(&wide, &single, &config).is_err());
        let huge = Embeddings::new(vec![f32::MAX; 2], 2).unwrap();
        assert!(matches!(aetta(&huge, &single, &config), Err(EstimateError::NotFinite { .. })));
        let bad = AettaConfig { dropout: 1.0, ..config };
        assert!(aetta(&one, &single, &bad).is_err());
    }
}
