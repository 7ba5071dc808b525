//! One tiny file per condition a torch file is refused for, as tensors and storages.

use crate::build::{
    TWO, call, dict, global, good_object, int, ints, legacy, legacy_of, list, one_tensor, pickle, storage, tensor,
    text, torch_zip_of, tuple,
};
use flipcast_models::{ImportError, WeightFile};

/// The refusal of `object`, which must be the same in both formats.
fn refusal(object: &[u8]) -> ImportError {
    let zip = WeightFile::from_bytes(torch_zip_of(object)).expect_err("the file must be refused");
    let old = WeightFile::from_bytes(legacy_of(object)).expect_err("the file must be refused");
    let same = std::mem::discriminant(&zip) == std::mem::discriminant(&old);
    assert!(same, "{zip} / {old}");
    zip
}

/// The refusal of `object` where it mentions no storage, so that the older format cannot hold one.
fn zip_refusal(object: &[u8]) -> ImportError {
    WeightFile::from_bytes(torch_zip_of(object)).expect_err("the file must be refused")
}

fn legacy_refusal(object: &[u8], keys: &[Vec<u8>], data: &[u8]) -> ImportError {
    WeightFile::from_bytes(legacy(object, keys, data)).expect_err("the file must be refused")
}

fn names(object: &[u8]) -> Vec<String> {
    let file = WeightFile::from_bytes(torch_zip_of(object)).unwrap_or_else(|e| panic!("{e}"));
    file.tensors().map(|info| info.name.clone()).collect()
}

fn good_tensor() -> Vec<u8> {
    tensor(storage("FloatStorage", "0", 2), 0, &[2], &[1])
}

#[test]
fn both_formats_read_the_good_object() {
    for bytes in [torch_zip_of(&good_object()), legacy_of(&good_object())] {
        let file = WeightFile::from_bytes(bytes).expect("a good file");
        assert_eq!(file.load("w").expect("it is there").values(), [1.5, -2.0]);
    }
}

#[test]
fn a_tensor_outside_its_storage_is_refused() {
    for (first, shape, strides) in [
        (1, &[2][..], &[1][..]),
        (0, &[3], &[1]),
        (0, &[2], &[2]),
        (i64::MAX, &[1], &[1]),
        (1, &[2, 2], &[i64::MAX, i64::MAX]),
        (0, &[2, 2], &[1, 1]),
        (0, &[1 << 60], &[1]),
    ] {
        let error = refusal(&one_tensor(first, shape, strides));
        assert!(matches!(error, ImportError::OutsideStorage { .. }), "{error}");
    }
}

#[test]
fn a_huge_shape_is_refused() {
    let error = refusal(&one_tensor(0, &[1 << 60, 1 << 60], &[1, 1]));
    assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
    let error = refusal(&one_tensor(0, &[1 << 60, 2], &[0, 1]));
    assert!(matches!(error, ImportError::RepeatedElements { .. }), "{error}");
    let error = refusal(&one_tensor(0, &[1; 20], &[1; 20]));
    assert!(matches!(error, ImportError::TooManyAxes { .. }), "{error}");
    let error = refusal(&one_tensor(0, &[2], &[1, 1]));
    assert!(matches!(error, ImportError::BadTensorField { field: "number of strides", .. }), "{error}");
}

#[test]
fn fields_that_are_no_sizes_are_refused() {
    for object in [
        one_tensor(-1, &[2], &[1]),
        one_tensor(0, &[-2], &[1]),
        one_tensor(0, &[2], &[-1]),
        dict(&[(
            text("w"),
            call(
                global("torch._utils", "_rebuild_tensor"),
                &[storage("FloatStorage", "0", 2), int(0), text("2"), ints(&[1])],
            ),
        )]),
    ] {
        let error = refusal(&object);
        assert!(matches!(error, ImportError::BadTensorField { .. }), "{error}");
    }
}

#[test]
fn a_storage_with_a_huge_declared_length_is_refused() {
    for len in [1 << 60, i64::MAX, 3] {
        let object = dict(&[(text("w"), tensor(storage("FloatStorage", "0", len), 0, &[2], &[1]))]);
        let error = refusal(&object);
        assert!(matches!(error, ImportError::StorageMismatch { .. }), "{error}");
    }
    let object = dict(&[(text("w"), tensor(storage("DoubleStorage", "0", 1 << 60), 0, &[1], &[1]))]);
    let data = (1u64 << 60).to_le_bytes();
    let error = legacy_refusal(&object, &[text("0")], &data);
    assert!(matches!(error, ImportError::Truncated { found: 0, .. }), "{error}");
}

#[test]
fn a_name_that_is_not_utf8_is_refused() {
    let object = dict(&[(b"U\x02a\xff".to_vec(), good_tensor())]);
    let error = refusal(&object);
    assert!(matches!(error, ImportError::NotUtf8 { offset: 1, .. }), "{error}");
}

#[test]
fn a_name_that_is_no_text_is_refused() {
    let error = refusal(&dict(&[(int(3), good_tensor())]));
    assert!(matches!(error, ImportError::UnnamedTensor { found: "an integer" }), "{error}");
}

#[test]
fn a_repeated_name_is_refused() {
    let error = refusal(&dict(&[(text("w"), good_tensor()), (text("w"), good_tensor())]));
    assert!(matches!(error, ImportError::DuplicateTensor { .. }), "{error}");
}

#[test]
fn thousands_of_views_of_one_storage_are_refused() {
    let mut records = crate::build::torch_records(&[]);
    let big = vec![0; 40_000];
    records[2] = crate::build::Record::new("x/data/0", &big);
    let entries: Vec<_> = (0..100)
        .map(|i| (text(&i.to_string()), tensor(storage("ByteStorage", "0", 40_000), 0, &[40_000], &[1])))
        .collect();
    records[0] = crate::build::Record::new("x/data.pkl", &pickle(&dict(&entries)));
    let bytes = crate::build::zip(&records, crate::build::Width::Narrow);
    let error = WeightFile::from_bytes(bytes).expect_err("a hundred copies");
    assert!(matches!(error, ImportError::TooMuchSharing { .. }), "{error}");
}

#[test]
fn objects_without_a_state_dict_are_refused() {
    for object in [int(3), list(&[good_tensor()]), dict(&[]), dict(&[(text("state_dict"), dict(&[]))]), good_tensor()] {
        let error = zip_refusal(&object);
        assert!(matches!(error, ImportError::NoStateDict { .. }), "{error}");
    }
    let error = refusal(&dict(&[(text("encoder"), good_object()), (text("head"), good_object())]));
    assert_eq!(error.to_string(), "no state dict in the file, found a dict of `encoder`, `head`");
}

#[test]
fn a_section_of_any_name_can_be_chosen() {
    let object = dict(&[(text("encoder"), good_object()), (text("head"), int(1))]);
    let file = WeightFile::from_bytes_within(torch_zip_of(&object), "encoder").expect("chosen");
    assert_eq!(file.nesting(), ["encoder"]);
    let error = WeightFile::from_bytes_within(torch_zip_of(&object), "head").expect_err("a number");
    assert!(matches!(error, ImportError::NoStateDict { .. }), "{error}");
}

#[test]
fn tensors_beside_a_wrapper_are_ambiguous_unless_they_are_numbers() {
    let object = dict(&[(text("model"), good_object()), (text("w"), good_tensor())]);
    let ImportError::AmbiguousStateDict { candidates } = refusal(&object) else {
        panic!("expected the candidates");
    };
    assert_eq!(candidates, ["model", "."]);
    let file = WeightFile::from_bytes_within(torch_zip_of(&object), ".").expect("chosen");
    assert!(file.nesting().is_empty());
    let score = tensor(storage("FloatStorage", "0", 2), 1, &[1], &[1]);
    assert_eq!(names(&dict(&[(text("model"), good_object()), (text("acc"), score)])), ["w"]);
}

#[test]
fn a_shape_of_endless_axes_does_not_stall_the_search() {
    // One tensor with a hundred thousand axes of extent one, filed under a hundred thousand names beside a wrapper.
    let ones = [b"(".to_vec(), b"K\x01".repeat(100_000), b"tq\x01".to_vec()].concat();
    let arguments = [storage("FloatStorage", "0", 2), int(0), ones, b"h\x01".to_vec()];
    let wide = call(global("torch._utils", "_rebuild_tensor"), &arguments);
    let mut entries = vec![(text("model"), good_object()), (text("first"), [wide, b"q\x02".to_vec()].concat())];
    entries.extend((0..100_000).map(|i| (text(&i.to_string()), b"h\x02".to_vec())));
    let error = refusal(&dict(&entries));
    assert!(matches!(error, ImportError::AmbiguousStateDict { .. }), "{error}");
}

#[test]
fn one_state_dict_under_two_keys_is_not_ambiguous() {
    // `model` is remembered as entry 7 and filed again under `net`.
    let remembered = [&good_object()[..], b"q\x07"].concat();
    let object = dict(&[(text("model"), remembered), (text("net"), b"h\x07".to_vec())]);
    assert_eq!(names(&object), ["w"]);
}

#[test]
fn a_dict_that_holds_itself_ends_the_search() {
    let cyclic = [b"}q\x07(", &text("model")[..], b"h\x07u"].concat();
    let error = zip_refusal(&cyclic);
    assert!(matches!(error, ImportError::NoStateDict { .. }), "{error}");
}

#[test]
fn python_2_dicts_are_read() {
    let pairs = list(&[list(&[b"U\x01w".to_vec(), good_tensor()])]);
    let object = call(global("collections", "OrderedDict"), &[pairs]);
    assert_eq!(names(&object), ["w"]);
}

#[test]
fn a_part_of_a_storage_is_read_and_checked() {
    let object = |first, len, whole| {
        let part = tuple(&[text("1"), int(first), int(len)]);
        let id = [text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"), int(whole), part];
        let storage = [&tuple(&id)[..], b"Q"].concat();
        dict(&[(text("w"), tensor(storage, 0, &[1], &[1]))])
    };
    let file = WeightFile::from_bytes(legacy_of(&object(1, 1, 2))).expect("the second element");
    assert_eq!(file.load("w").expect("it is there").values(), [-2.0]);
    for (first, len) in [(1, 2), (3, 0), (i64::MAX, i64::MAX)] {
        let error = refusal(&object(first, len, 2));
        assert!(matches!(error, ImportError::StorageMismatch { .. }), "{error}");
    }
}

#[test]
fn legacy_storages_must_match_their_list() {
    let data = [&2u64.to_le_bytes()[..], &TWO].concat();
    let twice = [&data[..], &data].concat();
    for (keys, data) in
        [(&[][..], &[][..]), (&[text("1")], &data), (&[int(0)], &data), (&[text("0"), text("0")], &twice)]
    {
        let error = legacy_refusal(&good_object(), keys, data);
        assert!(matches!(error, ImportError::StorageUnknown { .. }), "{error}");
    }
    let error = legacy_refusal(&good_object(), &[text("0")], &data[..15]);
    assert!(matches!(error, ImportError::Truncated { needed: 8, found: 7, .. }), "{error}");
    let error = legacy_refusal(&good_object(), &[text("0")], &twice);
    assert!(matches!(error, ImportError::TrailingBytes { found: 16, .. }), "{error}");
    let mut lying = data.clone();
    lying[0] = 3;
    let error = legacy_refusal(&good_object(), &[text("0")], &lying);
    assert!(matches!(error, ImportError::StorageMismatch { .. }), "{error}");
}

#[test]
fn two_mentions_of_a_storage_must_agree() {
    let other = tensor(storage("IntStorage", "0", 2), 0, &[2], &[1]);
    let object = dict(&[(text("w"), good_tensor()), (text("v"), other)]);
    let data = [&2u64.to_le_bytes()[..], &TWO].concat();
    let error = legacy_refusal(&object, &[text("0")], &data);
    assert!(matches!(error, ImportError::StorageMismatch { .. }), "{error}");
}

#[test]
fn another_legacy_version_is_refused() {
    let good = legacy_of(&good_object());
    let at = good.windows(2).position(|window| window == 1001u16.to_le_bytes());
    let mut bytes = good;
    bytes[at.expect("the version")] = 0;
    let error = WeightFile::from_bytes(bytes).expect_err("version 768");
    assert!(matches!(error, ImportError::LegacyVersion { .. }), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    let bytes = legacy_of(&good_object());
    for len in 0..bytes.len() {
        assert!(WeightFile::from_bytes(bytes[..len].to_vec()).is_err(), "{len}");
    }
}
