//! The accurate integer 8 x 8 DCT and its inverse (Loeffler, Ligtenberg and Moschytz), 13-bit constants.
//!
//! `N` blocks lie side by side, one per lane, column by column: `blocks[8 * column + row][lane]`.

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

/// The DCT of samples, scaled by 8. The level shift by 128 only moves the mean, so that is where it is made.
#[inline(always)]
pub fn forward<const N: usize>(blocks: &mut [[i32; N]; 64]) {
    for row in 0..8 {
        let line = forward_pass::<N, { BITS - EXTRA }>(row_of(blocks, row), |sum| sum << EXTRA);
        set_row(blocks, row, line);
    }
    for column in blocks.as_chunks_mut::<8>().0 {
        *column = forward_pass::<N, { BITS + EXTRA }>(*column, |sum| (sum + 2) >> EXTRA);
    }
    blocks[0] = blocks[0].map(|mean| mean - 64 * 128);
}

/// The samples of dequantised coefficients, not yet clipped. The level shift back is made on the mean.
#[inline(always)]
pub fn inverse<const N: usize>(blocks: &mut [[i32; N]; 64]) {
    blocks[0] = blocks[0].map(|mean| mean + 8 * 128);
    let mut columns = 0;
    for (i, column) in blocks.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let rows = lines_used(column);
        if rows > 0 {
            columns = i + 1;
            *column = inverse_line::<N, { BITS - EXTRA }>(*column, rows);
        }
    }
    for row in 0..8 {
        let line = inverse_line::<N, { BITS + EXTRA + 3 }>(row_of(blocks, row), columns);
        set_row(blocks, row, line);
    }
}

/// 0, 1, 4 or 8: all lines from there on are zero.
#[inline(always)]
fn lines_used<const N: usize>(lines: &[[i32; N]; 8]) -> usize {
    let any = |lines: &[[i32; N]]| lines.as_flattened().iter().fold(0, |any, v| any | v) != 0;
    if any(&lines[4..]) {
        8
    } else if any(&lines[1..4]) {
        4
    } else {
        usize::from(any(&lines[..1]))
    }
}

/// [`inverse_pass`], where lines from `used` on are zero. Most are, and their arithmetic is left out.
#[inline(always)]
fn inverse_line<const N: usize, const SHIFT: i32>(lines: [[i32; N]; 8], used: usize) -> [[i32; N]; 8] {
    let [a, b, c, d, ..] = lines;
    let none = [0; N];
    match used {
        0 | 1 => inverse_pass::<N, SHIFT>([a, none, none, none, none, none, none, none]),
        2..=4 => inverse_pass::<N, SHIFT>([a, b, c, d, none, none, none, none]),
        _ => inverse_pass::<N, SHIFT>(lines),
    }
}

#[inline(always)]
fn row_of<const N: usize>(blocks: &[[i32; N]; 64], row: usize) -> [[i32; N]; 8] {
    std::array::from_fn(|column| blocks[8 * column + row])
}

#[inline(always)]
fn set_row<const N: usize>(blocks: &mut [[i32; N]; 64], row: usize, line: [[i32; N]; 8]) {
    for (column, lanes) in line.into_iter().enumerate() {
        blocks[8 * column + row] = lanes;
    }
}

#[inline(always)]
fn forward_pass<const N: usize, const SHIFT: i32>(
    mut lines: [[i32; N]; 8],
    plain: impl Fn(i32) -> i32,
) -> [[i32; N]; 8] {
    // Enters every sum that is shifted, so that the shift rounds.
    let half = 1 << (SHIFT - 1);
    for k in 0..N {
        let d: [i32; 8] = std::array::from_fn(|i| lines[i][k]);
        let (s0, s1, s2, s3) = (d[0] + d[7], d[1] + d[6], d[2] + d[5], d[3] + d[4]);
        let (t7, t6, t5, t4) = (d[0] - d[7], d[1] - d[6], d[2] - d[5], d[3] - d[4]);
        let (e0, e3, e1, e2) = (s0 + s3, s0 - s3, s1 + s2, s1 - s2);
        lines[0][k] = plain(e0 + e1);
        lines[4][k] = plain(e0 - e1);
        let z = (e2 + e3) * C0_541196100 + half;
        lines[2][k] = (z + e3 * C0_765366865) >> SHIFT;
        lines[6][k] = (z - e2 * C1_847759065) >> SHIFT;
        let z5 = (t4 + t6 + t5 + t7) * C1_175875602 + half;
        let z1 = (t4 + t7) * -C0_899976223;
        let z2 = (t5 + t6) * -C2_562915447;
        let z3 = (t4 + t6) * -C1_961570560 + z5;
        let z4 = (t5 + t7) * -C0_390180644 + z5;
        lines[7][k] = (t4 * C0_298631336 + z1 + z3) >> SHIFT;
        lines[5][k] = (t5 * C2_053119869 + z2 + z4) >> SHIFT;
        lines[3][k] = (t6 * C3_072711026 + z2 + z3) >> SHIFT;
        lines[1][k] = (t7 * C1_501321110 + z1 + z4) >> SHIFT;
    }
    lines
}

#[inline(always)]
fn inverse_pass<const N: usize, const SHIFT: i32>(mut lines: [[i32; N]; 8]) -> [[i32; N]; 8] {
    let half = 1 << (SHIFT - 1);
    for k in 0..N {
        let d: [i32; 8] = std::array::from_fn(|i| lines[i][k]);
        let z = (d[2] + d[6]) * C0_541196100;
        let (low, high) = (z - d[6] * C1_847759065, z + d[2] * C0_765366865);
        let sum = ((d[0] + d[4]) << BITS) + half;
        let difference = ((d[0] - d[4]) << BITS) + half;
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
        lines[0][k] = (e0 + o3) >> SHIFT;
        lines[7][k] = (e0 - o3) >> SHIFT;
        lines[1][k] = (e1 + o2) >> SHIFT;
        lines[6][k] = (e1 - o2) >> SHIFT;
        lines[2][k] = (e2 + o1) >> SHIFT;
        lines[5][k] = (e2 - o1) >> SHIFT;
        lines[3][k] = (e3 + o0) >> SHIFT;
        lines[4][k] = (e3 - o0) >> SHIFT;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_block_has_only_a_mean() {
        let mut block = [[91]; 64];
        forward(&mut block);
        assert_eq!(block[0], [-37 * 64]);
        assert!(block[1..].iter().all(|&v| v == [0]));
    }

    #[test]
    fn a_mean_alone_gives_a_flat_block() {
        for mean in -1100..1100 {
            let mut block = [[0]; 64];
            block[0] = [mean];
            inverse(&mut block);
            assert_eq!(block, [[((mean + 4) >> 3) + 128]; 64]);
        }
    }

    #[test]
    fn inverse_undoes_forward_in_every_lane() {
        let source: [[i32; 3]; 64] =
            std::array::from_fn(|i| std::array::from_fn(|lane| ((i + 5 * lane) as i32 * 89 + 7) % 256));
        let mut blocks = source;
        forward(&mut blocks);
        for value in blocks.as_flattened_mut() {
            *value = (*value + value.signum() * 4) / 8;
        }
        inverse(&mut blocks);
        for (a, b) in source.as_flattened().iter().zip(blocks.as_flattened()) {
            assert!((a - b).abs() <= 1, "{a} came back as {b}");
        }
    }
}
