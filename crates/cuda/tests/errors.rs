//! What a machine without a usable GPU is told, and what one with a GPU is told about a wrong number.

use flipcast_cuda::{CudaError, CudaNetwork, CudaOptions, ForeignImages, ForeignLayout, report};
use flipcast_ground::Hint;
use flipcast_tensor::Batch;
use flipcast_testkit::cases;
use std::sync::Arc;

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

#[test]
fn images_on_an_absent_gpu_are_refused_with_the_reason() {
    let layout = ForeignLayout { device: 99, address: 4096, extents: [2, 1, 1, 3], strides: [3, 3, 3, 1], scale: None };
    // SAFETY: no machine has a hundred GPUs, so nobody reads there.
    let images = unsafe { ForeignImages::new(layout, Box::new(())) }.unwrap();
    let refused = Batch::on_device(Arc::new(images)).read().unwrap_err();
    assert!(refused.downcast_ref::<CudaError>().is_some(), "{refused}");
}
