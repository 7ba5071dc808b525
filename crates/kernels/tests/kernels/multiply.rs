use crate::parity::{compare, noise};
use flipcast_kernels::{Extent, Factors, Isa, ScratchSize, Target, Team, multiply_backward};
use flipcast_tensor::Tolerance;

#[test]
fn gradients_of_both_factors_agree_and_add() {
    for (channels, one_pixel) in [(1, true), (17, true), (33, true), (5, false), (16, false)] {
        let extent = Extent { images: 2, pixels: 19, channels };
        let gate_pixels = if one_pixel { 1 } else { extent.pixels };
        let gates = 2 * gate_pixels * channels;
        let (values, gate) = (noise(extent.len(), 1), noise(gates, 2));
        let gradient = noise(extent.len(), 3);
        for add in [false, true] {
            let run = |team: &mut Team, out: &mut [f32]| {
                if add {
                    out.fill(0.5);
                }
                let (to_values, to_gate) = out.split_at_mut(extent.len());
                let targets = [to_values, to_gate].map(|values| Some(Target { values, accumulate: add }));
                let factors = Factors { values: &values, gate: &gate, gate_pixels };
                multiply_backward(team, extent, factors, &gradient, targets);
            };
            let what = format!("product of {channels} channels, {gate_pixels} gates");
            let len = extent.len() + gates;
            compare(&what, len, Tolerance::RelativeL2(1e-7), run);
            let mut found = vec![f32::NAN; len];
            run(&mut Team::new(Isa::detect(), 1, ScratchSize::default()), &mut found);
            let before = if add { 0.5 } else { 0.0 };
            let mut expected = vec![before; len];
            for i in 0..extent.len() {
                let (image, at) = (i / (19 * channels), i % (gate_pixels * channels));
                let at = image * gate_pixels * channels + at;
                expected[i] += gradient[i] * gate[at];
                expected[extent.len() + at] += gradient[i] * values[i];
            }
            Tolerance::RelativeL2(1e-6).check(&what, &found, &expected);
        }
    }
}
