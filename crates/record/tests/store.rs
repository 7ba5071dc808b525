//! Record files as runs meet them: resumed, cut off, shared, from the future.

use flate2::Compression;
use flate2::write::GzEncoder;
use flipcast_ground::Hint;
use flipcast_record::{
    FORMAT, Protocol, RecordError, RecordFolder, RecordStore, Records, RunRecord, Timing, write_atomically,
};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder of a test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flipcast-record-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("writable");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(seed: u64) -> RunRecord {
    let protocol = Protocol::new("adapt").with("seed", &seed).and_then(|p| p.with("lr", &2.5e-4f32)).expect("JSON");
    let timing = Timing { created: 1_700_000_000 + seed, seconds: 0.1 + 0.2 };
    RunRecord::new(protocol, json!({"accuracy": 0.1 + 0.2, "text": "a\n\"é"}), timing)
}

fn write(path: &Path, seeds: std::ops::Range<u64>) {
    let mut store = RecordStore::open(path).expect("opens");
    for seed in seeds {
        store.append(record(seed)).expect("room on the disk");
    }
}

#[test]
fn records_survive_a_round_trip() {
    let scratch = Scratch::new("round-trip");
    let path = scratch.path("runs.jsonl");
    write(&path, 0..3);
    let store = RecordStore::open(&path).expect("opens");
    let expected: Vec<RunRecord> = (0..3).map(record).collect();
    assert!(store.iter().eq(&expected));
    assert!(store.contains(&record(1).key) && !store.contains(&record(9).key));
    assert_eq!(store.get(&record(2).key), Some(&record(2)));
    assert!(Records::load(&path).expect("readable").iter().eq(&expected));
}

#[test]
fn a_kill_at_any_byte_of_the_last_record_loses_only_that_record() {
    let scratch = Scratch::new("cut-off");
    let path = scratch.path("runs.jsonl");
    write(&path, 0..2);
    let whole = fs::read(&path).expect("readable");
    let first = whole.iter().position(|&b| b == b'\n').expect("a line") + 1;
    for length in first..whole.len() {
        fs::write(&path, &whole[..length]).expect("writable");
        // Only the line break is missing: the record is there.
        let complete = length + 1 == whole.len();
        let kept = if complete { 2 } else { 1 };
        let read = Records::load(&path).expect("readable");
        assert_eq!(read.len(), kept, "cut off at {length}");
        assert_eq!(fs::metadata(&path).expect("there").len(), length as u64, "a reader changes nothing");
        let mut store = RecordStore::open(&path).expect("opens");
        assert_eq!(store.contains(&record(1).key), complete);
        if !complete {
            store.append(record(1)).expect("room on the disk");
        }
        drop(store);
        assert_eq!(fs::read(&path).expect("readable"), whole, "cut off at {length}");
    }
}

#[test]
fn two_writers_notice_each_other() {
    let scratch = Scratch::new("two-writers");
    let path = scratch.path("runs.jsonl");
    let first = RecordStore::open(&path).expect("opens");
    let second = RecordStore::open(&path);
    assert!(matches!(second, Err(RecordError::InUse { .. })), "{second:?}");
    assert!(Records::load(&path).expect("readers may").is_empty());
    drop(first);
    assert!(RecordStore::open(&path).is_ok());
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let scratch = Scratch::new("newer");
    let path = scratch.path("runs.jsonl");
    let next = FORMAT + 1;
    for text in [
        format!("{{\"format\":{next},\"shape\":[]}}\n"),
        // Cut off, but the version can be seen.
        format!("{{\"format\":{next},\"sha"),
    ] {
        fs::write(&path, &text).expect("writable");
        for refused in [RecordStore::open(&path).map(drop), Records::load(&path).map(drop)] {
            let error = refused.expect_err("newer");
            assert!(matches!(error, RecordError::Newer { line: 1, .. }), "{error}");
            assert!(error.hint().is_some());
        }
        assert_eq!(fs::read_to_string(&path).expect("readable"), text);
    }
}

#[test]
fn a_malformed_line_in_the_middle_is_an_error_with_its_number() {
    let scratch = Scratch::new("malformed");
    let path = scratch.path("runs.jsonl");
    let line = serde_json::to_string(&record(0)).expect("JSON");
    for bad in ["", "{", "null", "{\"format\":1}", "\u{0}\u{0}"] {
        let text = format!("{line}\n{bad}\n{line}\n");
        fs::write(&path, &text).expect("writable");
        let error = RecordStore::open(&path).expect_err("malformed");
        assert!(matches!(error, RecordError::Malformed { line: 2, .. }), "{bad}: {error}");
        assert_eq!(fs::read_to_string(&path).expect("readable"), text);
    }
}

#[test]
fn a_foreign_file_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new("foreign");
    let path = scratch.path("notes.txt");
    let foreign: [&[u8]; 8] = [
        b"my notes",
        b"my notes\nof two days\n",
        br#"{"flipcast_calibration": 9, "basis": {}}"#,
        b"{\n  \"format\": 1\n}\n",
        b"\0\0\0",
        b"\n",
        b"\x98\x01\0\0\0\0\0\0{\"conv1.weight\": {}}",
        b"42",
    ];
    for text in foreign {
        fs::write(&path, text).expect("writable");
        for refused in [RecordStore::open(&path).map(drop), Records::load(&path).map(drop)] {
            let error = refused.expect_err("no records");
            assert!(matches!(error, RecordError::NoRecords { .. }), "{text:?}: {error}");
            assert!(error.hint().is_some_and(|hint| !hint.contains("remove")));
        }
        assert_eq!(fs::read(&path).expect("readable"), text);
    }
    let long = vec![b'x'; (16 << 20) + 1];
    fs::write(&path, &long).expect("writable");
    assert!(matches!(RecordStore::open(&path), Err(RecordError::NoRecords { .. })));
    assert_eq!(fs::metadata(&path).expect("there").len(), long.len() as u64);
}

#[test]
fn behind_records_only_what_began_as_one_is_cut() {
    let scratch = Scratch::new("foreign-tail");
    let path = scratch.path("runs.jsonl");
    write(&path, 0..1);
    let whole = fs::read(&path).expect("readable");
    let with = |tail: &[u8]| fs::write(&path, [&whole, tail].concat()).expect("writable");
    for tail in [&b"my notes"[..], b"{\"kind\":", b"\0\0note"] {
        with(tail);
        let error = RecordStore::open(&path).expect_err("a foreign line");
        assert!(matches!(error, RecordError::Malformed { line: 2, .. }), "{tail:?}: {error}");
        assert_eq!(fs::read(&path).expect("readable"), [&whole, tail].concat());
    }
    // After a power failure the record's bytes may be zeros.
    for tail in [&b"{"[..], b"{\"format\":2,\"ke", b"\0\0\0"] {
        with(tail);
        assert_eq!(RecordStore::open(&path).expect("opens").records().len(), 1, "{tail:?}");
        assert_eq!(fs::read(&path).expect("readable"), whole);
    }
}

#[test]
fn a_changed_protocol_does_not_fit_its_key() {
    let scratch = Scratch::new("changed");
    let path = scratch.path("runs.jsonl");
    let line = serde_json::to_string(&record(5)).expect("JSON");
    fs::write(&path, line.replace("\"seed\":5", "\"seed\":6") + "\n").expect("writable");
    let error = Records::load(&path).expect_err("changed");
    assert!(matches!(error, RecordError::OtherKey { line: 1, .. }), "{error}");
}

#[test]
fn a_missing_file_can_be_written_but_not_read() {
    let scratch = Scratch::new("missing");
    let path = scratch.path("runs.jsonl");
    assert!(matches!(Records::load(&path), Err(RecordError::Read { .. })));
    assert!(RecordStore::open(&path).is_ok());
    let nowhere = scratch.path("no/such/folder/runs.jsonl");
    let error = RecordStore::open(&nowhere).expect_err("no folder");
    assert!(matches!(&error, RecordError::Write { path, .. } if *path == nowhere));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let full = Path::new("/dev/full");
    let mut store = RecordStore::open(full).expect("opens");
    let error = store.append(record(1)).expect_err("no room");
    assert!(matches!(&error, RecordError::Write { path, .. } if path == full));
    assert!(error.hint().is_some_and(|hint| hint.contains("full")));
    assert!(!store.contains(&record(1).key));
    assert!(RecordStore::open(full).is_ok(), "a device is nobody's alone");
    let error = write_atomically(full, b"text").expect_err("no room");
    assert!(matches!(&error, RecordError::Write { path, .. } if path == full));
}

#[test]
fn a_file_appears_as_a_whole_or_not_at_all() {
    let scratch = Scratch::new("atomic");
    let path = scratch.path("report.html");
    write_atomically(&path, b"one").expect("writable");
    write_atomically(&path, b"two").expect("writable");
    assert_eq!(fs::read(&path).expect("readable"), b"two");
    // A folder of that name cannot be replaced.
    fs::create_dir_all(scratch.path("folder/inside")).expect("writable");
    let error = write_atomically(&scratch.path("folder"), b"x").expect_err("a folder");
    assert!(matches!(error, RecordError::Write { .. }));
    let mut left: Vec<_> =
        fs::read_dir(&scratch.0).expect("a folder").map(|entry| entry.expect("readable").file_name()).collect();
    left.sort();
    assert_eq!(left, ["folder", "report.html"]);
}

#[test]
fn a_changed_digit_is_refused_and_old_records_without_a_checksum_are_read() {
    let scratch = Scratch::new("check");
    let path = scratch.path("runs.jsonl");
    write(&path, 0..2);
    let text = fs::read_to_string(&path).expect("readable");
    fs::write(&path, text.replacen("0.30000000000000004", "0.31", 1)).expect("writable");
    let error = Records::load(&path).expect_err("changed");
    assert!(matches!(error, RecordError::Changed { line: 1, .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("changed after it was written")));
    let check = record(0).check.expect("a checksum");
    fs::write(&path, text.replacen(&format!(",\"check\":\"{check}\""), "", 1)).expect("writable");
    assert!(matches!(Records::load(&path), Err(RecordError::Changed { line: 1, .. })));
    let old = RunRecord { format: 1, check: None, ..record(0) };
    fs::write(&path, serde_json::to_string(&old).expect("JSON") + "\n").expect("writable");
    assert_eq!(Records::load(&path).expect("readable").get(&old.key), Some(&old));
}

#[test]
fn a_record_tells_what_its_images_were_called() {
    let scratch = Scratch::new("data");
    let path = scratch.path("runs.jsonl");
    let named = record(0).with_data("photos/winter");
    assert_ne!(named.check, record(0).check);
    RecordStore::open(&path).expect("opens").append(named.clone()).expect("room on the disk");
    let records = Records::load(&path).expect("readable");
    assert_eq!(records.get(&named.key).and_then(RunRecord::data), Some("photos/winter"));
    assert_eq!(record(1).data(), None);
}

#[test]
fn what_is_claimed_is_somebody_s_until_it_is_dropped() {
    let scratch = Scratch::new("claims");
    let [one, other] = [(); 2].map(|()| RecordFolder::open(&scratch.0, None).expect("it is empty"));
    let claim = one.claim("cell").expect("nobody has it");
    assert!(other.claim("cell").is_none() && one.claim("cell").is_none());
    assert!(other.claim("another cell").is_some());
    drop(claim);
    assert!(other.claim("cell").is_some());
}

#[test]
fn a_packed_file_is_read_as_what_was_packed() {
    let scratch = Scratch::new("packed");
    let (plain, packed) = (scratch.path("runs.jsonl"), scratch.path("runs.jsonl.gz"));
    write(&plain, 0..3);
    let pack = |bytes: &[u8]| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(bytes).expect("memory");
        packer.finish().expect("memory")
    };
    let bytes = pack(&fs::read(&plain).expect("readable"));
    fs::write(&packed, &bytes).expect("writable");
    assert!(Records::load(&packed).expect("readable").iter().eq(&(0..3).map(record).collect::<Vec<_>>()));
    // Nobody appends to it, so that a part of it is a mistake.
    fs::write(&packed, &bytes[..bytes.len() - 9]).expect("writable");
    assert!(matches!(Records::load(&packed), Err(RecordError::Read { .. })));
    fs::write(&packed, "{}").expect("writable");
    assert!(matches!(Records::load(&packed), Err(RecordError::Read { .. })));
}

#[test]
fn a_folder_is_read_together_with_a_file_of_any_name() {
    let scratch = Scratch::new("with-file");
    let elsewhere = scratch.path("kept.jsonl");
    write(&elsewhere, 3..5);
    write(&scratch.path("records-1-of-1.jsonl"), 0..2);
    let mut folder = RecordFolder::open(&scratch.0, None).and_then(|f| f.with_file(&elsewhere)).expect("readable");
    folder.refresh().expect("readable");
    assert_eq!(folder.iter().count(), 4);
    assert_eq!(folder.get(&record(4).key), Some(&record(4)));
}
