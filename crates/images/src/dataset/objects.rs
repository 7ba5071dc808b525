//! Images in object stores: S3, Google Cloud Storage, Azure.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;

use super::address::Scheme;
use super::bytes_at::check_size;
use super::files::{Found, Listing, Place, is_image_name};
use super::{Address, DataError};

/// Folders that are listed at once.
const LISTS_AT_ONCE: usize = 8;
/// How often an object is asked for where its bytes do not arrive whole. Where the server is busy or the connection breaks, the store's client sends each
/// request again by itself: ten times with pauses that grow, for three minutes at most.
const ATTEMPTS: u32 = 4;
/// Before the second of these; doubled before each later one.
const PAUSE: Duration = Duration::from_millis(200);

/// The objects below one address.
pub(super) struct Objects {
    address: String,
    prefix: object_store::path::Path,
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
}

/// What is kept of an object's entry in a list; there may be very many.
struct Listed {
    location: object_store::path::Path,
    size: u64,
}

impl From<ObjectMeta> for Listed {
    fn from(object: ObjectMeta) -> Self {
        Self { location: object.location, size: object.size }
    }
}

/// Whatever a store refuses.
type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Objects {
    /// Connects to the store of `address`. Credentials and endpoints come from the environment, as for the store's own tools.
    pub fn open(address: &Address) -> Result<Self, DataError> {
        let failed = |source: Cause| DataError::Store { object: address.text.to_owned(), attempts: 1, source };
        let store: Result<Arc<dyn ObjectStore>, object_store::Error> = match address.scheme {
            Scheme::S3 => {
                AmazonS3Builder::from_env().with_bucket_name(address.bucket).build().map(|store| Arc::new(store) as _)
            }
            Scheme::Gs => GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(address.bucket)
                .build()
                .map(|store| Arc::new(store) as _),
            Scheme::Az => MicrosoftAzureBuilder::from_env()
                .with_container_name(address.bucket)
                .build()
                .map(|store| Arc::new(store) as _),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Ok(Self {
            address: address.text.to_owned(),
            prefix: object_store::path::Path::parse(address.prefix).map_err(|error| failed(error.into()))?,
            store: store.map_err(|error| failed(error.into()))?,
            runtime: runtime.map_err(|error| failed(error.into()))?,
        })
    }

    /// Every object below the address, as a folder would be listed.
    pub fn list(&self) -> Result<Listing, DataError> {
        let top = self.persistent(&self.address, || self.store.list_with_delimiter(Some(&self.prefix)))?;
        let mut listing = Listing::default();
        top.objects.into_iter().map(Listed::from).for_each(|object| self.add(&object, &mut listing));
        let below = self.runtime.block_on(
            stream::iter(&top.common_prefixes)
                .map(|prefix| async move {
                    let list = || self.store.list(Some(prefix)).map_ok(Listed::from).try_collect::<Vec<Listed>>();
                    self.again(&format!("{}/", self.name(prefix)), list).await
                })
                .buffered(LISTS_AT_ONCE)
                .try_collect::<Vec<Vec<Listed>>>(),
        )?;
        below.iter().flatten().for_each(|object| self.add(object, &mut listing));
        Ok(listing)
    }

    fn add(&self, object: &Listed, listing: &mut Listing) {
        let Some(path) = self.below(&object.location) else { return };
        if path.split('/').any(|part| part.starts_with('.')) {
            return;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        if is_image_name(name) {
            let place = Place::Object { size: object.size };
            listing.images.push(Found { path: path.to_owned(), class_at: 0, place });
        } else if object.size > 0 {
            // An empty object without an ending stands for a folder.
            listing.ignored.note(path);
        }
    }

    /// The path of an object below the address.
    fn below<'a>(&self, location: &'a object_store::path::Path) -> Option<&'a str> {
        let rest = location.as_ref().strip_prefix(self.prefix.as_ref())?;
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        (!rest.is_empty()).then_some(rest)
    }

    fn name(&self, location: &object_store::path::Path) -> String {
        format!("{}/{}", self.address.trim_end_matches('/'), self.below(location).unwrap_or_default())
    }

    /// All bytes of the object called `id` below the address, which had `size` bytes when it was listed.
    pub fn read(&self, id: &str, size: u64) -> Result<Vec<u8>, DataError> {
        check_size(Path::new(&self.address), id, size)?;
        let object = format!("{}/{id}", self.address.trim_end_matches('/'));
        let key = match self.prefix.as_ref() {
            "" => object_store::path::Path::parse(id),
            prefix => object_store::path::Path::parse(format!("{prefix}/{id}")),
        };
        let key =
            key.map_err(|error| DataError::Store { object: object.clone(), attempts: 1, source: error.into() })?;
        self.persistent(&object, || async {
            let bytes = self.store.get(&key).await?.bytes().await?;
            if bytes.len() as u64 != size {
                let found = bytes.len();
                let source = format!("{found} bytes arrived, but {size} were listed").into();
                return Err(object_store::Error::Generic { store: "length", source });
            }
            Ok(bytes.to_vec())
        })
    }

    /// What `ask` gives, asked again where it fails for a reason that may pass.
    fn persistent<T, F>(&self, object: &str, ask: impl Fn() -> F) -> Result<T, DataError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        self.runtime.block_on(self.again(object, ask))
    }

    async fn again<T, F>(&self, object: &str, ask: impl Fn() -> F) -> Result<T, DataError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut attempts = 1;
        loop {
            match ask().await {
                Ok(found) => return Ok(found),
                Err(error) if attempts == ATTEMPTS || is_final(&error) => {
                    return Err(DataError::Store { object: object.to_owned(), attempts, source: error.into() });
                }
                Err(_) => tokio::time::sleep(PAUSE * 2u32.pow(attempts - 1)).await,
            }
            attempts += 1;
        }
    }
}

/// Whether asking again cannot help.
fn is_final(error: &object_store::Error) -> bool {
    use object_store::Error;
    matches!(
        error,
        Error::NotFound { .. }
            | Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::UnknownConfigurationKey { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::folder::by_folders;
    use crate::dataset::{ClassRule, Dataset, open};
    use object_store::memory::InMemory;

    const NAMES: [&str; 7] =
        ["2/b.png", "10/a.jpg", "2/a-1.png", "2/deep/a.png", "10/notes.txt", ".git/x.png", "2/.x.png"];

    fn stored(prefix: &str) -> Objects {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = InMemory::new();
        for name in NAMES {
            let key = object_store::path::Path::parse(format!("{prefix}{name}")).unwrap();
            runtime.block_on(store.put(&key, name.as_bytes().to_vec().into())).unwrap();
        }
        let marker = object_store::path::Path::parse(format!("{prefix}2/empty")).unwrap();
        runtime.block_on(store.put(&marker, Vec::new().into())).unwrap();
        let prefix = object_store::path::Path::parse(prefix.trim_matches('/')).unwrap();
        Objects { address: "s3://bucket/set".to_owned(), prefix, store: Arc::new(store), runtime }
    }

    #[test]
    fn a_store_is_listed_as_a_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let local = open(folder.path().to_str().unwrap()).unwrap();
        for prefix in ["", "set/", "deep/set/"] {
            let objects = stored(prefix);
            let listing = objects.list().unwrap();
            let images = by_folders(Path::new("s3://bucket/set"), listing, &ClassRule::Auto).unwrap().in_store(objects);
            assert_eq!((images.len(), images.layout(), images.classes()), (4, local.layout(), local.classes()));
            assert_eq!(images.ignored(), local.ignored());
            for index in 0..4 {
                assert_eq!(images.sample(index).unwrap(), local.sample(index).unwrap());
            }
            assert!(images.reads_at_once() > 1);
        }
    }

    #[test]
    fn an_object_that_is_gone_or_has_another_length_is_an_error() {
        let objects = stored("set/");
        assert_eq!(objects.read("2/b.png", 7).unwrap(), b"2/b.png");
        let attempts = |id, size| match objects.read(id, size) {
            Err(DataError::Store { attempts, object, .. }) => (attempts, object),
            other => panic!("{other:?}"),
        };
        assert_eq!(attempts("2/c.png", 7), (1, "s3://bucket/set/2/c.png".to_owned()));
        assert_eq!(attempts("2/b.png", 8).0, ATTEMPTS);
    }
}
