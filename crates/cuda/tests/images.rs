//! Batches reach the GPU as values or as bytes, alone or in sets; what the network sees is the same, bit for bit.

use flipcast_cuda::{CudaNetwork, CudaOptions, Precision, release_image_sets, report};
use flipcast_exec::{ExecError, Executor, NormMode};
use flipcast_models::Model;
use flipcast_tensor::{Batch, ByteScale, ImageSet};
use std::sync::Arc;

const SIDE: usize = 40;
const IMAGES: usize = 12;
const BATCH: usize = 5;

fn bytes() -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(at / 3 + 5) >> 2) as u8;
    (0..IMAGES * SIDE * SIDE * 3).map(byte).collect()
}

fn scale() -> Arc<ByteScale> {
    let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let value = |c: usize, byte: u8| (f32::from(byte) / 255.0 - mean[c]) / std[c];
    Arc::new(ByteScale::new(3, value))
}

fn extents(images: usize) -> [usize; 4] {
    [images, SIDE, SIDE, 3]
}

fn networks() -> Vec<CudaNetwork> {
    if !report().usable() {
        println!("skipped: nothing was sent to a GPU, since there is none: {:?}", report());
        return Vec::new();
    }
    let make = |name: &str, precision| {
        let model = Model::random(name, 10, 1).expect("a known architecture");
        let options = CudaOptions { precision, ..CudaOptions::adapt(BATCH, SIDE, SIDE) };
        let net = CudaNetwork::new(model.graph(), model.params(), &options);
        net.unwrap_or_else(|error| panic!("{error:?}"))
    };
    let precisions = Precision::ALL.into_iter();
    // One with blocks of pixels at its input, one with single pixels.
    let names = ["resnet18", "cifar_resnet20"];
    precisions.flat_map(|precision| names.map(|name| make(name, precision))).collect()
}

#[test]
fn values_and_bytes_alone_and_in_sets_are_the_same_to_a_network() {
    for mut net in networks() {
        net.set_norm_mode(NormMode::Batch).unwrap();
        let (bytes, scale) = (bytes(), scale());
        let set = ImageSet::from_bytes(extents(IMAGES), bytes, Arc::clone(&scale)).unwrap();
        let set = Arc::new(set);
        let all = Batch::select(&set, (0..IMAGES as u32).collect(), Vec::new());
        let floats = Arc::new(ImageSet::new(extents(IMAGES), all.into_values()).unwrap());
        // Also a smaller batch, whose images are at both ends, and everything again once sets had to leave.
        let chosen = [vec![0, 1, 2, 3, 4], vec![11, 3, 3, 7, 0], vec![11, 0]];
        for round in 0..3 {
            for positions in &chosen {
                let select = |set| Batch::select(set, positions.clone(), Vec::new());
                let of_floats = select(&floats);
                let values = Batch::new(extents(positions.len()), of_floats.values().to_vec());
                let of_bytes = select(&set);
                let image = |at| of_bytes.image_bytes(at).unwrap().to_vec();
                let own: Vec<u8> = (0..positions.len()).flat_map(image).collect();
                let own = Batch::from_bytes(extents(positions.len()), own, &scale, Vec::new());
                let (values, own) = (values.unwrap(), own.unwrap());
                let expected = net.forward(&values).unwrap().values().to_vec();
                for batch in [&of_floats, &of_bytes, &own] {
                    assert_eq!(net.forward(batch).unwrap().values(), expected);
                }
                for batch in [&values, &own] {
                    let staged = net.stage(batch).unwrap();
                    assert_eq!(net.forward_staged(&staged).unwrap().values(), expected);
                }
            }
            assert_eq!(release_image_sets(0), round == 0);
        }
    }
}

#[test]
fn bytes_that_stand_for_no_number_are_refused_where_they_occur() {
    for mut net in networks() {
        let value = |_, byte| if byte == 255 { f32::NAN } else { 0.5 };
        let scale = Arc::new(ByteScale::new(3, value));
        let mut bytes = vec![7; BATCH * SIDE * SIDE * 3];
        bytes[3 * SIDE * SIDE * 3 + 100] = 255;
        let set = ImageSet::from_bytes(extents(BATCH), bytes.clone(), Arc::clone(&scale)).unwrap();
        let of_set = Batch::select(&Arc::new(set), vec![3, 1], Vec::new());
        let own = Batch::from_bytes(extents(BATCH), bytes, &scale, Vec::new()).unwrap();
        for (batch, image) in [(of_set, 0), (own, 3)] {
            let refused = net.forward(&batch).unwrap_err();
            assert!(matches!(refused, ExecError::NonFiniteInput { image: at } if at == image), "{refused:?}");
        }
    }
}
