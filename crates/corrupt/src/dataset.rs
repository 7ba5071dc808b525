//! Corruption as a step of a dataset, in memory: `DATA@gaussian_noise:3`.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use flipcast_images::Image;
use flipcast_images::dataset::Dataset;
use flipcast_images::loader::{Loader, LoaderConfig, OnBadImage, Order};
use flipcast_images::preprocess::{Preprocess, PreprocessError, Resize};
use flipcast_tensor::{ByteChange, ByteRecipe, ChangeError};

use crate::change::{Both, Corruption};
use crate::corruptor::Corruptor;
use crate::error::CorruptError;
use crate::registry::find_any;
use crate::set::CorruptionSet;
use crate::spec::CorruptionRequest;
use crate::storage::Storage;

/// Images and what happens to them: `imagenet/val`, `imagenet/val@gaussian_noise:3` or `test.tar@cifar-c/fog:2`.
///
/// Paths may hold an `@` themselves. The last one starts a corruption only if `NAME:NUMBER` follows it, or
/// `SET/NAME:NUMBER` with a known set or name; a misspelt name is then an error and not part of the path.
///
/// Images go through the storage step of the published set, unless `,storage=none` or `,storage=jpeg85` follows.
///
/// ```
/// use flipcast_corrupt::{DataSpec, Storage};
///
/// let spec: DataSpec = "imagenet/val@gaussian_noise:3,storage=none".parse()?;
/// assert_eq!(spec.path, "imagenet/val");
/// let corruption = spec.corruption.expect("there is one");
/// assert_eq!((corruption.name, corruption.severity.number()), ("gaussian_noise", 3));
/// assert_eq!(corruption.storage, Some(Storage::None));
/// assert_eq!(spec.record_name(), "imagenet/val@gaussian_noise:3");
/// # Ok::<(), flipcast_corrupt::CorruptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSpec {
    /// Where the images are.
    pub path: String,
    /// What happens to them, if anything.
    pub corruption: Option<CorruptionRequest>,
}

impl FromStr for DataSpec {
    type Err = CorruptError;

    fn from_str(text: &str) -> Result<Self, CorruptError> {
        let (path, corruption) = match text.rsplit_once('@') {
            Some((path, request)) if !path.is_empty() && is_request(request) => (path, Some(request.parse()?)),
            _ => (text, None),
        };
        Ok(Self { path: path.to_owned(), corruption })
    }
}

impl fmt::Display for DataSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        match &self.corruption {
            None => Ok(()),
            Some(corruption) => write!(f, "@{corruption}"),
        }
    }
}

impl DataSpec {
    /// What records call the images: the spec without its storage step, for which records have a field of their own.
    pub fn record_name(&self) -> String {
        let corruption = self.corruption.map(|request| CorruptionRequest { storage: None, ..request });
        Self { path: self.path.clone(), corruption }.to_string()
    }
}

/// Whether `text` is meant as a corruption, be it a correct one or not.
fn is_request(text: &str) -> bool {
    let corruption = text.split_once(',').map_or(text, |(corruption, _)| corruption);
    let Some((left, severity)) = corruption.rsplit_once(':') else {
        return false;
    };
    let word = |part: &str| {
        let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        !part.is_empty() && part.bytes().all(letter)
    };
    let number = |b: u8| b.is_ascii_digit() || b"+-.".contains(&b);
    let numbered = !severity.is_empty() && severity.bytes().all(number);
    match left.split_once('/') {
        None => find_any(left).is_ok() || word(left) && numbered,
        Some((set, name)) => find_any(name).is_ok() || set.parse::<CorruptionSet>().is_ok() && word(name) && numbered,
    }
}

/// Why one image could not be corrupted on its way into a batch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepError {
    /// It could not be brought to the network's size.
    #[error("the image cannot be brought to size")]
    Size {
        /// Why.
        #[source]
        source: PreprocessError,
    },
    /// It could not be corrupted.
    #[error("the image cannot be corrupted")]
    Corrupt {
        /// Why.
        #[source]
        source: CorruptError,
    },
}

/// A corruption between decoding and normalising, in the published order: resize, crop, corrupt.
///
/// The network's resize and crop come before the corruption, the rest of its rule after it. A resize on float pixels
/// belongs to the network and stays behind the corruption, as with stored corrupted images. Image `i` of the dataset draws
/// from (seed, `i`), so that neither order nor threads matter.
///
/// [`CorruptionStep::join_published`] adds the storage step of the published sets; with the other functions the storage
/// step is that of the `corruptor`.
///
/// ```
/// use std::sync::Arc;
/// use flipcast_corrupt::{CorruptionStep, Corruptor};
/// use flipcast_images::Image;
/// use flipcast_images::preprocess::Preprocess;
///
/// let request = "contrast:2".parse()?;
/// let step = CorruptionStep::new(request, Arc::new(Corruptor::new(0)), Preprocess::torchvision(40, 32));
/// let photo = Image::new(60, 50, (0..9000).map(|i| (i % 251) as u8).collect()).expect("60 x 50 pixels");
/// let corrupted = step.apply(7, &photo)?;
/// assert_eq!((corrupted.width(), corrupted.height()), (32, 32));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CorruptionStep {
    corruption: Corruption,
    preprocess: Preprocess,
}

impl CorruptionStep {
    /// Corrupts images on their way to a network with the rule `preprocess`.
    pub fn new(request: CorruptionRequest, corruptor: Arc<Corruptor>, preprocess: Preprocess) -> Self {
        Self { corruption: Corruption { request, corruptor }, preprocess }
    }

    /// Image `index` of the dataset, brought to size and corrupted.
    pub fn apply(&self, index: usize, image: &Image) -> Result<Image, StepError> {
        let sized = match self.preprocess.resize {
            Resize::ExactFloat(_) => None,
            Resize::None if self.preprocess.crop.is_none() => None,
            _ => {
                let sized = self.preprocess.crop_bytes(image);
                Some(sized.map_err(|source| StepError::Size { source })?)
            }
        };
        self.corruption.apply(index, sized.as_ref().unwrap_or(image))
    }

    /// `config` with the corruption once images have their size, behind its own change, if it has one.
    pub fn join(config: LoaderConfig, request: CorruptionRequest, corruptor: Arc<Corruptor>) -> LoaderConfig {
        let corruption = Arc::new(Corruption { request, corruptor });
        let change: Arc<dyn ByteChange> = match config.change {
            None => corruption,
            Some(earlier) => Arc::new(Both([earlier, corruption])),
        };
        LoaderConfig { change: Some(change), ..config }
    }

    /// [`CorruptionStep::join`] for the images of `dataset`, with procedural frost and the storage step that `request` asks
    /// for, or else that of the published set.
    ///
    /// The first readable image decides for all, so that a record can name one storage step.
    pub fn join_published(
        config: LoaderConfig,
        dataset: &Arc<dyn Dataset>,
        request: CorruptionRequest,
        seed: u64,
    ) -> LoaderConfig {
        let storage = published_storage(&config, dataset, request);
        Self::join(config, request, Arc::new(Corruptor::new(seed).with_storage(storage)))
    }
}

/// The storage step that `request` asks for, or that of the published set for the first readable image of `dataset`. Where none
/// can be read there is nothing to store, and whoever loads the images is told why.
pub fn published_storage(config: &LoaderConfig, dataset: &Arc<dyn Dataset>, request: CorruptionRequest) -> Storage {
    if let Some(storage) = request.storage.or(request.set.map(CorruptionSet::storage)) {
        return storage;
    }
    let size = Arc::new(SizeSeen::default());
    let config = LoaderConfig {
        batch_size: 1,
        threads: 1,
        prefetch: 1,
        order: Order::Stored,
        on_bad_image: OnBadImage::Skip,
        change: Some(size.clone()),
        ..config.clone()
    };
    let Ok(mut loader) = Loader::new(Arc::clone(dataset), config) else { return Storage::None };
    // The outcome does not matter: an image that cannot be used leaves no size behind.
    let _ = loader.next_batch();
    let storage = size.0.get().and_then(|&[height, width]| request.storage_at(width, height).ok());
    storage.unwrap_or_default()
}

/// A change that only notes the height and width at which images are changed.
#[derive(Debug, Default)]
struct SizeSeen(OnceLock<[usize; 2]>);

impl ByteChange for SizeSeen {
    fn change(&self, _: usize, [height, width, _]: [usize; 3], _: &mut Vec<u8>) -> Result<(), ChangeError> {
        self.0.get_or_init(|| [height, width]);
        Ok(())
    }

    fn recipe(&self, _: [usize; 3]) -> Option<ByteRecipe> {
        None
    }
}

#[cfg(test)]
mod tests {
    use flipcast_images::Label;
    use flipcast_images::dataset::{DataError, Dataset, Layout, Payload, Sample};
    use flipcast_images::loader::{BadImageCause, LoadError, Loader, OnBadImage, Order, Transform};
    use flipcast_images::preprocess::Normalise;

    use super::*;
    use crate::corrupt;
    use crate::spec::CorruptionSpec;

    /// Pictures of irregular sizes, made when asked for.
    struct Pictures(usize);

    fn picture(index: usize) -> Image {
        let (width, height) = (60 + 7 * index, 48 + 3 * index);
        let rgb = (0..3 * width * height).map(|i| (i * (i + index) % 251) as u8);
        Image::new(width, height, rgb.collect()).expect("sizes match")
    }

    impl Dataset for Pictures {
        fn layout(&self) -> Layout {
            Layout::FlatFolder
        }
        fn len(&self) -> usize {
            self.0
        }
        fn classes(&self) -> &[String] {
            &[]
        }
        fn id(&self, index: usize) -> String {
            index.to_string()
        }
        fn sample(&self, index: usize) -> Result<Sample, DataError> {
            Ok(Sample { id: self.id(index), payload: Payload::Pixels(picture(index)), label: Label::Unknown })
        }
    }

    fn spec(text: &str) -> DataSpec {
        text.parse().expect("well formed")
    }

    fn request(text: &str) -> CorruptionRequest {
        text.parse().expect("well formed")
    }

    /// The indices and values of all batches with a corruption joined to `rule`.
    fn load(rule: &Preprocess, text: &str, threads: usize, order: Order) -> Vec<(usize, Vec<f32>)> {
        let config = LoaderConfig { batch_size: 3, threads, prefetch: 4, order, ..LoaderConfig::new(rule.clone()) };
        let config = CorruptionStep::join(config, request(text), Arc::new(Corruptor::new(5)));
        let mut loaded = Vec::new();
        for batch in Loader::new(Arc::new(Pictures(7)), config).expect("settings work") {
            let batch = batch.expect("all images are usable");
            let values = batch.batch.values();
            let images = values.chunks_exact(values.len() / batch.indices.len());
            loaded.extend(batch.indices.iter().copied().zip(images.map(<[f32]>::to_vec)));
        }
        loaded
    }

    #[test]
    fn the_at_sign_splits_only_before_a_corruption() {
        for (text, path, corruption) in [
            ("val", "val", None),
            ("val@gaussian_noise:3", "val", Some("gaussian_noise:3")),
            ("a@b/val@cifar-c/fog:2", "a@b/val", Some("cifar-c/fog:2")),
            ("me@home/val", "me@home/val", None),
            ("val@2024", "val@2024", None),
            ("val@home/part:3", "val@home/part:3", None),
            ("@fog:3", "@fog:3", None),
            ("val@snow", "val@snow", None),
            ("val@fog:2,storage=none", "val", Some("fog:2,storage=none")),
            ("val@b,c:d", "val@b,c:d", None),
            ("C:/x@y/val", "C:/x@y/val", None),
        ] {
            let found = spec(text);
            assert_eq!((found.path.as_str(), found.corruption), (path, corruption.map(request)));
            assert_eq!(found.to_string(), text);
        }
    }

    #[test]
    fn misspelt_corruptions_are_errors_and_not_paths() {
        let refuse = |text: &str| text.parse::<DataSpec>().expect_err("a bad corruption");
        let CorruptError::UnknownCorruption { nearest, .. } = refuse("val@gausian_noise:3") else {
            panic!("the name is unknown")
        };
        assert_eq!(nearest[0], "gaussian_noise");
        for text in ["val@fog:6", "val@fog:0", "val@fog:2.5", "val@fog:strong", "val@cifar-c/fog:"] {
            assert!(matches!(refuse(text), CorruptError::BadSeverity { .. }), "{text}");
        }
        assert!(matches!(refuse("val@cifar-d/fog:1"), CorruptError::UnknownSet { .. }));
        assert!(matches!(
            refuse("val@imagenet-c/ripple:1"),
            CorruptError::UnknownCorruption { set: Some(CorruptionSet::ImageNetC), .. }
        ));
    }

    #[test]
    fn batches_equal_resizing_cropping_and_corrupting_by_hand() {
        let rule = Preprocess::torchvision(40, 32);
        for (index, values) in load(&rule, "gaussian_noise:3", 2, Order::Stored) {
            let cropped = rule.crop_bytes(&picture(index)).expect("small");
            let severity = request("fog:3").severity;
            let spec = CorruptionSpec::new(CorruptionSet::CifarC, "gaussian_noise", severity).expect("listed");
            let by_hand = corrupt(&cropped, &spec, 5, index as u64).expect("small");
            let normalised = Preprocess::normalise_only(Normalise::imagenet()).apply_to_vec(&by_hand);
            assert_eq!(values, normalised.expect("small").1);
        }
    }

    #[test]
    fn a_float_resize_stays_behind_the_corruption() {
        let rule = Preprocess::tiny_imagenet_128();
        for (index, values) in load(&rule, "tiny-imagenet-c/contrast:2", 1, Order::Stored) {
            let spec = request("tiny-imagenet-c/contrast:2").resolve(1, 1).expect("listed");
            let by_hand = corrupt(&picture(index), &spec, 5, index as u64).expect("small");
            assert_eq!(values, rule.apply_to_vec(&by_hand).expect("small").1);
        }
    }

    #[test]
    fn neither_threads_nor_order_change_an_image() {
        let rule = Preprocess::torchvision(40, 32);
        let one = load(&rule, "glass_blur:4", 1, Order::Stored);
        assert_eq!(one.len(), 7);
        for threads in [2, 5] {
            assert_eq!(load(&rule, "glass_blur:4", threads, Order::Stored), one);
            let mut shuffled = load(&rule, "glass_blur:4", threads, Order::Shuffled { seed: 3 });
            assert_ne!(shuffled, one);
            shuffled.sort_by_key(|(index, _)| *index);
            assert_eq!(shuffled, one);
        }
    }

    #[test]
    fn an_earlier_transform_comes_first() {
        let white: Transform = Arc::new(|_, image| {
            let (width, height) = (image.width(), image.height());
            Ok(Image::new(width, height, vec![255; 3 * width * height]).expect("sizes match"))
        });
        let config = LoaderConfig { transform: Some(white), ..LoaderConfig::new(Preprocess::torchvision(40, 32)) };
        let config = CorruptionStep::join(config, request("cifar-c/contrast:1"), Arc::new(Corruptor::new(1)));
        let mut loader = Loader::new(Arc::new(Pictures(1)), config).expect("settings work");
        let loaded = loader.next_batch().expect("small").expect("one image");
        assert_eq!((loaded.batch.width(), loaded.batch.height()), (32, 32));
        let bytes = loaded.batch.image_bytes(0).expect("it ends in bytes");
        assert!(bytes.iter().all(|&byte| byte >= 254));
    }

    #[test]
    fn corruptions_follow_each_other() {
        let config = LoaderConfig::new(Preprocess::torchvision(40, 32));
        let join = |config, text| CorruptionStep::join(config, request(text), Arc::new(Corruptor::new(1)));
        let config = join(join(config, "cifar-c/brightness:5"), "cifar-c/contrast:5");
        let mut loader = Loader::new(Arc::new(Pictures(1)), config).expect("settings work");
        let loaded = loader.next_batch().expect("small").expect("one image");
        let mut image = Preprocess::torchvision(40, 32).crop_bytes(&picture(0));
        for text in ["cifar-c/brightness:5", "cifar-c/contrast:5"] {
            let spec = request(text).resolve(32, 32).expect("listed");
            let before = image.expect("small");
            image = Ok(corrupt(&before, &spec, 1, 0).expect("small"));
        }
        assert_eq!(loaded.batch.image_bytes(0), Some(image.expect("small").rgb()));
    }

    #[test]
    fn an_image_that_cannot_be_corrupted_is_a_bad_image() {
        struct Long;
        impl Dataset for Long {
            fn layout(&self) -> Layout {
                Layout::FlatFolder
            }
            fn len(&self) -> usize {
                1
            }
            fn classes(&self) -> &[String] {
                &[]
            }
            fn id(&self, _: usize) -> String {
                "long".to_owned()
            }
            fn sample(&self, _: usize) -> Result<Sample, DataError> {
                let side = crate::MAX_SIDE + 1;
                Ok(Sample {
                    id: self.id(0),
                    payload: Payload::Pixels(Image::new(side, 1, vec![9; 3 * side]).expect("one row")),
                    label: Label::Unknown,
                })
            }
        }
        let rule = Preprocess::normalise_only(Normalise::imagenet());
        let config = LoaderConfig { on_bad_image: OnBadImage::Fail, ..LoaderConfig::new(rule.clone()) };
        let config = CorruptionStep::join(config, request("fog:1"), Arc::new(Corruptor::new(1)));
        let mut loader = Loader::new(Arc::new(Long), config).expect("settings work");
        let Err(LoadError::BadImages { bad, count: 1 }) = loader.next_batch() else { panic!("the image is refused") };
        let BadImageCause::Transform(cause) = &bad[0].cause else { panic!("{:?}", bad[0].cause) };
        assert!(matches!(
            cause.downcast_ref(),
            Some(StepError::Corrupt { source: CorruptError::ImageTooLarge { .. } })
        ));
        let step = CorruptionStep::new(request("fog:1"), Arc::new(Corruptor::new(1)), rule);
        let long = Image::new(crate::MAX_SIDE + 1, 1, vec![9; 3 * (crate::MAX_SIDE + 1)]);
        assert!(matches!(
            step.apply(0, &long.expect("one row")),
            Err(StepError::Corrupt { source: CorruptError::ImageTooLarge { .. } })
        ));
    }
}
