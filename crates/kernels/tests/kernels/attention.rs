use crate::parity::{compare, noise};
use flipcast_kernels::{Attention, AttentionShape, Exactness, Isa, Target, Team};
use flipcast_tensor::Tolerance;

const IMAGES: usize = 2;

/// Group sizes around the width of a vector and beyond a block of queries, heads of every width class.
const SHAPES: [[usize; 3]; 8] = [
    // groups, tokens of a group, channels of a head
    [1, 1, 1],
    [3, 4, 5],
    [2, 9, 16],
    [1, 16, 17],
    [2, 17, 8],
    [1, 33, 33],
    [1, 71, 4],
    [1, 145, 7],
];
const HEADS: usize = 2;

/// Settings of a shape with a bias, a mask and an order that is not the identity.
struct Setting {
    groups: usize,
    group: usize,
    width: usize,
    order: Vec<u32>,
    bias: Vec<f32>,
    regions: Vec<u8>,
}

impl Setting {
    fn new([groups, group, width]: [usize; 3]) -> Self {
        let tokens = (groups * group) as u32;
        Self {
            groups,
            group,
            width,
            order: (0..tokens).rev().collect(),
            bias: noise(HEADS * group * group, 5),
            regions: (0..tokens).map(|i| u8::from(i % 3 == 1)).collect(),
        }
    }

    fn shape(&self) -> AttentionShape<'_> {
        AttentionShape {
            tokens: self.groups * self.group,
            heads: HEADS,
            head_channels: self.width,
            scale: 0.7,
            group: self.group,
            order: &self.order,
            bias: Some(&self.bias),
            regions: Some((&self.regions, -3.0)),
        }
    }

    fn len(&self) -> usize {
        IMAGES * self.groups * self.group * HEADS * self.width
    }
}

#[test]
fn attention_agrees_forward_and_back() {
    for shape in SHAPES {
        let setting = Setting::new(shape);
        let len = setting.len();
        let (values, gradient) = (noise(3 * len, 1), noise(len, 2));
        // Measured: at most 1.5e-7; sums run in an order that depends on the vector width.
        compare(&format!("attention {shape:?}"), 4 * len, Tolerance::RelativeL2(6e-7), |team, out| {
            let attention = Attention::new(team.isa(), &setting.shape(), Exactness::Fast);
            let (forward, back) = out.split_at_mut(len);
            attention.forward(team, IMAGES, &values, forward);
            attention.backward(team, IMAGES, &values, &gradient, Target { values: back, accumulate: false });
        });
    }
}

#[test]
fn every_exactness_equals_the_textbook() {
    for shape in SHAPES {
        let setting = Setting::new(shape);
        let len = setting.len();
        let values = noise(3 * len, 1);
        let expected = textbook(&setting, &values);
        for exactness in [Exactness::Fast, Exactness::Double] {
            let attention = Attention::new(Isa::detect(), &setting.shape(), exactness);
            let mut team = Team::new(Isa::detect(), 2, attention.scratch());
            let mut found = vec![0.0; len];
            attention.forward(&mut team, IMAGES, &values, &mut found);
            // Measured: at most 4.3e-7.
            Tolerance::RelativeL2(1e-6).check(&format!("{shape:?} {exactness:?}"), &found, &expected);
        }
    }
}

#[test]
fn gradients_are_added_when_asked() {
    let setting = Setting::new([2, 9, 5]);
    let len = setting.len();
    let (input, gradient) = (noise(3 * len, 1), noise(len, 2));
    let attention = Attention::new(Isa::detect(), &setting.shape(), Exactness::Fast);
    let mut team = Team::new(Isa::detect(), 1, attention.scratch());
    let mut run = |values: &mut [f32], accumulate| {
        attention.backward(&mut team, IMAGES, &input, &gradient, Target { values, accumulate });
    };
    let (mut plain, mut added) = (vec![f32::NAN; 3 * len], vec![0.5; 3 * len]);
    run(&mut plain, false);
    run(&mut added, true);
    for (plain, added) in plain.iter().zip(&added) {
        assert_eq!(plain + 0.5, *added);
    }
}

/// The result in double precision, pair by pair.
fn textbook(setting: &Setting, values: &[f32]) -> Vec<f32> {
    let Setting { groups, group, width, .. } = *setting;
    let (tokens, channels) = (groups * group, HEADS * width);
    let mut out = vec![0.0; setting.len()];
    for unit in 0..IMAGES * groups * HEADS {
        let (image, at, head) = (unit / HEADS / groups, unit / HEADS % groups, unit % HEADS);
        let token = |i: usize| image * tokens + setting.order[at * group + i] as usize;
        let input = |part: usize, i: usize, c: usize| {
            f64::from(values[token(i) * 3 * channels + part * channels + head * width + c])
        };
        for query in 0..group {
            let scores: Vec<f64> = (0..group)
                .map(|key| {
                    let product: f64 = (0..width).map(|c| input(0, query, c) * input(1, key, c)).sum();
                    let bias = setting.bias[(head * group + query) * group + key];
                    let regions = [query, key].map(|i| setting.regions[at * group + i]);
                    let mask = if regions[0] == regions[1] { 0.0 } else { -3.0 };
                    (f64::from(0.7f32) * product + f64::from(bias) + mask).exp()
                })
                .collect();
            let total: f64 = scores.iter().sum();
            for c in 0..width {
                let sum: f64 = (0..group).map(|key| scores[key] * input(2, key, c)).sum();
                out[token(query) * channels + head * width + c] = (sum / total) as f32;
            }
        }
    }
    out
}
