//! Addresses of images that lie in no folder of this machine.

use super::DataError;

/// Which kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

const SCHEMES: [(&str, Scheme); 3] = [("s3", Scheme::S3), ("gs", Scheme::Gs), ("az", Scheme::Az)];

/// A prefix in an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// As it was given.
    pub text: &'a str,
    /// The kind of store.
    pub scheme: Scheme,
    /// The bucket or container.
    pub bucket: &'a str,
    /// What all names of objects begin with, without a slash at either end.
    pub prefix: &'a str,
}

impl<'a> Address<'a> {
    /// Reads `text`; `None` where it is the path of a file.
    pub fn parse(text: &'a str) -> Result<Option<Self>, DataError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(None);
        };
        let refused = || DataError::BadAddress { address: text.to_owned() };
        let &(_, scheme) = SCHEMES.iter().find(|(name, _)| *name == scheme).ok_or_else(refused)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refused());
        }
        Ok(Some(Self { text, scheme, bucket, prefix: prefix.trim_matches('/') }))
    }

    /// Reads `text` where nothing but an object store will do.
    pub fn of_store(text: &'a str) -> Result<Self, DataError> {
        Self::parse(text).ok().flatten().ok_or_else(|| DataError::NoStore { address: text.to_owned() })
    }
}

/// Whether `spec` is an address such as `s3://bucket/prefix`, and no path of this machine.
pub fn is_address(spec: &str) -> bool {
    local_path(spec).contains("://")
}

/// The path that a `file://` address names; anything else as it is.
pub fn local_path(spec: &str) -> &str {
    spec.strip_prefix("file://").filter(|path| path.starts_with('/')).unwrap_or(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_store_a_bucket_and_a_prefix() {
        let parts = |text| {
            let address = Address::parse(text).unwrap().unwrap();
            (address.scheme, address.bucket, address.prefix)
        };
        assert_eq!(parts("s3://photos/2026/may/"), (Scheme::S3, "photos", "2026/may"));
        assert_eq!(parts("gs://photos"), (Scheme::Gs, "photos", ""));
        assert_eq!(parts("az://container/a"), (Scheme::Az, "container", "a"));
        assert_eq!(Address::parse("folder/a").unwrap(), None);
        for text in ["s3://", "s3:///a", "https://host/a", "ftp://a/b", "file://host/a"] {
            assert!(matches!(Address::parse(text), Err(DataError::BadAddress { .. })), "{text}");
        }
    }

    #[cfg(not(feature = "objects"))]
    #[test]
    fn a_build_without_object_stores_names_the_feature() {
        for spec in ["s3://bucket/set", "gs://bucket#sample:5", "az://container/a#test"] {
            let Err(error) = crate::dataset::open(spec) else { panic!("{spec} opens") };
            assert!(matches!(error, DataError::NoObjects { .. }), "{spec}");
            assert!(error.to_string().contains("`objects`"), "{error}");
        }
    }

    #[test]
    fn a_file_address_is_a_path() {
        assert_eq!(local_path("file:///tmp/a"), "/tmp/a");
        assert_eq!(local_path("/tmp/a"), "/tmp/a");
        assert!(is_address("s3://a/b") && is_address("file://host/a") && !is_address("file:///a") && !is_address("a"));
    }
}
