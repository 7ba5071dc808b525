//! Any bytes read as an exported program end in a network or an error, be they a whole archive or the layers of a good one.
#![no_main]

use flipcast_models::{Model, WeightFile};
use libfuzzer_sys::fuzz_target;

/// An archive of `torch.export.save`, whose layers are those that are replaced.
const ARCHIVE: &[u8] = include_bytes!("../../golden/programs/plain.pt2");
/// The name of the record with the layers.
const LAYERS: &[u8] = b"plain/models/model.json";

fuzz_target!(|data: &[u8]| {
    let bytes = if data.first() == Some(&b'{') { with_layers(data) } else { data.to_vec() };
    if let Ok(file) = WeightFile::from_bytes(bytes) {
        match Model::from_program(&file) {
            Ok(model) => assert!(model.num_classes() > 1),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

/// The archive with `layers` in place of its own: appended, with the one entry of the directory that points to it changed.
fn with_layers(layers: &[u8]) -> Vec<u8> {
    let find = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).rposition(|window| window == part);
    let end = find(ARCHIVE, b"PK\x05\x06").expect("the archive has an end record");
    let number = |at: usize| u32::from_le_bytes(ARCHIVE[at..at + 4].try_into().expect("four bytes")) as usize;
    let (len, at) = (number(end + 12), number(end + 16));
    let mut directory = ARCHIVE[at..at + len].to_vec();
    let mut bytes = ARCHIVE[..at].to_vec();
    let header = bytes.len() as u32;
    bytes.extend(b"PK\x03\x04");
    bytes.extend([0; 22]);
    bytes.extend((LAYERS.len() as u16).to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(LAYERS);
    bytes.extend(layers);
    let entry = find(&directory, LAYERS).expect("the directory lists the layers") - 46;
    for (place, value) in [(20, layers.len() as u32), (24, layers.len() as u32), (42, header)] {
        directory[entry + place..entry + place + 4].copy_from_slice(&value.to_le_bytes());
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(&ARCHIVE[end + 8..end + 16]);
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}
