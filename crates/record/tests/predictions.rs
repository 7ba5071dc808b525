//! Prediction files as other programs meet them.

use flipcast_ground::Hint;
use flipcast_record::predictions::{Format, PredictionError, PredictionRow, PredictionWriter};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of a test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flipcast-predictions-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("writable");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ids and names that need quoting, with and without names and flips.
fn rows() -> Vec<PredictionRow> {
    let row = |id: &str, class, name: Option<&str>, flipped| PredictionRow {
        id: id.to_owned(),
        class,
        class_name: name.map(str::to_owned),
        confidence: 0.1,
        entropy: 1.25e-7,
        flipped,
    };
    vec![
        row("cat/a.jpg", 0, Some("cat"), Some(true)),
        row("a, \"b\"\nc.jpg", 7, Some("dog, big"), Some(false)),
        row("é", u32::MAX, None, None),
    ]
}

#[test]
fn csv_is_quoted_so_that_it_reads_back() {
    let scratch = Scratch::new("csv");
    let path = scratch.0.join("out.csv");
    let mut writer = PredictionWriter::create(&path, Format::Csv).expect("writable");
    writer.write(&rows()[..1]).expect("writable");
    writer.write(&rows()[1..]).expect("writable");
    assert_eq!(writer.rows(), 3);
    writer.finish().expect("writable");
    assert_eq!(
        fs::read_to_string(&path).expect("readable"),
        "id,class,class_name,confidence,entropy,flipped\n\
         cat/a.jpg,0,cat,0.1,0.000000125,true\n\
         \"a, \"\"b\"\"\nc.jpg\",7,\"dog, big\",0.1,0.000000125,false\n\
         é,4294967295,,0.1,0.000000125,\n"
    );
}

#[test]
fn json_lines_read_back_as_the_same_rows() {
    let scratch = Scratch::new("jsonl");
    let path = scratch.0.join("out.jsonl");
    let mut writer = PredictionWriter::create(&path, Format::Jsonl).expect("writable");
    writer.write(&rows()).expect("writable");
    writer.finish().expect("writable");
    let text = fs::read_to_string(&path).expect("readable");
    let back: Vec<PredictionRow> = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    assert_eq!(back, rows());
}

#[test]
fn parquet_reads_back_as_the_same_rows() {
    let scratch = Scratch::new("parquet");
    let path = scratch.0.join("out.parquet");
    let mut writer = PredictionWriter::create(&path, Format::Parquet).expect("writable");
    for row in rows() {
        writer.write(&[row]).expect("writable");
    }
    writer.finish().expect("writable");
    let file = fs::File::open(&path).expect("readable");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let back: Vec<String> =
        reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
    assert_eq!(back.len(), 3);
    for part in ["id: \"cat/a.jpg\"", "class: 0", "class_name: \"cat\"", "confidence: 0.1", "flipped: true"] {
        assert!(back[0].contains(part), "{part} is not in {}", back[0]);
    }
    for part in ["class: 4294967295", "class_name: null", "flipped: null"] {
        assert!(back[2].contains(part), "{part} is not in {}", back[2]);
    }
}

#[test]
fn a_run_that_stops_leaves_whole_rows_under_the_partial_name() {
    let scratch = Scratch::new("partial");
    for (name, format) in [("out.csv", Format::Csv), ("out.jsonl", Format::Jsonl)] {
        let path = scratch.0.join(name);
        let mut writer = PredictionWriter::create(&path, format).expect("writable");
        writer.write(&rows()[..2]).expect("writable");
        let partial = writer.partial_path().to_owned();
        drop(writer);
        assert!(!path.exists());
        let text = fs::read_to_string(&partial).expect("readable");
        assert!(text.ends_with('\n') && text.contains("cat/a.jpg"));
        // The next run starts over.
        let writer = PredictionWriter::create(&path, format).expect("writable");
        writer.finish().expect("writable");
        assert!(!partial.exists() && !fs::read_to_string(&path).expect("readable").contains("cat"));
    }
    let path = scratch.0.join("out.parquet");
    let mut writer = PredictionWriter::create(&path, Format::Parquet).expect("writable");
    writer.write(&rows()).expect("writable");
    let partial = writer.stop().expect("writable");
    let file = fs::File::open(partial).expect("readable");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 3);
}

#[test]
fn a_run_that_stops_before_its_first_row_leaves_no_file() {
    let scratch = Scratch::new("no-rows");
    for (name, format) in [("a.csv", Format::Csv), ("a.jsonl", Format::Jsonl), ("a.parquet", Format::Parquet)] {
        let writer = PredictionWriter::create(&scratch.0.join(name), format).expect("writable");
        assert!(writer.partial_path().exists());
        drop(writer);
    }
    assert_eq!(fs::read_dir(&scratch.0).expect("there").count(), 0);
}

#[test]
fn two_writers_notice_each_other() {
    let scratch = Scratch::new("two-writers");
    let path = scratch.0.join("out.csv");
    let mut first = PredictionWriter::create(&path, Format::Csv).expect("writable");
    first.write(&rows()).expect("writable");
    let second = PredictionWriter::create(&path, Format::Csv).map(drop);
    assert!(matches!(second, Err(PredictionError::InUse { .. })));
    first.finish().expect("writable");
    assert_eq!(fs::read_to_string(&path).expect("readable").lines().count(), 5);
}

#[test]
fn the_end_of_the_name_chooses_the_format() {
    assert_eq!(Format::of(Path::new("a/b.CSV")).expect("known"), Format::Csv);
    assert_eq!(Format::of(Path::new("b.parquet")).expect("known"), Format::Parquet);
    let error = Format::of(Path::new("b.xlsx")).expect_err("unknown");
    assert!(error.to_string().contains(".xlsx") && error.hint().is_some());
    assert!(Format::of(Path::new("predictions")).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let full = Path::new("/dev/full");
    for format in [Format::Csv, Format::Jsonl, Format::Parquet] {
        let written = PredictionWriter::create(full, format).and_then(|mut writer| {
            writer.write(&rows())?;
            writer.finish()
        });
        let error = written.expect_err("no room");
        assert!(matches!(&error, PredictionError::Write { path, .. } if path == full), "{format:?}: {error:?}");
        assert!(error.hint().is_some());
    }
}
