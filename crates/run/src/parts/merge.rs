//! Parts of all shards become the estimate of the whole.

use super::part::SecondRows;
use super::{Census, Part, PartError, Sums};
use crate::cell::{FEW_IMAGES, summarise};
use crate::scores::score_outputs;
use crate::second_look::PROBE;
use crate::{Basis, Calibration, RunError};
use flipcast_estimate::{Flag, Marginal, Outputs, Signals, SubsetCot};
use flipcast_record::diff;
use flipcast_record::results::{Adaptation, Cell, CellEstimates, Seconds, Steps};
use serde_json::Value;
use std::collections::BTreeMap;

/// Missing shards that an error names.
const MAX_NAMED: usize = 5;

/// The estimate of a dataset from the parts of its shards.
#[derive(Clone, Debug)]
pub struct Merged {
    /// What the images are called in records.
    pub data: String,
    /// Number of shards.
    pub shards: usize,
    /// Sums over all images that could be read.
    pub sums: Sums,
    /// Images that could not be read.
    pub skipped: u64,
    /// Images of the sample, from which estimates are made; as many as could be read where the sample holds all.
    pub sample: usize,
    /// Images of the sample that were looked at twice.
    pub looked_twice: usize,
    /// What estimators saw of the sample; its accuracy is that of all images.
    pub cell: Cell,
    /// The estimates.
    pub estimates: CellEstimates,
}

impl Merged {
    /// Whether the sample holds every image that could be read.
    pub fn is_complete(&self) -> bool {
        self.sample as u64 == self.sums.images
    }
}

/// Joins `parts`, each with the name that errors call it by, and estimates with `calibration`; `marginal` stands for the classes' shares where they differ from the
/// calibration's. Intervals are meant to hold the truth with probability `level`.
///
/// # Errors
/// When parts belong to different estimates, a shard is missing or there twice, or the shards do not add up to the whole list of images.
pub fn merge_parts(
    parts: &[(String, Part)],
    calibration: &Calibration,
    marginal: Option<&Marginal>,
    level: f64,
) -> Result<Merged, RunError> {
    let mut ordered: Vec<&(String, Part)> = parts.iter().collect();
    ordered.sort_by_key(|(_, part)| part.shard);
    let Some((_, first)) = ordered.first() else {
        return Err(PartError::None.into());
    };
    check_same(&ordered)?;
    check_shards(&ordered)?;
    let text = |name: &str| first.protocol.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (found, expected) = (text("calibration"), calibration.key()?);
    if found != expected {
        return Err(PartError::Calibration { found, expected }.into());
    }
    let mut basis = calibration.basis.clone();
    if let Some(marginal) = marginal {
        basis.options.marginal = marginal.clone();
    }
    let parts: Vec<&Part> = ordered.iter().map(|(_, part)| part).collect();
    let classes = first.sample.classes;
    let mut sums = Sums::new(classes);
    parts.iter().for_each(|part| sums.join(&part.sums));
    let wanted = first.protocol.get("sample").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let sample = JoinedSample::new(&parts, usize::try_from(wanted).unwrap_or(usize::MAX))?;
    let second = sample.second(&parts, sums.images)?;
    let (mut cell, looked_twice) = cell(&parts, &sums, &sample, second, &basis)?;
    if cell.images < calibration.protocol.batch_size.max(FEW_IMAGES) {
        cell.flags.push(Flag::TooFewImages);
    }
    let estimates = calibration.estimate(&cell, level);
    let skipped = parts.iter().map(|part| part.skipped()).sum();
    let sample = sample.outputs.images();
    Ok(Merged { data: text("data"), shards: parts.len(), sums, skipped, sample, looked_twice, cell, estimates })
}

/// Refuses parts that were not made alike.
fn check_same(parts: &[&(String, Part)]) -> Result<(), PartError> {
    let (name, first) = parts[0];
    for (other, part) in &parts[1..] {
        if let Some(difference) = diff(&first.protocol, &part.protocol).first() {
            let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "missing".to_owned(), Value::to_string);
            let (left, right) = (show(&difference.left), show(&difference.right));
            let (name, other, setting) = (name.clone(), other.clone(), difference.path.clone());
            return Err(PartError::Different { name, other, setting, left, right });
        }
    }
    Ok(())
}

/// Refuses shards that are missing or there twice, and shards of other lists.
fn check_shards(parts: &[&(String, Part)]) -> Result<(), PartError> {
    let (_, first) = parts[0];
    for pair in parts.windows(2) {
        let [(name, one), (other, two)] = [pair[0], pair[1]];
        if one.shard == two.shard {
            return Err(PartError::Twice { shard: one.shard, name: name.clone(), other: other.clone() });
        }
    }
    let count = first.shard.count();
    let missing = count.saturating_sub(parts.len() as u64) as usize;
    if missing > 0 {
        let there: Vec<u64> = parts.iter().map(|(_, part)| part.shard.index()).collect();
        let gone = (1..=count).filter(|index| there.binary_search(index).is_err());
        let named: Vec<String> = gone.take(MAX_NAMED).map(|index| format!("{index}/{count}")).collect();
        let more = if missing > named.len() { ", ..." } else { "" };
        return Err(PartError::Missing { missing, count, examples: named.join(", ") + more });
    }
    let joined = parts.iter().fold(Census::default(), |sum, (_, part)| sum.join(part.own));
    if parts.iter().any(|(_, part)| part.whole != joined || part.sample.classes != first.sample.classes) {
        return Err(PartError::Listing { found: joined.images, expected: first.whole.images });
    }
    Ok(())
}

/// The images of all parts with the smallest keys.
struct JoinedSample {
    /// In the order in which the images are stored, which is that of an estimate without shards.
    outputs: Outputs,
    /// The rows of `outputs` by key, and where each comes from: part and row in it.
    by_key: Vec<(usize, [usize; 2])>,
    keys: Vec<u64>,
}

impl JoinedSample {
    fn new(parts: &[&Part], wanted: usize) -> Result<Self, RunError> {
        let classes = parts[0].sample.classes;
        // A part that was cut says nothing about keys beyond its last one, so that no part is used beyond the shortest.
        let below = parts.iter().filter_map(|part| part.sample.below).min();
        let mut images = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            for (row, (&key, &index)) in part.sample.keys.iter().zip(&part.sample.indices).enumerate() {
                if below.is_none_or(|below| key < below) {
                    images.push((key, index, [number, row]));
                }
            }
        }
        images.sort_unstable();
        images.truncate(wanted);
        if images.is_empty() {
            return Err(RunError::NoImages);
        }
        let mut stored: Vec<usize> = (0..images.len()).collect();
        stored.sort_by_key(|&at| images[at].1);
        let mut logits = Vec::with_capacity(images.len() * classes);
        let mut row_of = vec![0; images.len()];
        for (row, &at) in stored.iter().enumerate() {
            let [part, from] = images[at].2;
            logits.extend_from_slice(&parts[part].sample.logits[from * classes..][..classes]);
            row_of[at] = row;
        }
        let by_key = row_of.into_iter().zip(&images).map(|(row, image)| (row, image.2)).collect();
        let keys = images.iter().map(|image| image.0).collect();
        Ok(Self { outputs: Outputs::new(logits, classes)?, by_key, keys })
    }

    /// The second look at the first images by key, and what an early look answers for them; `images` were read in all.
    fn second(&self, parts: &[&Part], images: u64) -> Result<Option<SecondOutputs>, RunError> {
        let classes = self.outputs.classes();
        let probe = &self.by_key[..self.by_key.len().min(PROBE)];
        let (mut logits, mut early) = (Vec::new(), Vec::new());
        match &parts[0].second {
            SecondRows::BatchStatistics { .. } => {
                let looks: Vec<BatchLook> = parts.iter().map(|part| BatchLook::of(part)).collect();
                let below = looks.iter().filter_map(|look| look.below).min();
                let looked = below.map_or(self.keys.len(), |below| self.keys.partition_point(|&key| key < below));
                for &(_, [part, row]) in probe.iter().take(looked) {
                    let look = &looks[part];
                    // A file's check has made sure that images below its bound were looked at.
                    let Some(row_logits) = look.logits.get(row * classes..(row + 1) * classes) else { break };
                    logits.extend_from_slice(row_logits);
                    early.extend(look.early.get(row).map(|&class| class as usize));
                }
            }
            SecondRows::Recentred { .. } => {
                let mut shift = vec![0.0; classes];
                for part in parts {
                    let SecondRows::Recentred { shift: own } = &part.second else { continue };
                    let weight = part.sums.images as f64 / images as f64;
                    shift.iter_mut().zip(own).for_each(|(sum, by)| *sum += weight * f64::from(*by));
                }
                for &(row, _) in probe {
                    logits.extend(self.outputs.row(row).iter().zip(&shift).map(|(z, by)| z + *by as f32));
                }
            }
            SecondRows::Nothing => {
                probe.iter().for_each(|&(row, _)| logits.extend_from_slice(self.outputs.row(row)));
            }
        }
        if logits.is_empty() {
            return Ok(None);
        }
        let outputs = Outputs::new(logits, classes)?;
        // Parts of format 1 have no early look.
        let early = Some(early).filter(|early| early.len() == outputs.images());
        Ok(Some(SecondOutputs { outputs, early }))
    }
}

/// The second look at the first images by key.
struct SecondOutputs {
    outputs: Outputs,
    /// What an early look answers for each of them, if there was one.
    early: Option<Vec<usize>>,
}

/// The second look of a part under batch statistics: nothing, where it was none of the kind.
struct BatchLook<'a> {
    logits: &'a [f32],
    early: &'a [u64],
    /// The key up to which it went.
    below: Option<u64>,
}

impl<'a> BatchLook<'a> {
    fn of(part: &'a Part) -> Self {
        match &part.second {
            SecondRows::BatchStatistics { logits, early, below } => {
                Self { logits, early: early.as_deref().unwrap_or_default(), below: *below }
            }
            SecondRows::Recentred { .. } | SecondRows::Nothing => Self { logits: &[], early: &[], below: Some(0) },
        }
    }
}

/// What estimators see of the sample, and how many of its images were looked at twice.
fn cell(
    parts: &[&Part],
    sums: &Sums,
    sample: &JoinedSample,
    second: Option<SecondOutputs>,
    basis: &Basis,
) -> Result<(Cell, usize), RunError> {
    let adapted = parts.iter().find_map(|part| part.adapted.as_ref());
    let logits = adapted.map(|adapted| &adapted.logits).filter(|logits| !logits.is_empty());
    let adapted_outputs = logits.map(|logits| Outputs::new(logits.clone(), sums.answers.len())).transpose()?;
    let probe = adapted.map(|adapted| adapted.probe_from_source(adapted_outputs.as_ref()));
    let source = score_outputs(&sample.outputs, probe.as_ref(), basis)?;
    let of_adapted = match (adapted, &adapted_outputs) {
        (Some(adapted), Some(outputs)) => {
            summarise(score_outputs(outputs, Some(&adapted.probe(Some(outputs))), basis)?)
        }
        _ => BTreeMap::new(),
    };
    let looked_twice = second.as_ref().map_or(0, |second| second.outputs.images());
    let signals = match second {
        Some(SecondOutputs { outputs, early }) => {
            let temperature = basis.temperature.value;
            let warm = sample.outputs.scaled(temperature);
            let rows: Vec<usize> = sample.by_key.iter().map(|(row, _)| *row).collect();
            let seen = Signals::measure(&warm, &rows, &outputs.scaled(temperature), &SubsetCot::new(&warm))?;
            Some(match early {
                Some(answers) => seen.with_early_look(&warm, &rows, &answers)?,
                None => seen,
            })
        }
        None => None,
    };
    let images = sample.outputs.images();
    let probe_images = adapted.map_or(0, |adapted| adapted.summary.source.classes.len());
    let right = adapted.and_then(|adapted| adapted.summary.right);
    let steps = adapted.zip(adapted_outputs.as_ref()).map(|(adapted, after)| {
        let pairs = adapted.summary.batch.classes.iter().zip(after.classes_predicted());
        let flips = pairs.filter(|(before, after)| *before != after).count() as f64 / after.images() as f64;
        Steps { flips, gain: None }
    });
    let cell = Cell {
        images,
        skipped: parts.iter().map(|part| part.skipped()).sum::<u64>() as usize,
        accuracy: sums.accuracy(),
        adapted_accuracy: right.filter(|_| probe_images > 0).map(|right| right as f64 / probe_images as f64),
        source: summarise(source),
        adapted: of_adapted,
        probe_images,
        adaptation: adapted.map_or_else(Adaptation::default, |adapted| adapted.summary.adaptation),
        flags: Vec::new(),
        signals,
        second_accuracy: None,
        steps,
        samples: Vec::new(),
        seconds: parts.iter().fold(Seconds::default(), |sum, part| Seconds {
            source: sum.source + part.seconds.source,
            flips: sum.flips + part.seconds.flips,
            second_look: sum.second_look + part.seconds.second_look,
            estimators: sum.estimators + part.seconds.estimators,
        }),
    };
    Ok((cell, looked_twice))
}
