use super::{Emulator, Place};
use crate::launch::gather::gather_images;
use crate::precision::{Element, Precision};

#[test]
fn images_are_gathered_in_the_order_of_their_positions() {
    let Some(emulator) = Emulator::new("gather.cu", Precision::Bf16) else {
        return;
    };
    for len in [1, 255, 600] {
        let values: Vec<f32> = (0..7 * len).map(|at| at as f32 / 8.0).collect();
        let positions = [6, 0, 3, 3];
        let (mut set, mut places) = (Place::floats(&values), Place::integers(&positions));
        let mut to = Place::new(Element::F32, positions.len() * len);
        gather_images(&emulator, set.slice(), places.slice(), to.slice(), len).unwrap();
        let expected = positions.map(|at| &values[at as usize * len..][..len]);
        assert_eq!(to.values(), expected.concat(), "{len}");
    }
}
