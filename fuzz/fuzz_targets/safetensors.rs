//! Any bytes read as safetensors end in tensors or an error.
#![no_main]

use flipcast_models::WeightFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The brace at which the format is recognised; without it the input would belong to the other target.
    let mut bytes = data.to_vec();
    if let Some(brace) = bytes.get_mut(8) {
        *brace = b'{';
    }
    match WeightFile::from_bytes(bytes) {
        Ok(file) => {
            for info in file.tensors() {
                let tensor = file.load(&info.name).expect("a listed tensor loads");
                assert_eq!(tensor.shape(), &info.shape);
            }
            assert_eq!(file.sha256().len(), 64);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
