//! One tiny file per condition a safetensors file is refused for.

use crate::build::safetensors;
use flipcast_models::{ImportError, WeightFile};

fn read(header: &str, data: &[u8]) -> Result<WeightFile, ImportError> {
    WeightFile::from_bytes(safetensors(header.as_bytes(), data))
}

fn refusal(header: &str, data: &[u8]) -> ImportError {
    read(header, data).expect_err("the file must be refused")
}

/// A header entry for `name`.
fn entry(name: &str, dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#)
}

fn header(entries: &[String]) -> String {
    format!("{{{}}}", entries.join(","))
}

#[test]
fn padding_and_an_empty_header_are_fine() {
    let file = read(&(header(&[entry("a", "F32", "[1]", 0, 4)]) + "   "), &[0; 4]);
    assert_eq!(file.expect("spaces pad the header").tensors().len(), 1);
    assert_eq!(read("{}", &[]).expect("no tensors").tensors().len(), 0);
}

#[test]
fn a_header_longer_than_the_file_is_refused() {
    for declared in [100u64, 99_999_999] {
        let mut bytes = safetensors(b"{}", &[]);
        bytes[..8].copy_from_slice(&declared.to_le_bytes());
        let error = WeightFile::from_bytes(bytes).expect_err("the header lies");
        assert!(matches!(error, ImportError::Truncated { needed, found: 2, .. } if needed == declared), "{error}");
    }
}

#[test]
fn a_header_beyond_the_limit_is_refused() {
    for declared in [100_000_001u64, u64::MAX] {
        let mut bytes = safetensors(b"{}", &[]);
        bytes[..8].copy_from_slice(&declared.to_le_bytes());
        let error = WeightFile::from_bytes(bytes).expect_err("the header lies");
        assert!(matches!(error, ImportError::HeaderTooLong { .. }), "{error}");
    }
}

#[test]
fn a_name_that_is_not_utf8_is_refused() {
    let bytes = safetensors(b"{\"\xff\":{}}", &[]);
    let error = WeightFile::from_bytes(bytes).expect_err("0xff is never UTF-8");
    assert!(matches!(error, ImportError::NotUtf8 { offset: 2, .. }), "{error}");
}

#[test]
fn a_header_that_is_not_the_right_json_is_refused() {
    for text in [
        "{",
        "{}{}",
        r#"{"a":1}"#,
        r#"{"a":{"dtype":"F32","shape":[1]}}"#,
        r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1e300],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}"#,
        r#"{"__metadata__":{"a":1}}"#,
        r#"{"__metadata__":{},"__metadata__":{}}"#,
    ] {
        let error = refusal(text, &[0; 4]);
        assert!(matches!(error, ImportError::BadHeader { .. }), "{text}: {error}");
    }
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let nested = format!(r#"{{"__metadata__":{}"#, "[".repeat(100_000));
    let error = refusal(&nested, &[]);
    assert!(matches!(error, ImportError::BadHeader { .. }), "{error}");
    let ignored = format!(r#"{{"a":{{"extra":{}"#, "[".repeat(100_000));
    let error = refusal(&ignored, &[]);
    assert!(matches!(error, ImportError::BadHeader { .. }), "{error}");
}

#[test]
fn an_unknown_element_type_is_refused() {
    for dtype in ["F8_E4M3", "C64", "U32", "f32", ""] {
        let error = refusal(&header(&[entry("a", dtype, "[1]", 0, 4)]), &[0; 4]);
        assert!(matches!(&error, ImportError::UnsupportedDType { found } if found == dtype), "{error}");
    }
}

#[test]
fn a_repeated_name_is_refused() {
    let entries = [entry("a", "F32", "[1]", 0, 4), entry("a", "F32", "[1]", 4, 8)];
    let error = refusal(&header(&entries), &[0; 8]);
    assert!(matches!(&error, ImportError::DuplicateTensor { name } if name == "a"), "{error}");
}

#[test]
fn overlapping_tensors_are_refused() {
    for (start, end) in [(0, 8), (4, 12), (4, 8)] {
        let entries = [entry("a", "F32", "[2]", 0, 8), entry("b", "U8", &format!("[{}]", end - start), start, end)];
        let error = refusal(&header(&entries), &[0; 12]);
        assert!(matches!(&error, ImportError::BadOffsets { name, .. } if name == "b"), "{error}");
    }
}

#[test]
fn a_hole_between_tensors_is_refused() {
    let entries = [entry("a", "F32", "[1]", 0, 4), entry("b", "F32", "[1]", 8, 12)];
    let error = refusal(&header(&entries), &[0; 12]);
    assert!(matches!(error, ImportError::BadOffsets { start: 8, expected_start: 4, .. }), "{error}");
}

#[test]
fn bytes_after_the_last_tensor_are_refused() {
    let error = refusal(&header(&[entry("a", "F32", "[1]", 0, 4)]), &[0; 7]);
    assert!(matches!(error, ImportError::TrailingBytes { found: 3, .. }), "{error}");
}

#[test]
fn missing_data_is_refused() {
    let error = refusal(&header(&[entry("a", "F32", "[2]", 0, 8)]), &[0; 7]);
    assert!(matches!(error, ImportError::Truncated { needed: 8, found: 7, .. }), "{error}");
    let error = refusal(&header(&[entry("a", "F32", "[2]", 0, u64::MAX)]), &[0; 7]);
    assert!(matches!(error, ImportError::Truncated { .. }), "{error}");
}

#[test]
fn offsets_that_run_backwards_are_refused() {
    let error = refusal(&header(&[entry("a", "F32", "[1]", 4, 0)]), &[0; 4]);
    assert!(matches!(error, ImportError::BadOffsets { .. }), "{error}");
}

#[test]
fn a_shape_that_does_not_fill_its_bytes_is_refused() {
    for shape in ["[2]", "[]", "[1152921504606846976]", "[0]"] {
        let error = refusal(&header(&[entry("a", "F16", shape, 0, 6)]), &[0; 6]);
        assert!(matches!(error, ImportError::SizeMismatch { found: 6, .. }), "{shape}: {error}");
    }
}

#[test]
fn a_shape_beyond_memory_is_refused() {
    for shape in ["[4294967296,4294967296]", "[18446744073709551615]", "[9223372036854775807,4,0]"] {
        let error = refusal(&header(&[entry("a", "F32", shape, 0, 4)]), &[0; 4]);
        assert!(matches!(error, ImportError::TooLarge { .. }), "{shape}: {error}");
    }
}

#[test]
fn too_many_axes_are_refused() {
    let shape = format!("[{}1]", "1,".repeat(40));
    let error = refusal(&header(&[entry("a", "F32", &shape, 0, 4)]), &[0; 4]);
    assert!(matches!(error, ImportError::TooManyAxes { found: 41, .. }), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    let entries = [entry("a", "F32", "[1]", 0, 4), entry("b", "I16", "[3]", 4, 10)];
    let bytes = safetensors(header(&entries).as_bytes(), &[0; 10]);
    assert!(WeightFile::from_bytes(bytes.clone()).is_ok());
    for len in 0..bytes.len() {
        assert!(WeightFile::from_bytes(bytes[..len].to_vec()).is_err(), "{len}");
    }
}
