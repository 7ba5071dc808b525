//! One tiny file per condition an exported program is refused for, as an archive or as a network.

use crate::build::{Record, Width, zip};
use flipcast_ground::Hint;
use flipcast_models::weights::ZipError;
use flipcast_models::{CallError, ImportError, Model, ModelError, Place, ProgramError, WeightFile};
use serde_json::{Value as Json, json};

/// Two classes from the mean of three channels.
fn good_program() -> Json {
    let node = |target: &str, inputs: Json, output: &str| {
        json!({
            "target": format!("torch.ops.aten.{target}"),
            "inputs": inputs,
            "outputs": [{"as_tensor": {"name": output}}],
            "metadata": {"nn_module_stack": "L__self__,,Net;L__self__head,head,torch.nn.Linear"},
            "name": output,
        })
    };
    let tensor =
        |argument: &str, name: &str| json!({"name": argument, "arg": {"as_tensor": {"name": name}}, "kind": 1});
    let sizes: Vec<Json> = [2, 3, 4, 5].iter().map(|size| json!({"as_int": size})).collect();
    json!({
        "graph_module": {
            "graph": {
                "inputs": [], "outputs": [],
                "nodes": [
                    node("mean.dim", json!([tensor("self", "x"), {"name": "dim", "arg": {"as_ints": [2, 3]}}]), "mean"),
                    node("linear.default", json!([tensor("input", "mean"), tensor("weight", "w"), tensor("bias", "b")]), "linear"),
                ],
                "tensor_values": {"x": {"dtype": 7, "sizes": sizes}},
            },
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "w"}, "parameter_name": "head.weight"}},
                    {"parameter": {"arg": {"name": "b"}, "parameter_name": "head.bias"}},
                    {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                ],
                "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "linear"}}}}],
            },
        },
        "schema_version": {"major": 8, "minor": 20},
    })
}

fn meta(sizes: &[i64], strides: &[i64], offset: i64) -> Json {
    let numbers = |list: &[i64]| list.iter().map(|n| json!({"as_int": n})).collect::<Vec<_>>();
    json!({"dtype": 7, "sizes": numbers(sizes), "strides": numbers(strides), "storage_offset": {"as_int": offset}})
}

fn entry(path: &str, meta: Json) -> Json {
    json!({"path_name": path, "is_param": true, "use_pickle": false, "tensor_meta": meta})
}

fn good_table() -> Json {
    json!({"config": {
        "head.weight": entry("weight_0", meta(&[2, 3], &[3, 1], 0)),
        "head.bias": entry("weight_1", meta(&[2], &[1], 0)),
    }})
}

fn records(program: &str, table: &str) -> Vec<Record> {
    let values = |count: usize| (0..count).flat_map(|i| (i as f32 - 1.5).to_le_bytes()).collect::<Vec<u8>>();
    vec![
        Record::new("net/archive_format", b"pt2"),
        Record::new("net/byteorder", b"little"),
        Record::new("net/models/model.json", program.as_bytes()),
        Record::new("net/data/weights/model_weights_config.json", table.as_bytes()),
        Record::new("net/data/weights/weight_0", &values(6)),
        Record::new("net/data/weights/weight_1", &values(2)),
    ]
}

fn read(program: &str, table: &str) -> Result<WeightFile, ImportError> {
    WeightFile::from_bytes(zip(&records(program, table), Width::Narrow))
}

fn load(program: &str) -> Result<Model, ModelError> {
    Model::from_program(&read(program, &good_table().to_string()).expect("a good archive"))
}

/// The refusal of a good program after `change`.
fn refusal(change: impl FnOnce(&mut Json)) -> ProgramError {
    let mut program = good_program();
    change(&mut program);
    match load(&program.to_string()) {
        Err(ModelError::Program { source }) => *source,
        other => panic!("{other:?}"),
    }
}

/// The refusal of one of its calls.
fn call_refusal(change: impl FnOnce(&mut Json)) -> (Place, CallError) {
    match refusal(|program| change(&mut program["graph_module"]["graph"]["nodes"])) {
        ProgramError::Call { place, problem } => (*place, *problem),
        other => panic!("{other}"),
    }
}

/// The refusal of a good archive whose table of tensors is changed.
fn table_refusal(change: impl FnOnce(&mut Json)) -> ImportError {
    let mut table = good_table();
    change(&mut table["config"]);
    read(&good_program().to_string(), &table.to_string()).expect_err("the file must be refused")
}

#[test]
fn the_good_program_is_a_network() {
    let model = load(&good_program().to_string()).unwrap();
    assert_eq!((model.num_classes(), model.architecture()), (2, "exported"));
    assert_eq!(model.param("head.weight").unwrap().values(), [-1.5, -0.5, 0.5, 1.5, 2.5, 3.5]);
}

#[test]
fn archives_without_a_program_say_what_they_are() {
    let refused = |names: &[&str]| {
        let records: Vec<Record> = names.iter().map(|name| Record::new(name, b"{}")).collect();
        WeightFile::from_bytes(zip(&records, Width::Narrow)).expect_err("the file must be refused")
    };
    let error = refused(&["net/archive_format", "net/data/aotinductor/model.so"]);
    assert!(matches!(error, ImportError::CompiledProgram), "{error}");
    let error = refused(&["serialized_exported_program.json", "version"]);
    assert!(matches!(error, ImportError::OldProgram) && error.hint().is_some(), "{error}");
    let error = refused(&["net/archive_format"]);
    assert!(matches!(error, ImportError::Zip { source: ZipError::MissingRecord { .. } }), "{error}");
    let error = refused(&["a/models/model.json", "b/models/model.json"]);
    assert!(matches!(error, ImportError::Zip { .. }), "{error}");
}

#[test]
fn big_endian_archives_are_refused() {
    let mut records = records(&good_program().to_string(), &good_table().to_string());
    records[1].data = b"bigger".to_vec();
    let error = WeightFile::from_bytes(zip(&records, Width::Narrow)).unwrap_err();
    assert!(matches!(error, ImportError::ByteOrder { .. }), "{error}");
}

#[test]
fn tensors_must_lie_in_their_records() {
    type Change = fn(&mut Json);
    let outside: [Change; 4] = [
        |table| table["head.weight"]["tensor_meta"] = meta(&[2, 4], &[4, 1], 0),
        |table| table["head.weight"]["tensor_meta"] = meta(&[2, 3], &[3, 1], 1),
        |table| table["head.weight"]["tensor_meta"] = meta(&[2, 3], &[i64::MAX, 1], 0),
        |table| table["head.weight"]["tensor_meta"] = meta(&[1 << 40, 3], &[1, 1], 0),
    ];
    for change in outside {
        let error = table_refusal(change);
        assert!(matches!(error, ImportError::OutsideStorage { .. }), "{error}");
    }
    let error = table_refusal(|table| table["head.weight"]["tensor_meta"] = meta(&[i64::MAX, i64::MAX], &[1, 1], 0));
    assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
    let error = table_refusal(|table| table["head.weight"]["tensor_meta"] = meta(&[2, 3], &[0, 1], 0));
    assert!(matches!(error, ImportError::RepeatedElements { .. }), "{error}");
    let error = table_refusal(|table| table["head.weight"]["tensor_meta"] = meta(&[2, -3], &[3, 1], 0));
    assert!(matches!(error, ImportError::BadTensorField { field: "shape", .. }), "{error}");
    let error = table_refusal(|table| table["head.weight"]["tensor_meta"]["sizes"][0] = json!({"as_expr": {}}));
    assert!(matches!(error, ImportError::BadTensorField { field: "shape", .. }), "{error}");
    let error = table_refusal(|table| table["head.weight"]["tensor_meta"]["dtype"] = json!(99));
    assert!(matches!(error, ImportError::UnsupportedDType { .. }), "{error}");
}

#[test]
fn records_are_found_in_the_archive_alone() {
    let error = table_refusal(|table| table["head.weight"]["path_name"] = json!("../../../../etc/passwd"));
    assert!(matches!(error, ImportError::Zip { source: ZipError::MissingRecord { .. } }), "{error}");
}

#[test]
fn pickled_tensors_are_refused() {
    let error = table_refusal(|table| table["head.weight"]["use_pickle"] = json!(true));
    assert!(matches!(error, ImportError::PickledTensor { .. }), "{error}");
}

#[test]
fn a_tensor_listed_twice_is_refused() {
    let twice = entry("weight_1", meta(&[2], &[1], 0));
    let table = format!(r#"{{"config": {{"a": {twice}, "a": {twice}}}}}"#);
    let error = read(&good_program().to_string(), &table).unwrap_err();
    assert!(matches!(error, ImportError::DuplicateTensor { .. }), "{error}");
}

#[test]
fn a_broken_table_is_named() {
    let error = read(&good_program().to_string(), r#"{"config": ["#).unwrap_err();
    assert!(matches!(error, ImportError::BadProgram { .. }), "{error}");
}

#[test]
fn json_that_is_deep_or_no_program_is_refused() {
    for text in ["", "{}", "[1, 2]", &"[".repeat(100_000), &format!("{{\"graph_module\": {}", "[".repeat(50_000))] {
        let Err(ModelError::Program { source }) = load(text) else { panic!("it must be refused") };
        assert!(matches!(*source, ProgramError::Json { .. }), "{source}");
    }
}

#[test]
fn another_major_version_is_refused() {
    for (major, hint) in [(9, "newer"), (7, "torch.export.load")] {
        let error = refusal(|program| program["schema_version"]["major"] = json!(major));
        assert!(matches!(error, ProgramError::Schema { .. }), "{error}");
        assert!(error.hint().unwrap().contains(hint));
    }
}

#[test]
fn inputs_and_outputs_must_be_images_and_logits() {
    let error = refusal(|program| program["graph_module"]["signature"]["input_specs"][2] = json!({"token": {}}));
    assert!(matches!(error, ProgramError::Signature { .. }), "{error}");
    let error = refusal(|program| program["graph_module"]["signature"]["input_specs"][2] = json!({}));
    assert!(matches!(error, ProgramError::Inputs { found: 0 }), "{error}");
    let error = refusal(|program| program["graph_module"]["signature"]["output_specs"] = json!([]));
    assert!(matches!(error, ProgramError::Outputs { found: 0 }), "{error}");
    let error = refusal(|program| program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"] = json!([]));
    assert!(matches!(error, ProgramError::Images { rank: 0 }), "{error}");
    for size in [json!(0), json!(1u64 << 40)] {
        let huge = json!({"as_int": size});
        let error = refusal(|program| program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][2] = huge);
        assert!(matches!(error, ProgramError::Example { .. }), "{error}");
    }
    for name in ["mean", "w", "x", "nothing"] {
        let output = json!([{"user_output": {"arg": {"as_tensor": {"name": name}}}}]);
        if name == "mean" {
            // One value per image and channel: logits as well as any.
            continue;
        }
        let error = refusal(|program| program["graph_module"]["signature"]["output_specs"] = output);
        assert!(matches!(error, ProgramError::NotLogits { .. }), "{error}");
    }
}

#[test]
fn an_unknown_operator_is_named_with_its_place() {
    let (place, problem) = call_refusal(|nodes| nodes[0]["target"] = json!("torch.ops.aten.fft_fft2.default"));
    assert_eq!(place.to_string(), "`aten.fft_fft2.default` in module `head` (node `mean`)");
    assert!(matches!(problem, CallError::UnknownOperator { .. }) && problem.hint().is_some(), "{problem}");
}

#[test]
fn a_call_reads_what_was_made_before_it() {
    // Two calls in a circle.
    let (_, problem) = call_refusal(|nodes| nodes[0]["inputs"][0]["arg"]["as_tensor"]["name"] = json!("linear"));
    assert_eq!(problem, CallError::UnknownValue { name: "linear".into() });
    let (_, problem) = call_refusal(|nodes| nodes[1]["outputs"][0]["as_tensor"]["name"] = json!("mean"));
    assert_eq!(problem, CallError::DuplicateValue { name: "mean".into() });
    let error = refusal(|program| {
        program["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = json!("other");
    });
    let ProgramError::Call { problem, .. } = error else { panic!("{error}") };
    assert_eq!(*problem, CallError::MissingTensor { name: "other".into() });
}

#[test]
fn arguments_that_are_missing_or_of_another_kind_are_named() {
    let (_, problem) = call_refusal(|nodes| nodes[1]["inputs"][1]["arg"] = json!({"as_none": true}));
    assert!(matches!(problem, CallError::Argument { argument: "weight", .. }), "{problem}");
    let (_, problem) = call_refusal(|nodes| nodes[1]["inputs"] = json!([]));
    assert!(matches!(problem, CallError::Argument { argument: "operand", .. }), "{problem}");
    let (_, problem) = call_refusal(|nodes| nodes[0]["inputs"][1]["arg"] = json!({"as_ints": [0, 9]}));
    assert!(matches!(problem, CallError::Argument { argument: "dim", .. }), "{problem}");
    let (_, problem) = call_refusal(|nodes| nodes[0]["inputs"][1]["arg"] = json!({"as_ints": [0]}));
    assert!(matches!(problem, CallError::Layout { .. }), "{problem}");
    let (_, problem) = call_refusal(|nodes| nodes[1]["inputs"][1]["arg"]["as_tensor"]["name"] = json!("x"));
    assert!(matches!(problem, CallError::Argument { argument: "weight", .. }), "{problem}");
    let (_, problem) = call_refusal(|nodes| nodes[1]["inputs"][1]["arg"]["as_tensor"]["name"] = json!("b"));
    assert!(matches!(problem, CallError::Argument { argument: "weight", .. }), "{problem}");
}

/// A call of `target` on `x`, in front of the others.
fn before(nodes: &mut Json, target: &str, arguments: &[(&str, Json)]) {
    let mut inputs = vec![json!({"name": "input", "arg": {"as_tensor": {"name": "x"}}})];
    inputs.extend(arguments.iter().map(|(name, arg)| json!({"name": name, "arg": arg})));
    let call = json!({
        "target": format!("torch.ops.aten.{target}"), "inputs": inputs, "outputs": [{"as_tensor": {"name": "y"}}],
    });
    nodes.as_array_mut().unwrap().insert(0, call);
}

#[test]
fn settings_without_sense_are_refused() {
    let ints = |values: &[i64]| json!({"as_ints": values});
    let text = |text: &str| json!({"as_string": text});
    let calls: [(&str, Vec<(&str, Json)>); 12] = [
        ("max_pool2d.default", vec![("kernel_size", ints(&[0, 0]))]),
        ("max_pool2d.default", vec![("kernel_size", ints(&[99, 99]))]),
        ("max_pool2d.default", vec![("kernel_size", ints(&[5, 5]))]),
        ("max_pool2d.default", vec![("kernel_size", ints(&[2, 2])), ("stride", ints(&[0, 0]))]),
        ("avg_pool2d.default", vec![("kernel_size", ints(&[2, i64::MAX]))]),
        ("adaptive_avg_pool2d.default", vec![("output_size", ints(&[3, 3]))]),
        ("pad.default", vec![("pad", ints(&[-1, 0, 0, 0]))]),
        ("pad.default", vec![("pad", ints(&[1, 1])), ("mode", text("reflect"))]),
        ("permute.default", vec![("dims", ints(&[0, 1, 2, 2]))]),
        ("view.default", vec![("size", ints(&[-1, 7]))]),
        ("view.default", vec![("size", ints(&[i64::MAX, i64::MAX]))]),
        ("chunk.default", vec![("chunks", json!({"as_int": 0})), ("dim", json!({"as_int": 1}))]),
    ];
    for (target, arguments) in calls {
        let (_, problem) = call_refusal(|nodes| before(nodes, target, &arguments));
        let named =
            matches!(problem, CallError::Argument { .. } | CallError::Extents { .. } | CallError::Layout { .. });
        assert!(named, "{target}: {problem}");
    }
}

#[test]
fn layers_in_training_mode_are_refused() {
    let training = [("train", json!({"as_bool": true}))];
    let (_, problem) = call_refusal(|nodes| before(nodes, "dropout.default", &training));
    assert_eq!(problem, CallError::Training);
    assert!(problem.hint().unwrap().contains("model.eval()"));
}

#[test]
fn a_value_changed_through_another_view_is_not_read_again() {
    let (_, problem) = call_refusal(|nodes| {
        before(nodes, "relu_.default", &[]);
        nodes[0]["inputs"][0]["arg"]["as_tensor"]["name"] = json!("v");
        nodes[0]["outputs"][0]["as_tensor"]["name"] = json!("changed");
        before(nodes, "permute.default", &[("dims", json!({"as_ints": [0, 2, 3, 1]}))]);
        nodes[0]["outputs"][0]["as_tensor"]["name"] = json!("v");
    });
    assert_eq!(problem, CallError::ChangedInPlace { name: "x".into() });
}

#[test]
fn weights_that_are_not_numbers_are_refused() {
    let mut records = records(&good_program().to_string(), &good_table().to_string());
    records[4].data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let file = WeightFile::from_bytes(zip(&records, Width::Narrow)).unwrap();
    let error = Model::from_program(&file).unwrap_err();
    assert!(matches!(error, ModelError::NotFinite { .. }), "{error}");
}

#[test]
fn every_truncation_of_a_good_archive_is_an_error() {
    let bytes = zip(&records(&good_program().to_string(), &good_table().to_string()), Width::Narrow);
    for len in (0..bytes.len()).step_by(7) {
        assert!(WeightFile::from_bytes(bytes[..len].to_vec()).is_err(), "{len} bytes");
    }
}
