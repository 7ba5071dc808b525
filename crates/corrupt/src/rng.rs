//! Random draws that depend on what is corrupted, never on when or by which thread.

use std::sync::{Arc, LazyLock};

use flipcast_ground::SplitMix64;

/// Blocks of the counter generator made at a time, four words each.
const BLOCKS: usize = 8;
/// Salmon et al. (2011) report that Philox 4 x 64 with 7 rounds passes BigCrush; their default of 10 is a margin on top.
const ROUNDS: usize = 7;

/// What a stream of draws belongs to. Equal keys give equal draws; any difference gives an unrelated stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey<'a> {
    /// The user's seed.
    pub seed: u64,
    /// Name of the corruption set.
    pub set: &'a str,
    /// Published name of the corruption.
    pub corruption: &'a str,
    /// Severity in hundredths, so that fractional severities have streams of their own.
    pub severity_hundredths: u32,
    /// Position of the image in its dataset.
    pub image_index: u64,
}

/// A counter-based generator (Philox 4 x 64, 7 rounds): draw `i` of a stream is a function of the key and `i` alone.
#[derive(Clone, Debug)]
pub struct CounterRng {
    key: [u64; 2],
    image_index: u64,
    next_block: u64,
    buffer: [u64; 4 * BLOCKS],
    used: usize,
    ziggurat: &'static Ziggurat,
}

impl CounterRng {
    /// The stream that belongs to `key`.
    pub fn new(key: &StreamKey<'_>) -> Self {
        Self {
            key: Self::key_of(key),
            image_index: key.image_index,
            next_block: 0,
            buffer: [0; 4 * BLOCKS],
            used: 4 * BLOCKS,
            ziggurat: &ZIGGURAT,
        }
    }

    /// The generator's key, which all images of a dataset share.
    pub(crate) fn key_of(key: &StreamKey<'_>) -> [u64; 2] {
        let mut hash = 0;
        for text in [key.set, key.corruption] {
            hash = SplitMix64::mix(hash ^ text.len() as u64);
            for byte in text.bytes() {
                hash = SplitMix64::mix(hash ^ u64::from(byte));
            }
        }
        [key.seed, SplitMix64::mix(hash ^ u64::from(key.severity_hundredths))]
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        if self.used == self.buffer.len() {
            self.refill();
        }
        let bits = self.buffer[self.used];
        self.used += 1;
        bits
    }

    fn refill(&mut self) {
        for (block, words) in (self.next_block..).zip(self.buffer.as_chunks_mut::<4>().0) {
            *words = philox::<ROUNDS>([block, self.image_index, 0, 0], self.key);
        }
        self.next_block += BLOCKS as u64;
        self.used = 0;
    }

    /// A uniform draw from 0 (included) to 1 (excluded), 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A uniform draw from `low` to `high`.
    #[inline]
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A uniform whole number below `bound` (at least 1), without bias.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.bits() as u32) * u64::from(bound);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// A uniform index below `bound` (at least 1 and at most 2^32 - 1).
    pub fn index(&mut self, bound: usize) -> usize {
        self.below(u32::try_from(bound).expect("image sides and table lengths are far below 2^32")) as usize
    }

    /// A standard normal draw (ziggurat with 256 layers, exact up to double precision).
    #[inline]
    pub fn normal(&mut self) -> f64 {
        loop {
            let bits = self.bits();
            let layer = (bits & 255) as usize;
            let signed = (bits >> 11) as f64 * (2.0 / (1_u64 << 53) as f64) - 1.0;
            let x = signed * self.ziggurat.edge[layer];
            if x.abs() < self.ziggurat.edge[layer + 1] {
                return x;
            }
            if let Some(x) = self.normal_outside(layer, x) {
                return x;
            }
        }
    }

    #[cold]
    fn normal_outside(&mut self, layer: usize, x: f64) -> Option<f64> {
        if layer == 0 {
            loop {
                let beyond = -(1.0 - self.uniform()).ln() / TAIL_START;
                let height = -(1.0 - self.uniform()).ln();
                if 2.0 * height >= beyond * beyond {
                    return Some((TAIL_START + beyond).copysign(x));
                }
            }
        }
        let (low, high) = (self.ziggurat.density[layer], self.ziggurat.density[layer + 1]);
        let height = low + (high - low) * self.uniform();
        (height < (-0.5 * x * x).exp()).then_some(x)
    }
}

/// `N` rounds of Philox.
#[inline]
fn philox<const N: usize>(mut counter: [u64; 4], mut key: [u64; 2]) -> [u64; 4] {
    for _ in 0..N {
        let first = u128::from(counter[0]) * 0xd2e7_470e_e14c_6c93;
        let second = u128::from(counter[2]) * 0xca5a_8263_9512_1157;
        counter = [
            (second >> 64) as u64 ^ counter[1] ^ key[0],
            second as u64,
            (first >> 64) as u64 ^ counter[3] ^ key[1],
            first as u64,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9_7f4a_7c15), key[1].wrapping_add(0xbb67_ae85_84ca_a73b)];
    }
    counter
}

/// Where the tail of the 256-layer normal ziggurat starts.
const TAIL_START: f64 = 3.654_152_885_361_009;
/// The area of each layer.
const LAYER_AREA: f64 = 0.004_928_673_233_99;

/// Right edges of the layers and the density there; layer 0 is the base with the tail.
#[derive(Debug)]
struct Ziggurat {
    edge: [f64; 257],
    density: [f64; 257],
}

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let density_at = |x: f64| (-0.5 * x * x).exp();
    let mut edge = [0.0; 257];
    edge[0] = LAYER_AREA / density_at(TAIL_START);
    edge[1] = TAIL_START;
    for layer in 2..256 {
        let above = LAYER_AREA / edge[layer - 1] + density_at(edge[layer - 1]);
        edge[layer] = (-2.0 * above.ln()).sqrt();
    }
    Ziggurat { edge, density: edge.map(density_at) }
});

/// The edges of the layers of normal draws, then the densities there.
pub(crate) fn ziggurat() -> Arc<[f64]> {
    let Ziggurat { edge, density } = &*ZIGGURAT;
    edge.iter().chain(density).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(seed: u64, image_index: u64) -> CounterRng {
        let key = StreamKey { seed, set: "imagenet-c", corruption: "snow", severity_hundredths: 300, image_index };
        CounterRng::new(&key)
    }

    #[test]
    fn philox_gives_its_published_answers() {
        let zeros = [0x1655_4d9e_ca36_314c, 0xdb20_fe9d_672d_0fdc, 0xd7e7_72ce_e186_176b, 0x7e68_b68a_ec7b_a23b];
        assert_eq!(philox::<10>([0; 4], [0; 2]), zeros);
        let ones = [0x87b0_92c3_013f_e90b, 0x438c_3c67_be8d_0224, 0x9cc7_d7c6_9cd7_77b6, 0xa09c_aebf_594f_0ba0];
        assert_eq!(philox::<10>([u64::MAX; 4], [u64::MAX; 2]), ones);
    }

    #[test]
    fn streams_differ_by_every_part_of_the_key() {
        let base = StreamKey { seed: 1, set: "a", corruption: "b", severity_hundredths: 100, image_index: 0 };
        let others = [
            StreamKey { seed: 2, ..base },
            StreamKey { set: "c", ..base },
            StreamKey { corruption: "c", ..base },
            StreamKey { severity_hundredths: 200, ..base },
            StreamKey { image_index: 1, ..base },
        ];
        let first = CounterRng::new(&base).bits();
        for other in others {
            assert_ne!(CounterRng::new(&other).bits(), first, "{other:?}");
        }
        assert_eq!(CounterRng::new(&base).bits(), first);
    }

    #[test]
    fn normal_draws_have_the_right_moments_and_tails() {
        let mut rng = stream(7, 0);
        let count = 400_000;
        let draws: Vec<f64> = (0..count).map(|_| rng.normal()).collect();
        let moment = |power: i32| draws.iter().map(|x| x.powi(power)).sum::<f64>() / f64::from(count);
        // Five standard errors of each estimate: sqrt(1, 2, 15, 96) / sqrt(count).
        let unit = 5.0 / f64::from(count).sqrt();
        assert!(moment(1).abs() < unit);
        assert!((moment(2) - 1.0).abs() < 1.42 * unit);
        assert!(moment(3).abs() < 3.9 * unit);
        assert!((moment(4) - 3.0).abs() < 9.8 * unit);
        for (cut, share) in [(0.5, 0.617_075), (1.0, 0.317_311), (2.0, 0.045_500), (3.0, 0.002_700), (3.7, 0.000_215_6)]
        {
            let found = draws.iter().filter(|x| x.abs() > cut).count() as f64 / f64::from(count);
            let error = (share * (1.0_f64 - share) / f64::from(count)).sqrt();
            assert!((found - share).abs() < 5.0 * error, "beyond {cut}: {found}, expected {share}");
        }
    }

    #[test]
    fn uniform_draws_fill_the_unit_interval_evenly() {
        let mut rng = stream(9, 3);
        let (count, bins) = (100_000, 20);
        let mut histogram = vec![0_i32; bins];
        for _ in 0..count {
            let u = rng.uniform();
            assert!((0.0..1.0).contains(&u));
            histogram[(u * bins as f64) as usize] += 1;
        }
        let expected = count / bins as i32;
        let chi_square: f64 = histogram.iter().map(|&n| f64::from((n - expected).pow(2)) / f64::from(expected)).sum();
        // 19 degrees of freedom: 45.97 is exceeded once in 2000.
        assert!(chi_square < 45.97, "{chi_square}");
    }

    #[test]
    fn whole_numbers_are_unbiased() {
        let mut rng = stream(3, 1);
        let mut histogram = [0_i32; 6];
        for _ in 0..60_000 {
            histogram[rng.below(6) as usize] += 1;
        }
        assert!(histogram.iter().all(|n| (n - 10_000).abs() < 460), "{histogram:?}");
    }
}
