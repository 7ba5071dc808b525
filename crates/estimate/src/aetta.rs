use crate::outputs::check_rows;
use crate::parallel::map_ranges;
use crate::products::{has_fused_multiply_add, has_wide_registers};
use crate::softmax::add_probs;
use crate::{Embeddings, EstimateError, Score};
use flipcast_ground::SplitMix64;
use multiversion::multiversion;
use serde::{Deserialize, Serialize};

/// Power of the normalised entropy that errors are divided by, as published.
const ENTROPY_POWER: i32 = 3;

/// Share of the former estimate that each batch keeps, as published.
const KEPT: f64 = 0.6;

/// A normalised entropy below this is that of a collapsed network whatever its exact size.
const LEAST_ENTROPY: f64 = 1e-9;

/// Classes whose logits lie together.
const TILE: usize = 128;

/// Classes whose logits are summed together where there are 16 registers of eight values.
const HALF_TILE: usize = TILE / 2;

/// Embedding values that are read together; which of them count is one word of bits, and their weights fit a first-level cache.
const VALUES: usize = 64;

/// Rows of logits that one thread keeps at a time.
const ROWS: usize = 704;

/// Logits or weights of some classes, where no load of a register reads from two cache lines.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Tile([f32; TILE]);

impl Tile {
    const ZERO: Self = Self([0.0; TILE]);
}

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
    /// Per tile of classes, one row per embedding value, in whole blocks; classes and values added to fill the last ones weigh nothing.
    tiles: Vec<Tile>,
    bias: Vec<f32>,
    dims: usize,
}

impl Head {
    /// Takes a row-major weight of one row per class, and one bias per class.
    pub fn new(weight: &[f32], bias: Vec<f32>) -> Result<Self, EstimateError> {
        let classes = bias.len();
        check_rows("biases", &bias, classes)?;
        check_rows("head weights", weight, classes)?;
        let dims = weight.len() / classes;
        let rows_per_tile = dims.next_multiple_of(VALUES);
        let mut tiles = vec![Tile::ZERO; classes.div_ceil(TILE) * rows_per_tile];
        for (tile, rows) in tiles.chunks_exact_mut(rows_per_tile).zip(weight.chunks(TILE * dims)) {
            for (value, target) in tile[..dims].iter_mut().enumerate() {
                for (class, row) in rows.chunks_exact(dims).enumerate() {
                    target.0[class] = row[value];
                }
            }
        }
        Ok(Self { tiles, bias, dims })
    }

    /// What the weights make of `values`, the bias left aside: how logits move when an embedding moves by `values`.
    ///
    /// # Panics
    /// If there are not as many values as an embedding has.
    pub fn weigh(&self, values: &[f32]) -> Vec<f32> {
        assert_eq!(values.len(), self.dims, "one value for each of the embedding's");
        let mut sums = Vec::with_capacity(self.classes().next_multiple_of(TILE));
        for tile in self.tiles.chunks_exact(self.dims.next_multiple_of(VALUES)) {
            let mut of_tile = [0.0f64; TILE];
            for (weights, value) in tile.iter().zip(values) {
                let terms = of_tile.iter_mut().zip(&weights.0);
                terms.for_each(|(sum, weight)| *sum += f64::from(*weight) * f64::from(*value));
            }
            sums.extend(of_tile.map(|sum| sum as f32));
        }
        sums.truncate(self.classes());
        sums
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.bias.len()
    }

    /// Values of an embedding.
    pub fn dims(&self) -> usize {
        self.dims
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
        let batches = self.pass_all(&rows, rows.len(), head)?;
        let parts: Vec<PassSums> = batches.into_iter().flatten().collect();
        Ok(self.judge(&parts, rows.len()))
    }

    /// What the passes of these images give, in parts that do not reach over the end of a batch; the random numbers are used up.
    fn pass_all(
        &mut self,
        rows: &[&[f32]],
        batch_size: usize,
        head: &Head,
    ) -> Result<Vec<Vec<PassSums>>, EstimateError> {
        let passes = self.config.passes;
        let most = (ROWS / (passes + 1)).max(1);
        let batches = rows.chunks(batch_size).enumerate();
        let parts: Vec<(usize, usize, &[&[f32]])> = batches
            .flat_map(|(batch, rows)| {
                rows.chunks(most).enumerate().map(move |(at, part)| (batch, batch * batch_size + at * most, part))
            })
            .collect();
        let draws = (head.dims() * passes) as u64;
        let results = map_ranges(0, parts.len(), 1, |range| {
            let (_, first, rows) = parts[range.start];
            let mut random = self.random.clone();
            random.skip(first as u64 * draws);
            sum_passes(rows, head, &self.config, &random)
        });
        self.random.skip(rows.len() as u64 * draws);
        let mut batches: Vec<Vec<PassSums>> = Vec::new();
        for ((batch, ..), result) in parts.iter().zip(results) {
            if *batch == batches.len() {
                batches.push(Vec::new());
            }
            batches[*batch].push(result?);
        }
        Ok(batches)
    }

    /// The smoothed accuracy after a batch of so many images.
    fn judge(&mut self, parts: &[PassSums], images: usize) -> f64 {
        let predictions = (images * self.config.passes) as f64;
        let classes = parts.first().map_or(1, |part| part.probs.len());
        let mut average = vec![0.0f64; classes];
        for part in parts {
            average.iter_mut().zip(&part.probs).for_each(|(a, p)| *a += p);
        }
        let disagreement = parts.iter().map(|part| part.changed).sum::<usize>() as f64 / predictions;
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
        1.0 - smoothed
    }
}

/// What passes with dropout say of some images.
struct PassSums {
    /// Passes whose class is not the one without dropout.
    changed: usize,
    /// Probabilities, summed over images and passes.
    probs: Vec<f64>,
}

/// All passes of some images. The first number drawn decides about the first value of the first image in the first pass, the next
/// about the same value in the next pass.
fn sum_passes(
    rows: &[&[f32]],
    head: &Head,
    config: &AettaConfig,
    random: &SplitMix64,
) -> Result<PassSums, EstimateError> {
    let (classes, sets) = (head.classes(), config.passes + 1);
    let tiles = classes.div_ceil(TILE);
    let kept_scale = (1.0 - config.dropout).recip() as f32;
    // Per tile, image and pass: first the sum over all values, then per pass that over the values it drops.
    let mut sums = vec![Tile::ZERO; tiles * rows.len() * sets];
    let blocks = plan_blocks(rows, head.dims(), config, random);
    for (sums, weights) in sums.chunks_exact_mut(rows.len() * sets).zip(head.tiles.chunks_exact(VALUES * blocks.len()))
    {
        for (block, weights) in blocks.iter().zip(weights.as_chunks().0) {
            add_block(block, weights, sums);
        }
    }
    let mut result = PassSums { changed: 0, probs: vec![0.0; classes] };
    let mut ignored = vec![0.0; classes];
    let mut weights = vec![0.0; classes];
    let mut logits = vec![0.0f32; classes];
    let step = rows.len() * sets;
    for image in 0..rows.len() {
        // The pass without dropout, of which all counts, is the first.
        let mut class = 0;
        for pass in 0..sets {
            let scale = (pass > 0).then_some(kept_scale);
            if !write_logits(&sums[image * sets..], pass, step, &head.bias, scale, &mut logits) {
                return Err(not_finite(&logits, pass));
            }
            if pass == 0 {
                class = add_probs(&logits, &mut weights, &mut ignored);
            } else {
                result.changed += usize::from(add_probs(&logits, &mut weights, &mut result.probs) != class);
            }
        }
    }
    Ok(result)
}

/// The logits of a pass: `bias` and the sums over all values, less those dropped, times `scale` where some are. Tells whether all are finite.
///
/// The tiles of a sum are `step` apart, and those over the values that a pass drops come that many behind those over all.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn write_logits(sums: &[Tile], pass: usize, step: usize, bias: &[f32], scale: Option<f32>, logits: &mut [f32]) -> bool {
    let mut are_finite = true;
    for (tile, (logits, bias)) in logits.chunks_mut(TILE).zip(bias.chunks(TILE)).enumerate() {
        let (whole, dropped) = (&sums[tile * step].0, &sums[tile * step + pass].0);
        for ((z, b), (whole, dropped)) in logits.iter_mut().zip(bias).zip(whole.iter().zip(dropped)) {
            *z = match scale {
                Some(scale) => b + scale * (whole - dropped),
                None => b + whole,
            };
            are_finite &= z.is_finite();
        }
    }
    are_finite
}

/// What is wrong with the logits of a pass.
fn not_finite(logits: &[f32], pass: usize) -> EstimateError {
    let at = logits.iter().position(|z| !z.is_finite()).unwrap_or(0);
    EstimateError::NotFinite { what: "logit", index: pass * logits.len() + at, found: logits[at].into() }
}

/// Some values of all images, and what is summed over them.
struct Block {
    /// Per image.
    values: Vec<[f32; VALUES]>,
    /// One per image and sum; those over equally many values follow each other, so that a processor foresees where their loops end.
    runs: Vec<Run>,
}

/// Values of one image that are summed together.
#[derive(Clone, Copy, Debug)]
struct Run {
    image: u32,
    /// Which of the sums.
    target: u32,
    /// A bit for each of the values.
    mask: u64,
}

/// The blocks of values, with the runs of every image: all values first, then per pass those it drops. Values of zero have no bits: they
/// add nothing, and behind a ReLU there are many.
fn plan_blocks(rows: &[&[f32]], dims: usize, config: &AettaConfig, random: &SplitMix64) -> Vec<Block> {
    let passes = config.passes;
    // A number is dropped below the rate: the 53 bits it is made of are then below this.
    let limit = (config.dropout * (1_u64 << 53) as f64).ceil() as u64;
    let plan_block = |start: usize| {
        let mut values = vec![[0.0; VALUES]; rows.len()];
        let mut runs = Vec::with_capacity(rows.len() * (passes + 1));
        for (image, (row, values)) in rows.iter().zip(&mut values).enumerate() {
            let row = &row[start..dims.min(start + VALUES)];
            values[..row.len()].copy_from_slice(row);
            let present = bits(&values.map(|value| u8::from(value != 0.0)));
            for set in 0..=passes {
                let mask = match set.checked_sub(1) {
                    None => present,
                    Some(pass) => {
                        let first = (image * dims + start) * passes + pass;
                        present & bits(&draw_below(random, first as u64, passes as u64, limit))
                    }
                };
                runs.push(Run { image: image as u32, target: (image * (passes + 1) + set) as u32, mask });
            }
        }
        Block { values, runs: by_length(&runs) }
    };
    (0..dims).step_by(VALUES).map(plan_block).collect()
}

/// The runs in the order of the number of their values.
fn by_length(runs: &[Run]) -> Vec<Run> {
    let length = |run: &Run| run.mask.count_ones() as usize;
    // Where the next run of each length goes.
    let mut places = [0; VALUES + 2];
    runs.iter().for_each(|run| places[length(run) + 1] += 1);
    (0..VALUES).for_each(|length| places[length + 1] += places[length]);
    let mut sorted = runs.to_vec();
    for run in runs {
        let place = &mut places[length(run)];
        sorted[*place] = *run;
        *place += 1;
    }
    sorted
}

/// Whether each number drawn after `first` others, `step` apart, is below `limit / 2^53`: one or zero.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
fn draw_below(random: &SplitMix64, first: u64, step: u64, limit: u64) -> [u8; VALUES] {
    let mut below = [0; VALUES];
    for (at, below) in below.iter_mut().enumerate() {
        *below = u8::from(random.peek_u64(first + at as u64 * step) >> 11 < limit);
    }
    below
}

/// A word whose bits are these, each one or zero.
fn bits(flags: &[u8; VALUES]) -> u64 {
    /// Moves the lowest bits of eight bytes into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let bytes = flags.as_chunks::<8>().0.iter().map(|flags| u64::from_le_bytes(*flags).wrapping_mul(GATHER) >> 56);
    bytes.rev().fold(0, |word, byte| word << 8 | byte)
}

/// Adds to the target of every run the weights of its values, times the values.
fn add_block(block: &Block, weights: &[Tile; VALUES], sums: &mut [Tile]) {
    if has_wide_registers() {
        add_block_wide(block, weights, sums);
    } else if has_fused_multiply_add() {
        add_block_fused(block, weights, sums);
    } else {
        add_block_unfused(block, weights, sums);
    }
}

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn add_block_wide(block: &Block, weights: &[Tile; VALUES], sums: &mut [Tile]) {
    add_runs::<2, TILE>(block, weights, sums, f32::mul_add);
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_block_fused(block: &Block, weights: &[Tile; VALUES], sums: &mut [Tile]) {
    add_runs::<1, HALF_TILE>(block, weights, sums, f32::mul_add);
}

fn add_block_unfused(block: &Block, weights: &[Tile; VALUES], sums: &mut [Tile]) {
    add_runs::<1, HALF_TILE>(block, weights, sums, |a, b, sum| a * b + sum);
}

/// Adds up `LANES` classes of `SIDE` runs at a time, as many as registers hold: a sum waits for the one before it, but not for others.
#[inline(always)]
fn add_runs<const SIDE: usize, const LANES: usize>(
    block: &Block,
    weights: &[Tile; VALUES],
    sums: &mut [Tile],
    multiply_add: impl Fn(f32, f32, f32) -> f32 + Copy,
) {
    for part in 0..TILE / LANES {
        for runs in block.runs.chunk_by(|a, b| a.mask.count_ones() == b.mask.count_ones()) {
            let (groups, rest) = runs.as_chunks::<SIDE>();
            for runs in groups {
                add_side_by_side::<SIDE, LANES>(runs, part, &block.values, weights, sums, multiply_add);
            }
            for run in rest {
                add_side_by_side::<1, LANES>(&[*run], part, &block.values, weights, sums, multiply_add);
            }
        }
    }
}

/// Adds runs that have equally many values and different targets.
#[inline(always)]
fn add_side_by_side<const SIDE: usize, const LANES: usize>(
    runs: &[Run; SIDE],
    part: usize,
    values: &[[f32; VALUES]],
    weights: &[Tile; VALUES],
    sums: &mut [Tile],
    multiply_add: impl Fn(f32, f32, f32) -> f32 + Copy,
) {
    let values = runs.map(|run| &values[run.image as usize]);
    let mut totals = runs.map(|run| sums[run.target as usize].0.as_chunks::<LANES>().0[part]);
    let mut masks = runs.map(|run| run.mask);
    for _ in 0..masks[0].count_ones() {
        for side in 0..SIDE {
            let at = masks[side].trailing_zeros() as usize % VALUES;
            masks[side] &= masks[side].wrapping_sub(1);
            let (value, weights) = (values[side][at], &weights[at].0.as_chunks::<LANES>().0[part]);
            for lane in 0..LANES {
                totals[side][lane] = multiply_add(value, weights[lane], totals[side][lane]);
            }
        }
    }
    for (run, totals) in runs.iter().zip(totals) {
        sums[run.target as usize].0.as_chunks_mut::<LANES>().0[part] = totals;
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
    let batches = state.pass_all(&rows, config.batch_size, head)?;
    let sizes = rows.chunks(config.batch_size).map(<[_]>::len);
    let sum: f64 = batches.iter().zip(sizes).map(|(batch, size)| size as f64 * state.judge(batch, size)).sum();
    let images = rows.len();
    Ok(Score::of_images(sum / images as f64, images))
}

#[cfg(test)]
mod tests;
