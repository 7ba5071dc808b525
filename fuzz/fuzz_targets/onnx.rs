//! Any bytes read as an ONNX file end in a network or an error.
#![no_main]

use flipcast_models::{Model, WeightFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(file) = WeightFile::from_bytes(data.to_vec()) {
        match Model::from_program(&file) {
            Ok(model) => assert!(model.num_classes() > 1),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
