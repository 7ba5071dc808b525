use flipcast_images::dataset::{Dataset, Payload};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Images whose content goes into a digest: enough to tell two datasets with the same file names apart.
const SAMPLED: usize = 16;

/// Which images a run was about, wherever they lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataIdentity {
    /// Number of images.
    pub images: usize,
    /// SHA-256 of all ids in stored order and of the content of some images spread over them.
    pub digest: String,
    /// The corruption made in memory, as written behind the `@` of a dataset.
    pub corruption: Option<String>,
    /// Its seed; `None` without a corruption.
    pub corruption_seed: Option<u64>,
}

impl DataIdentity {
    /// Of `dataset`, with a corruption and its seed if there is one. Reads a few images.
    pub fn of(dataset: &dyn Dataset, corruption: Option<(String, u64)>) -> Self {
        let mut digest = Sha256::new();
        let images = dataset.len();
        let mut add = |bytes: &[u8]| {
            // The length in front keeps `ab, c` and `a, bc` apart.
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        for index in 0..images {
            add(dataset.id(index).as_bytes());
        }
        let sampled = images.min(SAMPLED);
        for number in 0..sampled {
            match dataset.sample(number * images / sampled).map(|s| s.payload) {
                Ok(Payload::Encoded(bytes)) => add(&bytes),
                Ok(Payload::Pixels(image)) => {
                    add(&(image.width() as u64).to_le_bytes());
                    add(image.rgb());
                }
                // The loader reports it; here it only has to be the same the next time.
                Err(_) => add(b"unreadable"),
            }
        }
        let digest = digest.finalize();
        let (corruption, corruption_seed) = corruption.unzip();
        Self { images, digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(), corruption, corruption_seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::dataset::{DataError, Layout, Sample};
    use flipcast_images::{Image, Label};

    /// Grey pictures, named by number.
    struct Grey(Vec<u8>);

    impl Dataset for Grey {
        fn layout(&self) -> Layout {
            Layout::FlatFolder
        }
        fn len(&self) -> usize {
            self.0.len()
        }
        fn classes(&self) -> &[String] {
            &[]
        }
        fn id(&self, index: usize) -> String {
            index.to_string()
        }
        fn sample(&self, index: usize) -> Result<Sample, DataError> {
            let image = Image::new(1, 1, vec![self.0[index]; 3]).expect("one pixel");
            Ok(Sample { id: self.id(index), payload: Payload::Pixels(image), label: Label::Unknown })
        }
    }

    #[test]
    fn same_names_with_other_content_are_other_data() {
        let one = DataIdentity::of(&Grey(vec![1; 40]), None);
        assert_eq!(one, DataIdentity::of(&Grey(vec![1; 40]), None));
        assert_ne!(one, DataIdentity::of(&Grey(vec![2; 40]), None));
        assert_ne!(one.digest, DataIdentity::of(&Grey(vec![1; 41]), None).digest);
        let corrupted = DataIdentity::of(&Grey(vec![1; 40]), Some(("fog:1".into(), 3)));
        assert_eq!(corrupted.digest, one.digest);
        assert_ne!(corrupted, one);
    }
}
