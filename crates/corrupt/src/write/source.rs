//! Where the clean images come from.

use std::error::Error;

use flipcast_images::Image;

/// A dataset of clean images that can be read in any order, from several threads.
pub trait ImageSource: Sync {
    /// How many images there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number that an image has in the random draws. It is that of the whole dataset where this is a part of one, so that a
    /// part has the bytes of the whole.
    fn stored_index(&self, index: usize) -> usize {
        index
    }

    /// The path of an image below the dataset, with `/` between folders: `n01440764/ILSVRC2012_val_00000293.JPEG`.
    fn relative_path(&self, index: usize) -> String;

    /// The label of an image, where it is known.
    fn label(&self, index: usize) -> Option<i64>;

    /// The image itself.
    fn load(&self, index: usize) -> Result<Image, Box<dyn Error + Send + Sync>>;
}
