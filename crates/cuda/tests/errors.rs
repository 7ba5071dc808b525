//! What a machine without a usable GPU is told, and what one with a GPU is told about a wrong number.

use flipcast_cuda::{CudaError, CudaNetwork, CudaOptions, report};
use flipcast_ground::Hint;
use flipcast_testkit::cases;

#[test]
fn an_absent_gpu_is_a_typed_error_with_advice() {
    let case = &cases()[0];
    let options = CudaOptions { device: 99, ..CudaOptions::adapt(case.batch_size, case.height, case.width) };
    let Err(error) = CudaNetwork::new(&case.graph, &case.params, &options) else {
        panic!("no machine has a hundred GPUs");
    };
    let report = report();
    if report.devices.is_empty() {
        assert!(!report.usable());
        assert!(error.hint().is_some(), "{error}");
        let missing = report.libraries.iter().filter(|library| library.found.is_err());
        for library in missing {
            assert!(library.hint.is_some(), "{}", library.name);
        }
    } else {
        assert!(matches!(error, CudaError::DeviceIndex { index: 99, .. }), "{error}");
    }
}
