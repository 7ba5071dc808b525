//! One tiny file per condition a torch archive is refused for, as an archive.

use crate::build::{Record, TWO, Width, good_object, torch_records, torch_zip_of, zip};
use flipcast_ground::Hint;
use flipcast_models::weights::ZipError;
use flipcast_models::{ImportError, WeightFile};

/// The refusal of a good archive after `change`.
fn refusal(change: impl FnOnce(&mut Vec<Record>)) -> ImportError {
    let mut records = torch_records(&good_object());
    change(&mut records);
    WeightFile::from_bytes(zip(&records, Width::Narrow)).expect_err("the file must be refused")
}

fn zip_error(error: ImportError) -> ZipError {
    match error {
        ImportError::Zip { source } => source,
        other => panic!("{other}"),
    }
}

/// The refusal of the bytes of a good archive after `change`.
fn byte_refusal(width: Width, change: impl FnOnce(&mut Vec<u8>)) -> ZipError {
    let mut bytes = zip(&torch_records(&good_object()), width);
    change(&mut bytes);
    zip_error(WeightFile::from_bytes(bytes).expect_err("the file must be refused"))
}

#[test]
fn both_widths_of_archive_are_read() {
    for width in [Width::Narrow, Width::Wide] {
        let bytes = zip(&torch_records(&good_object()), width);
        let file = WeightFile::from_bytes(bytes).expect("a good archive");
        assert_eq!(file.load("w").expect("it is there").values(), [1.5, -2.0]);
    }
}

#[test]
fn a_comment_after_the_end_record_is_fine() {
    let mut bytes = torch_zip_of(&good_object());
    let len = bytes.len();
    bytes[len - 2] = 5;
    bytes.extend(b"hello");
    assert!(WeightFile::from_bytes(bytes).is_ok());
}

#[test]
fn a_lost_end_record_is_refused() {
    let error = byte_refusal(Width::Narrow, |bytes| bytes.truncate(bytes.len() - 1));
    assert!(matches!(error, ZipError::NoEndRecord), "{error}");
    let error = WeightFile::from_bytes(b"PK\x03\x04".to_vec()).expect_err("nothing but a start");
    assert!(error.hint().is_some_and(|hint| hint.contains("incomplete")));
}

#[test]
fn a_directory_outside_the_file_is_refused() {
    for field in [10, 6] {
        let error = byte_refusal(Width::Narrow, |bytes| {
            let at = bytes.len() - field;
            bytes[at..at + 4].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
        });
        assert!(matches!(error, ZipError::Truncated { part: "directory" }), "{error}");
    }
}

#[test]
fn a_lying_64_bit_record_is_refused() {
    for (from_end, value) in [(34, u64::MAX), (34, 1 << 40)] {
        let error = byte_refusal(Width::Wide, |bytes| {
            let at = bytes.len() - from_end;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        });
        assert!(matches!(error, ZipError::Truncated { part: "64-bit end record" }), "{error}");
    }
    let error = byte_refusal(Width::Wide, |bytes| {
        let at = bytes.len() - 34;
        bytes[at..at + 8].copy_from_slice(&0u64.to_le_bytes());
    });
    assert!(matches!(error, ZipError::Signature { part: "64-bit end record", .. }), "{error}");
    // Offset and length of the directory whose sum wraps around.
    let error = byte_refusal(Width::Wide, |bytes| {
        let at = bytes.len() - 42 - 8;
        bytes[at..at + 8].copy_from_slice(&(u64::MAX - 3).to_le_bytes());
    });
    assert!(matches!(error, ZipError::Truncated { part: "directory" }), "{error}");
}

#[test]
fn a_wrong_number_of_records_is_refused() {
    let error = byte_refusal(Width::Narrow, |bytes| {
        let at = bytes.len() - 12;
        bytes[at] = 9;
    });
    assert!(matches!(error, ZipError::RecordCount { declared: 9, found: 3 }), "{error}");
}

#[test]
fn a_directory_entry_without_its_signature_is_refused() {
    let error = byte_refusal(Width::Narrow, |bytes| {
        let at = bytes.windows(4).position(|window| window == b"PK\x01\x02");
        bytes[at.expect("a directory")] = b'Q';
    });
    assert!(matches!(error, ZipError::Signature { part: "directory entry", .. }), "{error}");
}

#[test]
fn a_record_name_that_is_not_utf8_is_refused() {
    let error = zip_error(refusal(|records| records[1].name = b"x/\xff".to_vec()));
    assert!(matches!(error, ZipError::NotUtf8 { .. }), "{error}");
}

#[test]
fn an_endless_record_name_is_refused() {
    let long = Record::new(&"x".repeat(60_000), b"");
    let error = zip_error(refusal(|records| records.push(long)));
    assert!(matches!(error, ZipError::LongName { found: 60_000, .. }), "{error}");
}

#[test]
fn a_record_listed_twice_is_refused() {
    let error = zip_error(refusal(|records| records.push(Record::new("x/data/0", &TWO))));
    assert!(matches!(&error, ZipError::DuplicateRecord { record } if record == "x/data/0"), "{error}");
}

#[test]
fn a_record_under_two_names_is_refused() {
    let error = zip_error(refusal(|records| records[2].local_name = b"x/data/1".to_vec()));
    assert!(matches!(error, ZipError::NameMismatch { .. }), "{error}");
}

#[test]
fn a_compressed_record_is_refused() {
    let error = refusal(|records| records[2].method = 8);
    assert!(error.hint().is_some_and(|hint| hint.contains("never compresses")));
    let error = zip_error(error);
    assert!(matches!(error, ZipError::Compressed { method: 8, .. }), "{error}");
}

#[test]
fn an_encrypted_record_is_refused() {
    let error = zip_error(refusal(|records| records[0].flags = 1));
    assert!(matches!(error, ZipError::Encrypted { .. }), "{error}");
}

#[test]
fn a_record_of_two_sizes_is_refused() {
    let error = zip_error(refusal(|records| records[2].declared = 1 << 30));
    assert!(matches!(error, ZipError::SizeMismatch { stored: 8, .. }), "{error}");
}

#[test]
fn an_archive_without_a_pickle_is_refused() {
    let error = zip_error(refusal(|records| drop(records.remove(0))));
    assert!(matches!(&error, ZipError::MissingRecord { record } if record == "data.pkl"), "{error}");
}

#[test]
fn an_archive_with_two_pickles_is_refused() {
    let error = zip_error(refusal(|records| records.push(Record::new("y/data.pkl", b""))));
    assert!(matches!(error, ZipError::SeveralPickles { found: 2 }), "{error}");
}

#[test]
fn torchscript_is_refused_as_such() {
    let error = refusal(|records| records.push(Record::new("x/constants.pkl", b"")));
    assert!(matches!(error, ImportError::TorchScript), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_missing_storage_is_refused() {
    let error = zip_error(refusal(|records| drop(records.pop())));
    assert!(matches!(&error, ZipError::MissingRecord { record } if record == "x/data/0"), "{error}");
}

#[test]
fn a_storage_of_another_length_is_refused() {
    let error = refusal(|records| records[2] = Record::new("x/data/0", &TWO[..7]));
    assert!(matches!(error, ImportError::StorageMismatch { declared: 8, found: 7, .. }), "{error}");
}

#[test]
fn the_other_byte_order_is_refused() {
    let error = refusal(|records| records[1].data = b"big".to_vec());
    assert!(matches!(error, ImportError::Zip { .. }), "sizes differ: {error}");
    let error = refusal(|records| records[1] = Record::new("x/byteorder", b"big"));
    assert!(matches!(&error, ImportError::ByteOrder { found } if found == "big"), "{error}");
}

#[test]
fn bytes_after_the_pickle_are_refused() {
    let error = refusal(|records| {
        let mut data = records[0].data.clone();
        data.extend(b"more");
        records[0] = Record::new("x/data.pkl", &data);
    });
    assert!(matches!(error, ImportError::TrailingBytes { found: 4, .. }), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    for width in [Width::Narrow, Width::Wide] {
        let bytes = zip(&torch_records(&good_object()), width);
        for len in 0..bytes.len() {
            assert!(WeightFile::from_bytes(bytes[..len].to_vec()).is_err(), "{len}");
        }
    }
}
