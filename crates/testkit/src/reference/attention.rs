use super::value::ReferenceValue;
use flipcast_graph::{Attention, Dims, TokenGroups};

/// Self-attention with what its settings and weights come to: who sees whom, and what is added to their scores.
pub(super) struct AttentionRun<'a> {
    input: &'a ReferenceValue,
    attention: &'a Attention,
    groups: TokenGroups,
    /// By head, query and key.
    bias: Option<Vec<f64>>,
    head_channels: usize,
}

/// One head of one group of one image.
#[derive(Clone, Copy)]
struct Unit {
    image: usize,
    group: usize,
    head: usize,
}

/// The parts of the input's channels.
const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;

impl<'a> AttentionRun<'a> {
    /// `None` when windows do not tile the input. `bias_table` is empty without a bias.
    pub(super) fn new(input: &'a ReferenceValue, attention: &'a Attention, bias_table: &'a [f64]) -> Option<Self> {
        Some(Self {
            input,
            attention,
            groups: attention.groups(input.dims)?,
            bias: attention.spread_bias(bias_table),
            head_channels: input.dims.channels / (3 * attention.heads),
        })
    }

    /// `softmax(scale * q k' + bias + mask) v`.
    pub(super) fn forward(&self) -> ReferenceValue {
        let dims = self.input.dims;
        let dims = Dims::new(dims.height, dims.width, dims.channels / 3);
        let mut out = ReferenceValue::zeros(self.input.images(), dims);
        for unit in self.units() {
            for query in 0..self.groups.size {
                for (key, prob) in self.probs(unit, query).into_iter().enumerate() {
                    let from = self.channels(unit, VALUE, key);
                    let to = self.token(unit, query) * dims.channels + unit.head * self.head_channels;
                    for c in 0..self.head_channels {
                        out.values[to + c] += prob * self.input.values[from + c];
                    }
                }
            }
        }
        out
    }

    /// The gradient of the input from that of the output.
    pub(super) fn backward(&self, gradient: &ReferenceValue) -> ReferenceValue {
        let width = self.head_channels;
        let scale = f64::from(self.attention.scale);
        let mut passed = ReferenceValue::zeros(self.input.images(), self.input.dims);
        for unit in self.units() {
            for query in 0..self.groups.size {
                let at = self.token(unit, query) * gradient.dims.channels + unit.head * width;
                let slopes = &gradient.values[at..at + width];
                let probs = self.probs(unit, query);
                let of_probs: Vec<f64> =
                    (0..self.groups.size).map(|key| dot(slopes, self.part(unit, VALUE, key))).collect();
                let mean = dot(&probs, &of_probs);
                let q = self.channels(unit, QUERY, query);
                for key in 0..self.groups.size {
                    let of_score = scale * probs[key] * (of_probs[key] - mean);
                    let (k, v) = (self.channels(unit, KEY, key), self.channels(unit, VALUE, key));
                    for (c, slope) in slopes.iter().enumerate() {
                        passed.values[q + c] += of_score * self.input.values[k + c];
                        passed.values[k + c] += of_score * self.input.values[q + c];
                        passed.values[v + c] += probs[key] * slope;
                    }
                }
            }
        }
        passed
    }

    /// How much of every key's value a query takes.
    fn probs(&self, unit: Unit, query: usize) -> Vec<f64> {
        let size = self.groups.size;
        let region = |i: usize| {
            let regions = self.groups.regions.as_ref();
            regions.map(|regions| regions[unit.group * size + i])
        };
        let score = |key: usize| {
            let product = dot(self.part(unit, QUERY, query), self.part(unit, KEY, key));
            let mut score = f64::from(self.attention.scale) * product;
            if let Some(bias) = &self.bias {
                score += bias[(unit.head * size + query) * size + key];
            }
            if region(query) != region(key) {
                score += f64::from(Attention::MASK);
            }
            score
        };
        let scores: Vec<f64> = (0..size).map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exps: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let total: f64 = exps.iter().sum();
        exps.iter().map(|exp| exp / total).collect()
    }

    fn units(&self) -> impl Iterator<Item = Unit> + use<> {
        let (groups, heads) = (self.groups.tokens.len() / self.groups.size, self.attention.heads);
        (0..self.input.images() * groups * heads).map(move |i| Unit {
            image: i / heads / groups,
            group: i / heads % groups,
            head: i % heads,
        })
    }

    /// Position in the whole batch of the `i`-th token of a unit's group.
    fn token(&self, unit: Unit, i: usize) -> usize {
        let token = self.groups.tokens[unit.group * self.groups.size + i] as usize;
        unit.image * self.input.dims.pixels() + token
    }

    /// Where a part of a token's channels begins.
    fn channels(&self, unit: Unit, part: usize, i: usize) -> usize {
        let head = part * self.attention.heads + unit.head;
        self.token(unit, i) * self.input.dims.channels + head * self.head_channels
    }

    fn part(&self, unit: Unit, part: usize, i: usize) -> &[f64] {
        let start = self.channels(unit, part, i);
        &self.input.values[start..start + self.head_channels]
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_average_the_values() {
        let input = ReferenceValue { dims: Dims::new(2, 1, 3), values: vec![0.0, 1.0, 5.0, 0.0, 2.0, 7.0] };
        let attention = Attention::new(1, 1.0);
        let found = AttentionRun::new(&input, &attention, &[]).unwrap().forward();
        assert_eq!(found.values, [6.0, 6.0]);
    }

    #[test]
    fn a_large_score_picks_one_value() {
        let input = ReferenceValue { dims: Dims::new(1, 2, 3), values: vec![100.0, 0.0, 5.0, 1000.0, 2.0, 7.0] };
        let attention = Attention::new(1, 0.5);
        let found = AttentionRun::new(&input, &attention, &[]).unwrap().forward();
        assert_eq!(found.values, [7.0, 7.0]);
    }
}
