use std::any::Any;
use std::error::Error;
use std::fmt::Debug;

/// Images in the memory of a device, preprocessed. An executor of that device knows the type behind it and reads them where they lie; for everybody else
/// their values are copied.
pub trait DeviceImages: Any + Debug + Send + Sync {
    /// Number of images, height, width and channels.
    fn extents(&self) -> [usize; 4];

    /// Copies their values, channels last, image after image, behind what `values` holds.
    ///
    /// # Errors
    /// If they can no longer be had; what `values` holds then is of no use.
    fn append(&self, values: &mut Vec<f32>) -> Result<(), Box<dyn Error + Send + Sync>>;
}
