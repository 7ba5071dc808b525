//! The clean images: an opened dataset, brought to size, with the paths and labels the written dataset gets.

use flipcast_corrupt::write::ImageSource;
use flipcast_images::Image;
use flipcast_images::dataset::{DataError, Dataset, Layout, Subset, spread_evenly};
use flipcast_images::decode::DecodeOptions;
use flipcast_images::preprocess::Preprocess;
use std::collections::HashMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A dataset whose images are resized and cropped as they are read.
pub struct Source {
    dataset: Subset,
    /// Path of each image below a severity folder.
    paths: Vec<String>,
    labels: Vec<Option<i64>>,
    rule: Option<Preprocess>,
}

impl Source {
    /// The images of `dataset`, resized and cropped by `rule` if there is one. At most `limit` of them: an even sample drawn by
    /// `seed`, or the first of a stream.
    pub fn new(
        dataset: Box<dyn Dataset>,
        rule: Option<Preprocess>,
        limit: Option<usize>,
        seed: u64,
    ) -> Result<Self, DataError> {
        let count = limit.unwrap_or(usize::MAX).min(dataset.len());
        let indices = match dataset.is_stream() {
            true => (0..count).collect(),
            false => spread_evenly(dataset.len(), count, seed),
        };
        let dataset = Subset::new(Arc::from(dataset), indices)?;
        let len = dataset.len();
        let ids: Vec<String> = (0..len).map(|index| dataset.id(index)).collect();
        let in_folders = matches!(dataset.layout(), Layout::ClassFolders | Layout::FlatFolder | Layout::Tar);
        let (paths, labels) = if in_folders {
            let skipped = outer_folder(&ids).map_or(0, str::len);
            let paths: Vec<String> = ids.iter().map(|id| id[skipped..].to_owned()).collect();
            let labels = labels_of_folders(&paths, dataset.classes());
            (paths, labels)
        } else {
            let mut labels = Vec::with_capacity(len);
            for index in 0..len {
                labels.push(dataset.sample(index)?.label.class());
            }
            let named = ids.iter().zip(&labels);
            let paths = named.map(|(id, label)| path_of_row(id, *label, dataset.classes()));
            let paths = match dataset.layout() {
                Layout::List => ids.clone(),
                _ => paths.collect(),
            };
            (paths, labels.into_iter().map(|l| l.map(i64::from)).collect())
        };
        Ok(Self { dataset, paths, labels, rule })
    }

    /// Whether the label of every image is known.
    pub fn is_labelled(&self) -> bool {
        self.labels.iter().all(Option::is_some)
    }

    /// A number that differs when the images have other names or another order.
    pub fn names_digest(&self) -> u64 {
        let bytes = self.paths.iter().flat_map(|p| p.bytes().chain([0]));
        digest(bytes)
    }

    fn read(&self, index: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
        let sample = self.dataset.sample(index)?;
        let image = sample.payload.into_image(&DecodeOptions::default())?;
        match &self.rule {
            Some(rule) => Ok(rule.crop_bytes(&image)?),
            None => Ok(image),
        }
    }
}

impl ImageSource for Source {
    fn len(&self) -> usize {
        self.paths.len()
    }

    fn stored_index(&self, index: usize) -> usize {
        self.dataset.stored_index(index)
    }

    fn relative_path(&self, index: usize) -> String {
        self.paths[index].clone()
    }

    fn label(&self, index: usize) -> Option<i64> {
        self.labels[index]
    }

    fn load(&self, index: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
        // Decoders are other people's code: a panic on a strange file is an error like any other.
        catch_unwind(AssertUnwindSafe(|| self.read(index)))
            .unwrap_or_else(|_| Err("decoding stopped unexpectedly".into()))
    }
}

/// The folder around everything, with its `/`, when every path lies at least two folders deep below the same one.
fn outer_folder(ids: &[String]) -> Option<&str> {
    let first = ids.first()?;
    let outer = &first[..=first.find('/')?];
    let inside = |id: &String| id.strip_prefix(outer).is_some_and(|rest| rest.contains('/'));
    ids.iter().all(inside).then_some(outer)
}

/// The place of each path's first folder among the classes, or its number where the classes are numbers and the folder
/// is written with zeros in front.
fn labels_of_folders(paths: &[String], classes: &[String]) -> Vec<Option<i64>> {
    let known: HashMap<&str, i64> = classes.iter().map(String::as_str).zip(0..).collect();
    let label = |path: &String| {
        let folder = path.split_once('/')?.0;
        let number = || known.get(folder.parse::<u32>().ok()?.to_string().as_str());
        known.get(folder).or_else(number).copied()
    };
    paths.iter().map(label).collect()
}

/// `class/row` for images that have no file of their own.
fn path_of_row(id: &str, label: Option<u32>, classes: &[String]) -> String {
    let plain = |text: &str| text.replace(['/', '\\', '.'], "_");
    let row = plain(id);
    match label {
        None => row,
        Some(label) => match classes.get(label as usize) {
            Some(class) => format!("{}/{row}", plain(class)),
            None => format!("{label}/{row}"),
        },
    }
}

/// FNV-1a: enough to notice a difference, not meant to resist one made on purpose.
pub fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_folder_around_everything_is_left_out() {
        assert_eq!(outer_folder(&owned(&["t/a/1", "t/b/2"])), Some("t/"));
        assert_eq!(outer_folder(&owned(&["a/1", "a/2"])), None);
        assert_eq!(outer_folder(&owned(&["t/a/1", "u/b/2"])), None);
        assert_eq!(outer_folder(&owned(&["1", "2"])), None);
    }

    #[test]
    fn rows_get_a_class_folder_and_a_plain_name() {
        let classes = owned(&["air/plane", "cat"]);
        assert_eq!(path_of_row("test.bin/7", Some(0), &classes), "air_plane/test_bin_7");
        assert_eq!(path_of_row("test/7", Some(5), &classes), "5/test_7");
        assert_eq!(path_of_row("test/7", None, &classes), "test_7");
    }

    #[test]
    fn folders_are_labelled_by_their_place_among_the_classes() {
        let labels = labels_of_folders(&owned(&["b/1", "a/1", "1"]), &owned(&["a", "b"]));
        assert_eq!(labels, [Some(1), Some(0), None]);
        let labels = labels_of_folders(&owned(&["00/1", "02/1"]), &owned(&["0", "1", "2"]));
        assert_eq!(labels, [Some(0), Some(2)]);
    }

    #[test]
    fn the_digest_is_the_published_one() {
        assert_eq!(digest(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
