//! Lists of objects, kept in a file: many shards of one dataset need not ask its store for every name again.

use std::collections::HashSet;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::bytes_at::open_regular;
use super::files::{Found, ImageFiles, Listing, Place};
use super::folder::by_folders;
use super::objects::Objects;
use super::{Address, ClassRule, DataError};

/// How such a file begins.
pub(super) const MAGIC: &[u8] = b"{\"flipcast_objects\":";
/// The format that this version reads and writes.
const FORMAT: u32 = 1;
/// Far more than a name and a length need.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// The first line; every other is the path of an image below the address, and its bytes: `["cats/1.png",812]`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    flipcast_objects: u32,
    address: String,
    images: usize,
}

/// Lists the images below `address`, such as `s3://bucket/prefix`: how many there are, and the text of a file that [`open`](super::open) takes in place of the address.
///
/// # Errors
/// When `address` is that of no store, or its store does not answer.
pub fn list_objects(address: &str) -> Result<(usize, String), DataError> {
    Ok(to_text(address, Objects::open(&Address::of_store(address)?)?.list()?))
}

fn to_text(address: &str, listing: Listing) -> (usize, String) {
    let mut images: Vec<(String, u64)> = listing
        .images
        .into_iter()
        .filter_map(|found| match found.place {
            Place::Object { size } => Some((found.path, size)),
            _ => None,
        })
        .collect();
    images.sort();
    let header = Header { flipcast_objects: FORMAT, address: address.to_owned(), images: images.len() };
    // As it stands: a value would have its keys sorted, and the first one tells what the file is.
    let mut text = serde_json::to_string(&header).expect("plain fields are JSON") + "\n";
    for image in &images {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", serde_json::json!(image));
    }
    (images.len(), text)
}

/// The images that the list called `path` names, as if its address had been opened.
pub(super) fn open_object_list(path: &Path, rule: &ClassRule) -> Result<ImageFiles, DataError> {
    let (address, listing) = read_list(path)?;
    let objects = Objects::open(&Address::of_store(&address)?)?;
    Ok(by_folders(Path::new(address.trim_end_matches('/')), listing, rule)?.in_store(objects))
}

/// The address, and what lies below it.
fn read_list(path: &Path) -> Result<(String, Listing), DataError> {
    let mut reader = BufReader::new(open_regular(path)?);
    let mut line = String::new();
    let mut next = |what: &dyn Fn() -> String| -> Result<Option<String>, DataError> {
        line.clear();
        let read = (&mut reader).take(MAX_LINE_BYTES).read_line(&mut line).map_err(DataError::io(path))?;
        if read > 0 && !line.ends_with('\n') {
            return Err(DataError::format(path, what(), "no end of the line", "whole lines"));
        }
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    };
    let first = next(&|| "the first line".to_owned())?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first)
        .map_err(|error| DataError::format(path, "the first line", error, "the address and number of images"))?;
    if header.flipcast_objects != FORMAT {
        return Err(DataError::format(path, "the format", header.flipcast_objects, FORMAT.to_string()));
    }
    let (mut listing, mut names) = (Listing::default(), HashSet::new());
    while let Some(text) = next(&|| format!("image {}", listing.images.len()))? {
        let what = || format!("image {}", listing.images.len());
        let (path_below, size): (String, u64) = serde_json::from_str(&text)
            .map_err(|error| DataError::format(path, what(), error, "a path and a number of bytes"))?;
        if !names.insert(path_below.clone()) {
            let found = format!("`{path_below}` a second time");
            return Err(DataError::format(path, what(), found, "every image once"));
        }
        listing.images.push(Found { path: path_below, class_at: 0, place: Place::Object { size } });
    }
    if listing.images.len() != header.images {
        let found = listing.images.len();
        return Err(DataError::format(path, "the number of images", found, header.images.to_string()));
    }
    Ok((header.address, listing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::is_address;
    use flipcast_ground::Hint;

    fn listing() -> Listing {
        let found =
            |(path, size): (&str, u64)| Found { path: path.to_owned(), class_at: 0, place: Place::Object { size } };
        let images = [("2/b.png", 7), ("10/a \"\n\t.jpg", 9), ("2/a.png", 1)].map(found).into();
        Listing { images, ..Listing::default() }
    }

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_list_gives_the_names_and_lengths_it_was_made_of() {
        let (images, text) = to_text("s3://bucket/set", listing());
        assert_eq!(images, 3);
        assert!(text.as_bytes().starts_with(MAGIC), "{text}");
        let (address, read) = read_list(written(&text).path()).unwrap();
        assert_eq!(address, "s3://bucket/set");
        assert_eq!(to_text(&address, read), (images, text));
    }

    #[test]
    fn what_lies_in_no_store_is_not_listed() {
        for address in ["file:///x", "/x", "x", "file://host/x", "ftp://x/y", "s3://"] {
            let Err(error) = list_objects(address) else { panic!("{address} is listed") };
            assert!(matches!(error, DataError::NoStore { .. }), "{address}: {error}");
            assert!(!error.to_string().contains("`file:///`"), "{address}: {error}");
            let is_local = !is_address(address);
            assert_eq!(error.hint().is_some_and(|hint| hint.contains("folder")), is_local, "{address}");
            let (_, text) = to_text(address, listing());
            let opened = open_object_list(written(&text).path(), &ClassRule::Auto);
            assert!(matches!(opened.err(), Some(DataError::NoStore { .. })), "{address}");
        }
    }

    #[test]
    fn a_list_that_is_cut_short_or_names_an_image_twice_is_refused() {
        let (_, text) = to_text("s3://bucket/set", listing());
        let lines: Vec<&str> = text.lines().collect();
        let problems = [
            (lines[..3].join("\n") + "\n", "the number of images"),
            (text[..text.len() - 3].to_owned(), "no end of the line"),
            (format!("{text}{}\n", lines[1]), "a second time"),
            (text.replace("\"flipcast_objects\":1", "\"flipcast_objects\":2"), "the format"),
            (text.replace(",7]", ",-7]"), "a path and a number of bytes"),
            ("{\"flipcast_objects\":1}\n".to_owned(), "the first line"),
        ];
        for (text, problem) in problems {
            let Err(error) = read_list(written(&text).path()) else { panic!("{problem}: opens") };
            assert!(error.to_string().contains(problem), "{problem}: {error}");
        }
    }
}
