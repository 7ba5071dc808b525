//! One tiny file per condition a pickle is refused for.

use crate::build::{call, dict, global, good_object, int, ints, legacy_of, list, storage, text, torch_zip_of, tuple};
use flipcast_ground::Hint;
use flipcast_models::weights::PickleError;
use flipcast_models::{ImportError, WeightFile};

fn refusal(object: &[u8]) -> ImportError {
    WeightFile::from_bytes(torch_zip_of(object)).expect_err("the file must be refused")
}

fn fault(object: &[u8]) -> PickleError {
    match refusal(object) {
        ImportError::Pickle { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn nothing_but_the_allow_list_is_constructed() {
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("torch.storage", "_load_from_bytes"),
        ("torch.nn.modules.linear", "Linear"),
        ("collections", "OrderedDict.__init__"),
        ("", ""),
    ] {
        let attack = dict(&[(text("w"), call(global(module, name), &[text("rm -rf /")]))]);
        let from_stack = [&text(module)[..], &text(name), b"\x93"].concat();
        for object in [attack, from_stack, global(module, name)] {
            let error = refusal(&object);
            assert!(
                matches!(&error, ImportError::ForbiddenGlobal { module: m, name: n } if m == module && n == name),
                "{error}"
            );
            assert!(error.hint().is_some());
        }
    }
}

#[test]
fn inert_objects_beside_the_weights_are_passed_over() {
    let object = [call(global("argparse", "Namespace"), &[]), dict(&[(text("lr"), int(1))]), b"b".to_vec()].concat();
    let object = dict(&[(text("args"), object), (text("model"), good_object())]);
    assert!(WeightFile::from_bytes(torch_zip_of(&object)).is_ok());
    // Calling what an inert constructor made is refused.
    let called = call(call(global("argparse", "Namespace"), &[]), &[]);
    assert!(matches!(fault(&called), PickleError::WrongValue { .. }));
}

#[test]
fn opcodes_torch_does_not_write_are_refused() {
    // Instantiation by name, extension registry, textual ids and buffers outside the pickle.
    for opcode in [b'i', b'o', b'P', 0x82, 0x83, 0x84, 0x97, 0x98, b'I', b'S', 0x00, 0xff] {
        let found = fault(&[opcode]);
        assert!(matches!(found, PickleError::Opcode { found } if found == opcode), "{found}");
    }
}

#[test]
fn another_protocol_is_refused() {
    for version in [0, 1, 6, 255] {
        let mut bytes = legacy_of(&good_object());
        bytes[1] = version;
        let error = WeightFile::from_bytes(bytes).expect_err("not a protocol of torch");
        assert!(matches!(error, ImportError::Pickle { offset: 1, source: PickleError::Protocol { .. } }), "{error}");
    }
}

#[test]
fn an_empty_stack_is_noticed() {
    for body in [&b""[..], b"0", b"1", b"R", b"t", b"\x87", b"q\x01", b"Q", b"b", b"(2"] {
        let found = fault(body);
        assert!(matches!(found, PickleError::EmptyStack | PickleError::NoMark), "{body:?}: {found}");
    }
}

#[test]
fn a_value_below_an_open_group_is_out_of_reach() {
    assert!(matches!(fault(b"N(\x85"), PickleError::EmptyStack));
}

#[test]
fn an_entry_that_was_never_stored_is_noticed() {
    assert!(matches!(fault(b"h\x07"), PickleError::UnknownEntry { index: 7 }));
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    let rebuild = || global("torch._utils", "_rebuild_tensor_v2");
    for body in [
        b"NN\x93".to_vec(),
        b"N)R".to_vec(),
        b"NNa".to_vec(),
        b"NNNs".to_vec(),
        b"}(Nu".to_vec(),
        b"NNb".to_vec(),
        [global("collections", "OrderedDict"), b"NR".to_vec()].concat(),
        call(global("collections", "OrderedDict"), &[int(3)]),
        call(global("collections", "OrderedDict"), &[list(&[int(3)])]),
        call(global("torch", "FloatStorage"), &[]),
        call(global("torch._utils", "_rebuild_parameter"), &[int(3)]),
        call(global("torch", "Size"), &[int(3)]),
        call(rebuild(), &[int(0), int(0), ints(&[2]), ints(&[1])]),
        [tuple(&[text("module"), int(0), int(0), int(0), int(0)]), b"Q".to_vec()].concat(),
        [tuple(&[text("storage"), int(0), text("0"), text("cpu"), int(2)]), b"Q".to_vec()].concat(),
        storage("FloatStorage", "0", -1),
        b"NQ".to_vec(),
    ] {
        let found = fault(&body);
        assert!(matches!(found, PickleError::WrongValue { .. }), "{body:?}: {found}");
    }
}

#[test]
fn too_few_arguments_are_refused() {
    for body in [
        call(global("torch._utils", "_rebuild_tensor_v2"), &[int(0)]),
        call(global("torch._utils", "_rebuild_parameter"), &[]),
        [tuple(&[text("storage")]), b"Q".to_vec()].concat(),
    ] {
        let found = fault(&body);
        assert!(matches!(found, PickleError::ArgumentCount { .. }), "{found}");
    }
}

#[test]
fn an_endless_storage_key_is_refused() {
    let found = fault(&storage("FloatStorage", &"0".repeat(1_000), 2));
    assert!(matches!(found, PickleError::LongKey { found: 1_000, .. }), "{found}");
}

#[test]
fn a_negated_view_is_refused() {
    let arguments = [
        storage("FloatStorage", "0", 2),
        int(0),
        ints(&[2]),
        ints(&[1]),
        b"\x89".to_vec(),
        dict(&[]),
        dict(&[(text("neg"), b"\x88".to_vec())]),
    ];
    let found = fault(&call(global("torch._utils", "_rebuild_tensor_v2"), &arguments));
    assert!(matches!(found, PickleError::PendingMath), "{found}");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    for body in [&b"X\x01\0\0\0\xff"[..], b"\x8c\x01\xff", b"c\xff\nx\n"] {
        assert!(matches!(fault(body), PickleError::NotUtf8));
    }
}

#[test]
fn lengths_beyond_the_pickle_are_refused() {
    for body in [
        &b"X\xff\xff\xff\xff"[..],
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x96\0\0\0\0\0\0\0\x10",
        b"\x8b\xff\xff\xff\xff",
        b"T\xff\xff\xff\x7f",
        b"cos",
        b"G\0",
    ] {
        assert!(matches!(fault(body), PickleError::Truncated), "{body:?}");
    }
}

#[test]
fn endless_pickles_are_refused() {
    let found = fault(&b"N0".repeat(600_000));
    assert!(matches!(found, PickleError::TooManyOpcodes { .. }), "{found}");
}

#[test]
fn groups_without_end_are_refused() {
    let found = fault(&b"(".repeat(5_000));
    assert!(matches!(found, PickleError::TooDeep { .. }), "{found}");
}

#[test]
fn a_list_reused_as_dicts_counts_against_the_limit() {
    // A list of 2,000 pairs, remembered, then turned into a dict again and again.
    let pairs = list(&vec![b"NN\x86".to_vec(); 2_000]);
    let again = [global("collections", "OrderedDict"), b"h\x01\x85R0".to_vec()].concat();
    let body = [pairs, b"q\x01".to_vec(), again.repeat(2_000)].concat();
    let found = fault(&body);
    assert!(matches!(found, PickleError::TooManyOpcodes { .. }), "{found}");
}

#[test]
fn values_nested_a_hundred_thousand_deep_are_harmless() {
    let deep = [&b")"[..], &b"\x85".repeat(100_000)].concat();
    let object = dict(&[(text("deep"), deep), (text("model"), good_object())]);
    assert!(WeightFile::from_bytes(torch_zip_of(&object)).is_ok());
}
