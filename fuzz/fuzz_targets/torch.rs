//! Any bytes read as a torch file, zip or legacy, end in tensors or an error.
#![no_main]

use flipcast_models::{Format, ImportError, WeightFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match WeightFile::from_bytes(data.to_vec()) {
        Ok(file) => {
            for info in file.tensors() {
                let tensor = file.load(&info.name).expect("a listed tensor loads");
                assert_eq!(tensor.shape(), &info.shape);
            }
            if file.format() != Format::Safetensors {
                assert!(file.metadata().is_empty());
            }
        }
        Err(ImportError::AmbiguousStateDict { candidates }) => {
            // Each candidate must be one that can be asked for, unless it holds what is refused by itself.
            for candidate in &candidates {
                let _ = WeightFile::from_bytes_within(data.to_vec(), candidate);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
