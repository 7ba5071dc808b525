//! Files of labels: those somebody filled in, and those that ask for labels.

use super::LabelFileError;
use flipcast_ground::write_whole;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file at most.
const MOST_BYTES: u64 = 64 << 20;
/// Strata at most.
const MOST_STRATA: usize = 1000;

/// Images with labels, as somebody wrote them down.
///
/// Comma-separated text with a header. `image` is the image's id; `label` its class, by name or number, or `right` whether the
/// model answered it right (1 or 0). A line without a label says nothing. `stratum` is what the file that asked for labels
/// has there; without it the images are a plain random sample. Other columns are not read.
///
/// ```
/// use flipcast_run::LabelFile;
///
/// let file = LabelFile::parse("image,label\ncat/1.jpg,cat\ndog/7.jpg,\ncat/2.jpg,dog\n")?;
/// assert_eq!((file.labels(), file.left_out()), (2, 1));
/// # Ok::<(), flipcast_run::LabelFileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelFile {
    pub(super) rows: Vec<LabelRow>,
    /// Strata that the images were drawn from, where the file says so.
    pub(super) strata: Option<usize>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LabelRow {
    pub line: u64,
    pub image: String,
    pub answer: Option<Stated>,
    pub stratum: usize,
}

/// What a line says about its image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum Stated {
    Class(String),
    Right(bool),
}

impl LabelFile {
    /// Reads the file at `path`.
    pub fn load(path: &Path) -> Result<Self, LabelFileError> {
        let cannot = |source| LabelFileError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(cannot)?;
        file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(LabelFileError::TooLarge { path: path.to_owned(), expected: MOST_BYTES });
        }
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    pub fn parse(text: &str) -> Result<Self, LabelFileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let columns = Columns::find(reader.headers()?)?;
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record?;
            let line = record.position().map_or(0, |position| line_of(text, position));
            rows.push(columns.read(line, &record)?);
        }
        let strata = columns.stratum.map(|_| rows.iter().map(|row| row.stratum + 1).max().unwrap_or(1));
        Ok(Self { rows, strata })
    }

    /// Images with a label.
    pub fn labels(&self) -> usize {
        self.rows.iter().filter(|row| row.answer.is_some()).count()
    }

    /// Images without a label before the last one that has one: left out, and not merely still to come.
    pub fn left_out(&self) -> usize {
        let last = self.rows.iter().rposition(|row| row.answer.is_some());
        last.map_or(0, |last| self.rows[..last].iter().filter(|row| row.answer.is_none()).count())
    }
}

/// The line of the record that is read from `position` on: line ends that are skipped there are those of the lines before, as after the first half of a CRLF.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let rest = text.as_bytes().get(position.byte() as usize..).unwrap_or_default();
    let skipped = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + skipped.filter(|&&byte| byte == b'\n').count() as u64
}

/// Where the columns are.
struct Columns {
    image: usize,
    label: Option<usize>,
    right: Option<usize>,
    stratum: Option<usize>,
}

impl Columns {
    fn find(header: &csv::StringRecord) -> Result<Self, LabelFileError> {
        let find = |name: &str| header.iter().position(|cell| cell.eq_ignore_ascii_case(name));
        let refused = || LabelFileError::Columns { found: header.iter().collect::<Vec<_>>().join(",") };
        let (label, right) = (find("label"), find("right"));
        if label.is_some() == right.is_some() {
            return Err(refused());
        }
        Ok(Self { image: find("image").ok_or_else(refused)?, label, right, stratum: find("stratum") })
    }

    fn read(&self, line: u64, record: &csv::StringRecord) -> Result<LabelRow, LabelFileError> {
        let cell = |column: Option<usize>| record.get(column?).filter(|text| !text.is_empty());
        let answer = match (cell(self.label), cell(self.right)) {
            (Some(class), _) => Some(Stated::Class(class.to_owned())),
            (None, Some(text)) => Some(Stated::Right(match text {
                "1" => true,
                "0" => false,
                _ => return Err(LabelFileError::NotRight { line, found: text.to_owned() }),
            })),
            (None, None) => None,
        };
        let stratum = match self.stratum.map(|column| record.get(column).unwrap_or_default()) {
            None => 0,
            Some(text) => text
                .parse()
                .ok()
                .filter(|&stratum| stratum < MOST_STRATA)
                .ok_or_else(|| LabelFileError::BadStratum { line, found: text.to_owned(), limit: MOST_STRATA })?,
        };
        let image = record.get(self.image).unwrap_or_default().to_owned();
        Ok(LabelRow { line, image, answer, stratum })
    }
}

/// An image that somebody should label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedImage {
    /// Its id.
    pub image: String,
    /// What the model answered.
    pub predicted: String,
    /// The stratum it was drawn from.
    pub stratum: usize,
}

/// Writes images to label to the file at `path`, which [`LabelFile::load`] reads once its column `label` is filled in.
pub fn write_asked(path: &Path, asked: &[AskedImage]) -> Result<(), LabelFileError> {
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(["image", "label", "predicted", "stratum"])?;
    for AskedImage { image, predicted, stratum } in asked {
        text.write_record([image.as_str(), "", predicted, &stratum.to_string()])?;
    }
    let cannot = |source| LabelFileError::Write { path: path.to_owned(), source };
    let bytes = text.into_inner().map_err(|error| cannot(error.into_error()))?;
    write_whole(path, &bytes).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_cells_that_do_not_fit_are_refused() {
        let refused = |text: &str| LabelFile::parse(text).expect_err(text);
        for text in ["", "a.jpg,cat\n", "image\na.jpg\n", "label\ncat\n", "image,label,right\na.jpg,cat,1\n"] {
            assert!(matches!(refused(text), LabelFileError::Columns { .. }), "{text}");
        }
        assert!(matches!(refused("image,right\na.jpg,maybe\n"), LabelFileError::NotRight { line: 2, .. }));
        for stratum in ["x", "-1", "1000", "99999999999999999999", ""] {
            let text = format!("image,label,stratum\na.jpg,cat,{stratum}\n");
            assert!(matches!(refused(&text), LabelFileError::BadStratum { line: 2, .. }), "{stratum}");
        }
        assert!(matches!(refused("image,label\na.jpg\n"), LabelFileError::NotCsv(_)));
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        for (text, expected) in [
            ("image,right\na.jpg,1\nb.jpg,maybe\n", 3),
            ("image,right\r\na.jpg,1\r\nb.jpg,maybe\r\n", 3),
            ("image,right\r\na.jpg,1\r\n\r\nb.jpg,maybe", 4),
            ("image,right\n\na.jpg,maybe\n", 3),
            ("image,right\r\n\"a\r\nb.jpg\",1\r\nc.jpg,maybe\r\n", 4),
        ] {
            let error = LabelFile::parse(text).expect_err(text);
            assert!(matches!(error, LabelFileError::NotRight { line, .. } if line == expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn lines_without_a_label_say_nothing() {
        let file = LabelFile::parse("\u{feff}Image , Right\na.jpg,1\nb.jpg,\n\"c, d.jpg\", 0\ne.jpg,\n").unwrap();
        assert_eq!((file.labels(), file.left_out(), file.strata), (2, 1, None));
        assert_eq!(file.rows[2].image, "c, d.jpg");
        assert_eq!(file.rows[2].answer, Some(Stated::Right(false)));
    }

    #[test]
    fn what_asks_for_labels_is_read_again() {
        let folder = std::env::temp_dir().join(format!("flipcast-asked-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("ask.csv");
        let asked = |image: &str, stratum| AskedImage { image: image.into(), predicted: "cat, big".into(), stratum };
        write_asked(&path, &[asked("a,b.jpg", 2), asked("c.jpg", 0)]).unwrap();
        let file = LabelFile::load(&path).unwrap();
        assert_eq!((file.labels(), file.strata), (0, Some(3)));
        assert_eq!((file.rows[0].image.as_str(), file.rows[0].stratum), ("a,b.jpg", 2));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(LabelFile::load(&path), Err(LabelFileError::Read { .. })));
    }
}
