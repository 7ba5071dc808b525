//! The accurate integer 8 x 8 DCT and its inverse (Loeffler, Ligtenberg and Moschytz), 13-bit constants.
//!
//! Both passes work on eight lines at once, one line per lane.

/// Eight lines, one value each.
type Lanes = [i32; 8];

const BITS: i32 = 13;
const EXTRA: i32 = 2;

// The rotations of the flow graph in 1/8192; each name is the value.
const C0_298631336: i32 = 2446;
const C0_390180644: i32 = 3196;
const C0_541196100: i32 = 4433;
const C0_765366865: i32 = 6270;
const C0_899976223: i32 = 7373;
const C1_175875602: i32 = 9633;
const C1_501321110: i32 = 12299;
const C1_847759065: i32 = 15137;
const C1_961570560: i32 = 16069;
const C2_053119869: i32 = 16819;
const C2_562915447: i32 = 20995;
const C3_072711026: i32 = 25172;

/// The DCT of `block` (row by row, level-shifted samples), scaled by 8.
#[inline]
pub fn forward(block: &mut [i32; 64]) {
    let mut lines = transpose(block);
    forward_pass::<{ BITS - EXTRA }>(&mut lines, |sum| sum << EXTRA);
    let mut lines = transpose(lines.as_flattened().try_into().expect("8 x 8"));
    forward_pass::<{ BITS + EXTRA }>(&mut lines, descale::<EXTRA>);
    block.copy_from_slice(lines.as_flattened());
}

/// The samples (before the level shift back) of a block of dequantised coefficients.
#[inline]
pub fn inverse(block: &mut [i32; 64]) {
    let mut lines = [[0; 8]; 8];
    lines.as_flattened_mut().copy_from_slice(block);
    inverse_pass::<{ BITS - EXTRA }>(&mut lines);
    let mut lines = transpose(lines.as_flattened().try_into().expect("8 x 8"));
    inverse_pass::<{ BITS + EXTRA + 3 }>(&mut lines);
    *block = *transpose(lines.as_flattened().try_into().expect("8 x 8"))
        .as_flattened()
        .first_chunk()
        .expect("8 x 8");
}

#[inline]
fn transpose(block: &[i32; 64]) -> [Lanes; 8] {
    std::array::from_fn(|i| std::array::from_fn(|j| block[8 * j + i]))
}

#[inline]
fn descale<const SHIFT: i32>(value: i32) -> i32 {
    (value + (1 << (SHIFT - 1))) >> SHIFT
}

#[inline]
fn forward_pass<const SHIFT: i32>(lines: &mut [Lanes; 8], plain: impl Fn(i32) -> i32) {
    for k in 0..8 {
        let d: [i32; 8] = std::array::from_fn(|i| lines[i][k]);
        let (s0, s1, s2, s3) = (d[0] + d[7], d[1] + d[6], d[2] + d[5], d[3] + d[4]);
        let (t7, t6, t5, t4) = (d[0] - d[7], d[1] - d[6], d[2] - d[5], d[3] - d[4]);
        let (e0, e3, e1, e2) = (s0 + s3, s0 - s3, s1 + s2, s1 - s2);
        lines[0][k] = plain(e0 + e1);
        lines[4][k] = plain(e0 - e1);
        let z = (e2 + e3) * C0_541196100;
        lines[2][k] = descale::<SHIFT>(z + e3 * C0_765366865);
        lines[6][k] = descale::<SHIFT>(z - e2 * C1_847759065);
        let z5 = (t4 + t6 + t5 + t7) * C1_175875602;
        let z1 = (t4 + t7) * -C0_899976223;
        let z2 = (t5 + t6) * -C2_562915447;
        let z3 = (t4 + t6) * -C1_961570560 + z5;
        let z4 = (t5 + t7) * -C0_390180644 + z5;
        lines[7][k] = descale::<SHIFT>(t4 * C0_298631336 + z1 + z3);
        lines[5][k] = descale::<SHIFT>(t5 * C2_053119869 + z2 + z4);
        lines[3][k] = descale::<SHIFT>(t6 * C3_072711026 + z2 + z3);
        lines[1][k] = descale::<SHIFT>(t7 * C1_501321110 + z1 + z4);
    }
}

#[inline]
fn inverse_pass<const SHIFT: i32>(lines: &mut [Lanes; 8]) {
    for k in 0..8 {
        let d: [i32; 8] = std::array::from_fn(|i| lines[i][k]);
        let z = (d[2] + d[6]) * C0_541196100;
        let (low, high) = (z - d[6] * C1_847759065, z + d[2] * C0_765366865);
        let (sum, difference) = ((d[0] + d[4]) << BITS, (d[0] - d[4]) << BITS);
        let (e0, e3, e1, e2) = (sum + high, sum - high, difference + low, difference - low);
        let z5 = (d[7] + d[3] + d[5] + d[1]) * C1_175875602;
        let z1 = (d[7] + d[1]) * -C0_899976223;
        let z2 = (d[5] + d[3]) * -C2_562915447;
        let z3 = (d[7] + d[3]) * -C1_961570560 + z5;
        let z4 = (d[5] + d[1]) * -C0_390180644 + z5;
        let o0 = d[7] * C0_298631336 + z1 + z3;
        let o1 = d[5] * C2_053119869 + z2 + z4;
        let o2 = d[3] * C3_072711026 + z2 + z3;
        let o3 = d[1] * C1_501321110 + z1 + z4;
        lines[0][k] = descale::<SHIFT>(e0 + o3);
        lines[7][k] = descale::<SHIFT>(e0 - o3);
        lines[1][k] = descale::<SHIFT>(e1 + o2);
        lines[6][k] = descale::<SHIFT>(e1 - o2);
        lines[2][k] = descale::<SHIFT>(e2 + o1);
        lines[5][k] = descale::<SHIFT>(e2 - o1);
        lines[3][k] = descale::<SHIFT>(e3 + o0);
        lines[4][k] = descale::<SHIFT>(e3 - o0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_block_has_only_a_mean() {
        let mut block = [-37; 64];
        forward(&mut block);
        assert_eq!(block[0], -37 * 64);
        assert!(block[1..].iter().all(|&v| v == 0));
    }

    #[test]
    fn a_mean_alone_gives_a_flat_block() {
        for mean in -1100..1100 {
            let mut block = [0; 64];
            block[0] = mean;
            inverse(&mut block);
            assert_eq!(block, [(mean + 4) >> 3; 64]);
        }
    }

    #[test]
    fn inverse_undoes_forward() {
        let source: [i32; 64] = std::array::from_fn(|i| (i as i32 * 89 + 7) % 256 - 128);
        let mut block = source;
        forward(&mut block);
        block
            .iter_mut()
            .for_each(|v| *v = (*v + v.signum() * 4) / 8);
        inverse(&mut block);
        for (a, b) in source.iter().zip(&block) {
            assert!((a - b).abs() <= 1, "{a} came back as {b}");
        }
    }
}
