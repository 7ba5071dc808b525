//! Shards of a stream of smoothly varying corruptions.

use std::path::{Path, PathBuf};

use flipcast_ground::SplitMix64;

use super::error::WriteError;
use super::parallel::map_in_order;
use super::progress::{Progress, WriteOptions};
use super::settings::claim;
use super::shard_file::{ShardFile, ShardSample};
use super::source::ImageSource;
use crate::blocks::jpeg::encode;
use crate::ccc::{Cell, Speed, StreamPlan};
use crate::corruptor::Corruptor;
use crate::storage::STORED_QUALITY;

/// Images corrupted before they are written together.
const CHUNK: usize = 256;

/// Where [`write_shards`] puts the shards of `plan`.
pub fn stream_folder(out: &Path, plan: &StreamPlan<'_>) -> PathBuf {
    out.join(plan.name())
}

/// Writes the stream `plan` over the images of `source`, whole or its first `limit` images, below `out`.
///
/// A cell shows each image at most once, so that cells are shorter than the speed says where `source` is. A shard is closed
/// at the end of a cell once it holds [`Speed::shard_images`]. Sample `k` of the stream has the key `sample_<k>`.
/// Finished shards are left alone and an unfinished one is begun anew. Everything the stream needs is checked before the
/// first image is made; the first failure stops the run. The files are the storage step, and one that `corruptor` is
/// set to is left out.
pub fn write_shards(
    out: &Path,
    source: &dyn ImageSource,
    plan: &StreamPlan<'_>,
    limit: Option<usize>,
    corruptor: &Corruptor,
    options: &WriteOptions<'_>,
) -> Result<Progress, WriteError> {
    let shards = plan_shards(source, plan, limit, plan.speed.shard_images())?;
    write_planned(out, source, plan, &shards, corruptor, options)
}

/// How many images [`write_shards`] would write; refuses what it would refuse for want of a table, a label or an image.
pub fn stream_images(
    source: &dyn ImageSource,
    plan: &StreamPlan<'_>,
    limit: Option<usize>,
) -> Result<usize, WriteError> {
    let shards = plan_shards(source, plan, limit, plan.speed.shard_images())?;
    Ok(shards.iter().map(|shard| shard.images).sum())
}

fn write_planned(
    out: &Path,
    source: &dyn ImageSource,
    plan: &StreamPlan<'_>,
    shards: &[Shard],
    corruptor: &Corruptor,
    options: &WriteOptions<'_>,
) -> Result<Progress, WriteError> {
    let labels = labels(source)?;
    let total = shards.iter().map(|shard| shard.images).sum();
    let folder = stream_folder(out, plan);
    let settings = format!(
        "layout shards, set ccc, stream {}, walk {:016x}, {total} images from {}, seed {}, {}\n",
        plan.name(),
        walk_digest(shards),
        source.len(),
        corruptor.seed(),
        corruptor.frost_name()
    );
    let _claim = claim(&folder, &settings)?;
    let mut progress = Progress { done: 0, skipped: 0, total };
    let run = Run { source, labels: &labels, speed: plan.speed, corruptor, options };
    for (number, shard) in shards.iter().enumerate() {
        let path = folder.join(format!("serial_{number:05}.tar"));
        if path.exists() {
            progress.done += shard.images;
            progress.skipped += shard.images;
            (options.on_progress)(progress);
        } else {
            run.write(&path, shard, &mut progress)?;
        }
    }
    Ok(progress)
}

fn labels(source: &dyn ImageSource) -> Result<Vec<i64>, WriteError> {
    let label =
        |index| source.label(index).ok_or_else(|| WriteError::NoLabel { index, path: source.relative_path(index) });
    (0..source.len()).map(label).collect()
}

/// The cells of one shard.
#[derive(Debug, Default)]
struct Shard {
    /// Each cell and the number of its images that are written.
    cells: Vec<(Cell, usize)>,
    /// Number of the first image in the stream.
    first: u64,
    images: usize,
}

/// The shards of a stream or its first `limit` images, each of whole cells with at least `shard_images`, but for the last.
fn plan_shards(
    source: &dyn ImageSource,
    plan: &StreamPlan<'_>,
    limit: Option<usize>,
    shard_images: usize,
) -> Result<Vec<Shard>, WriteError> {
    if source.is_empty() {
        return Err(WriteError::NoImages);
    }
    labels(source)?;
    let limit = limit.unwrap_or(usize::MAX);
    let per_cell = plan.speed.images().min(source.len());
    let mut shards = Vec::new();
    let mut open = Shard::default();
    let mut planned = 0;
    let mut cells = plan.cells();
    while planned < limit
        && let Some(cell) = cells.next()
    {
        let cell = cell.map_err(|source| WriteError::Plan { source })?;
        let shown = per_cell.min(limit - planned);
        open.cells.push((cell, shown));
        open.images += shown;
        planned += shown;
        if open.images >= shard_images {
            let next = Shard { first: planned as u64, ..Shard::default() };
            shards.push(std::mem::replace(&mut open, next));
        }
    }
    if open.images > 0 {
        shards.push(open);
    }
    Ok(shards)
}

/// A number that differs when the stream goes another way.
fn walk_digest(shards: &[Shard]) -> u64 {
    let mut walk = String::new();
    for (cell, _) in shards.iter().flat_map(|shard| &shard.cells) {
        for name in [cell.pair.first, cell.pair.second] {
            walk += name;
            walk.push('\0');
        }
        walk.extend([cell.severities.0, cell.severities.1].map(|severity| char::from(severity.quarters() as u8)));
    }
    SplitMix64::hash_text(&walk)
}

struct Run<'a> {
    source: &'a dyn ImageSource,
    labels: &'a [i64],
    speed: Speed,
    corruptor: &'a Corruptor,
    options: &'a WriteOptions<'a>,
}

impl Run<'_> {
    fn write(&self, path: &Path, shard: &Shard, progress: &mut Progress) -> Result<(), WriteError> {
        let mut file = ShardFile::create(path)?;
        let mut position = shard.first;
        for (cell, shown) in &shard.cells {
            let mut images = cell.images(self.corruptor.seed(), self.source.len(), self.speed);
            images.truncate(*shown);
            let numbered: Vec<(u64, usize)> = (position..).zip(images).collect();
            for chunk in numbered.chunks(CHUNK) {
                let show = |&(position, index): &(u64, usize)| self.show(cell, position, index);
                for sample in map_in_order(chunk, self.options.threads, show)? {
                    file.append(&sample)?;
                }
                progress.done += chunk.len();
                (self.options.on_progress)(*progress);
            }
            position += *shown as u64;
        }
        file.finish()
    }

    fn show(&self, cell: &Cell, position: u64, index: usize) -> Result<ShardSample, WriteError> {
        let path = self.source.relative_path(index);
        let image = match self.source.load(index) {
            Ok(image) => image,
            Err(source) => {
                return Err(WriteError::Load { index, path, source });
            }
        };
        let shown = cell.show_unstored(self.corruptor, &image, position).map_err(|source| WriteError::Corrupt {
            index,
            path: path.clone(),
            source,
        })?;
        let jpeg = encode(&shown, STORED_QUALITY).map_err(|source| WriteError::Encode {
            index,
            path: path.clone(),
            source,
        })?;
        Ok(ShardSample { position, jpeg, label: self.labels[index], source: path, cell: *cell })
    }
}

#[cfg(test)]
mod tests;
