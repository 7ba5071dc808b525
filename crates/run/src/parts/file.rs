//! Parts on disk: a line that says what it is, the length of a JSON header, the header, arrays in the order and of the lengths that the header says, and the
//! SHA-256 of all that. Numbers are little-endian.

use super::part::{AdaptedRows, AdaptedSummary, SampleRows, SecondRows};
use super::{Census, PART_FORMAT, Part, PartError, Sums};
use flipcast_ground::{Shard, write_whole_with};
use flipcast_record::Protocol;
use flipcast_record::results::Seconds;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 14] = b"flipcast part\n";
const DIGEST: usize = 32;
/// Far more than a sample that can be scored.
const MAX_BYTES: u64 = 16 << 30;

/// Everything but the arrays.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    flipcast_part: u32,
    made_by: String,
    shard: String,
    protocol: Protocol,
    whole: Census,
    own: Census,
    sums: Sums,
    rows: usize,
    sample_below: Option<u64>,
    second: SecondHeader,
    adapted: Option<AdaptedHeader>,
    seconds: Seconds,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SecondHeader {
    BatchStatistics {
        rows: usize,
        /// Whether as many answers of an early look are behind all other arrays; never in format 1.
        #[serde(default)]
        early: bool,
        below: Option<u64>,
    },
    Recentred {
        shift: Vec<f32>,
    },
    Nothing,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdaptedHeader {
    rows: usize,
    summary: AdaptedSummary,
}

impl Part {
    /// Writes the part to a file, which appears whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), PartError> {
        let cannot = |source| PartError::Write { path: path.to_owned(), source };
        let header = serde_json::to_vec(&self.header()).map_err(|error| cannot(error.into()))?;
        write_whole_with(path, |file| {
            let mut out = BufWriter::with_capacity(1 << 20, Hashed { file, hash: Sha256::new() });
            out.write_all(MAGIC)?;
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            for numbers in [&self.sample.keys, &self.sample.indices] {
                numbers.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))?;
            }
            let (second, early): (&[f32], Option<&Vec<u64>>) = match &self.second {
                SecondRows::BatchStatistics { logits, early, .. } => (logits, early.as_ref()),
                SecondRows::Recentred { .. } | SecondRows::Nothing => (&[], None),
            };
            let adapted = self.adapted.as_ref().map_or(&[] as &[f32], |adapted| &adapted.logits);
            for values in [&self.sample.logits, second, adapted] {
                values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))?;
            }
            early.into_iter().flatten().try_for_each(|answer| out.write_all(&answer.to_le_bytes()))?;
            let Hashed { file, hash } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.write_all(&hash.finalize())
        })
        .map_err(cannot)
    }

    fn header(&self) -> Header {
        let classes = self.sample.classes;
        Header {
            flipcast_part: PART_FORMAT,
            made_by: format!("flipcast {}", env!("CARGO_PKG_VERSION")),
            shard: self.shard.to_string(),
            protocol: self.protocol.clone(),
            whole: self.whole,
            own: self.own,
            sums: self.sums.clone(),
            rows: self.sample.keys.len(),
            sample_below: self.sample.below,
            second: match &self.second {
                SecondRows::BatchStatistics { logits, early, below } => SecondHeader::BatchStatistics {
                    rows: logits.len() / classes,
                    early: early.is_some(),
                    below: *below,
                },
                SecondRows::Recentred { shift } => SecondHeader::Recentred { shift: shift.clone() },
                SecondRows::Nothing => SecondHeader::Nothing,
            },
            adapted: self.adapted.as_ref().map(|adapted| AdaptedHeader {
                rows: adapted.logits.len() / classes,
                summary: adapted.summary.clone(),
            }),
            seconds: self.seconds,
        }
    }

    /// Reads a part from a file. One that is damaged, or of a newer format, is refused.
    ///
    /// # Errors
    /// When the file cannot be read or holds something else.
    pub fn load(path: &Path) -> Result<Self, PartError> {
        let cannot = |source| PartError::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(cannot)?;
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
        read(&bytes).map_err(|problem| PartError::Format { path: path.to_owned(), problem })
    }
}

fn read(bytes: &[u8]) -> Result<Part, String> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err("it does not begin as one".to_owned());
    };
    let short = || "it ends too early".to_owned();
    let (rest, digest) = rest.split_last_chunk::<DIGEST>().ok_or_else(short)?;
    let covered = &bytes[..MAGIC.len() + rest.len()];
    if Sha256::digest(covered).as_slice() != digest {
        return Err("its checksum differs from what it holds, so that it is damaged or cut short".to_owned());
    }
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
    let (header, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    let header = read_header(header)?;
    let classes = header.sums.answers.len();
    let (second_rows, has_early) = match header.second {
        SecondHeader::BatchStatistics { rows, early, .. } => (rows, early),
        SecondHeader::Recentred { .. } | SecondHeader::Nothing => (0, false),
    };
    let adapted_rows = header.adapted.as_ref().map_or(0, |adapted| adapted.rows);
    let mut rest = Arrays(rest);
    let keys = rest.numbers(header.rows)?;
    let indices = rest.numbers(header.rows)?;
    let logits = rest.values(header.rows, classes)?;
    let second = rest.values(second_rows, classes)?;
    let adapted = rest.values(adapted_rows, classes)?;
    let early = if has_early { Some(rest.numbers(second_rows)?) } else { None };
    if !rest.0.is_empty() {
        return Err(format!("{} bytes more than its header says are in it", rest.0.len()));
    }
    let shard: Shard = header.shard.parse().map_err(|error: flipcast_ground::ShardError| error.to_string())?;
    let part = Part {
        protocol: header.protocol,
        shard,
        whole: header.whole,
        own: header.own,
        sums: header.sums,
        sample: SampleRows { keys, indices, logits, classes, below: header.sample_below },
        second: match header.second {
            SecondHeader::BatchStatistics { below, .. } => SecondRows::BatchStatistics { logits: second, early, below },
            SecondHeader::Recentred { shift } => SecondRows::Recentred { shift },
            SecondHeader::Nothing => SecondRows::Nothing,
        },
        adapted: header.adapted.map(|header| AdaptedRows { summary: header.summary, logits: adapted }),
        seconds: header.seconds,
    };
    part.check().map(|()| part)
}

/// A newer format may have fields that are not known here, so its version is looked at first.
fn read_header(text: &[u8]) -> Result<Header, String> {
    let value: serde_json::Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let format = value.get("flipcast_part").and_then(serde_json::Value::as_u64);
    if !format.is_some_and(|format| (1..=u64::from(PART_FORMAT)).contains(&format)) {
        let found = format.map_or_else(|| "missing".to_owned(), |format| format.to_string());
        return Err(format!("its format is {found}, expected 1 to {PART_FORMAT}"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

impl Part {
    /// Refuses what no shard can have given.
    fn check(&self) -> Result<(), String> {
        let (rows, classes) = (self.sample.keys.len(), self.sample.classes);
        let counted = self.sums.answers.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        let parted = |keys: &[u64], rows: usize, below: Option<u64>| match below {
            Some(below) => keys[..rows].iter().all(|&key| key < below) && keys[rows..].iter().all(|&key| key >= below),
            None => rows == keys.len(),
        };
        let second_fits = match &self.second {
            SecondRows::BatchStatistics { logits, early, below } => {
                let looked = logits.len() / classes.max(1);
                let answers_fit = early.as_ref().is_none_or(|early| early.iter().all(|&class| class < classes as u64));
                looked <= rows && parted(&self.sample.keys, looked, *below) && answers_fit
            }
            SecondRows::Recentred { shift } => shift.len() == classes,
            SecondRows::Nothing => true,
        };
        let adapted_fits = self.adapted.as_ref().is_none_or(|adapted| {
            let AdaptedSummary { source, batch, right, .. } = &adapted.summary;
            let probe = source.classes.len();
            let lengths = [source.confidences.len(), batch.classes.len(), batch.confidences.len()];
            let adapted = adapted.logits.len() / classes.max(1);
            lengths == [probe; 3]
                && (adapted == 0 || adapted == probe)
                && right.is_none_or(|right| right <= probe as u64)
        });
        let wrong = [
            (classes == 0, "it has no classes"),
            (counted != Some(self.sums.images), "its answers do not add up to its images"),
            (
                self.sums.images > self.own.images || self.own.images > self.whole.images,
                "it has more images than its list",
            ),
            (self.sums.right.is_some_and(|right| right > self.sums.images), "it has more right answers than images"),
            (rows as u64 > self.sums.images, "its sample is larger than its shard"),
            (!self.sample.keys.is_sorted(), "its sample is not in order"),
            (
                self.sample.below.is_some_and(|_| !parted(&self.sample.keys, rows, self.sample.below)),
                "its sample goes too far",
            ),
            (!second_fits, "its second look does not fit its sample"),
            (!adapted_fits, "its probe does not fit the adapted model's outputs"),
            (!self.sums.confidence.is_finite() || !self.sums.entropy.is_finite(), "its sums are not finite"),
        ];
        wrong.iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, problem)| Err((*problem).to_owned()))
    }
}

/// What is left of the arrays.
struct Arrays<'a>(&'a [u8]);

impl Arrays<'_> {
    fn take<const N: usize, T>(
        &mut self,
        count: Option<usize>,
        convert: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, String> {
        let length = count.and_then(|count| count.checked_mul(N)).filter(|&length| length <= self.0.len());
        let (taken, rest) = self.0.split_at(length.ok_or("its arrays are shorter than its header says")?);
        self.0 = rest;
        let (chunks, _) = taken.as_chunks::<N>();
        Ok(chunks.iter().map(|chunk| convert(*chunk)).collect())
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<u64>, String> {
        self.take(Some(count), u64::from_le_bytes)
    }

    fn values(&mut self, rows: usize, classes: usize) -> Result<Vec<f32>, String> {
        self.take(rows.checked_mul(classes), f32::from_le_bytes)
    }
}

/// Writes and hashes what was written.
struct Hashed<'a> {
    file: &'a mut File,
    hash: Sha256,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
