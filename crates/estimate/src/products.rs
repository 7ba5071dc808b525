//! Products of narrow matrices, in tiles that stay in registers.

use multiversion::multiversion;

/// Columns of a strip: two registers of eight values or four of four.
pub(crate) const STRIP: usize = 16;

/// Rows of a tile, and tiles that are summed together where there are 32 registers: as many sums as wait for each other.
const TILE_WIDE: (usize, usize) = (4, 2);

/// The same where there are 16 registers.
const TILE: (usize, usize) = (2, 1);

/// One row of a strip: some columns of a matrix, where no load of a register reads from two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct StripRow(pub(crate) [f64; STRIP]);

impl StripRow {
    pub(crate) const ZERO: Self = Self([0.0; STRIP]);
}

/// Whether a product and a sum are one instruction here. Where they are not, `mul_add` is a slow call.
pub(crate) fn has_fused_multiply_add() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// Whether there are 32 registers of eight values. Older machines slow down when they use them.
pub(crate) fn has_wide_registers() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_fused_multiply_add() && std::arch::is_x86_feature_detected!("avx512vbmi2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// `left' right` of two strips with equally many rows.
pub(crate) fn multiply_strips(left: &[StripRow], right: &[StripRow]) -> [StripRow; STRIP] {
    let mut block = [StripRow::ZERO; STRIP];
    if has_wide_registers() {
        multiply_wide(left, right, &mut block);
    } else if has_fused_multiply_add() {
        multiply_fused(left, right, &mut block);
    } else {
        multiply_unfused(left, right, &mut block);
    }
    block
}

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn multiply_wide(left: &[StripRow], right: &[StripRow], block: &mut [StripRow; STRIP]) {
    multiply_tiles::<{ TILE_WIDE.0 }, { TILE_WIDE.1 }>(left, right, block, f64::mul_add);
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn multiply_fused(left: &[StripRow], right: &[StripRow], block: &mut [StripRow; STRIP]) {
    multiply_tiles::<{ TILE.0 }, { TILE.1 }>(left, right, block, f64::mul_add);
}

fn multiply_unfused(left: &[StripRow], right: &[StripRow], block: &mut [StripRow; STRIP]) {
    multiply_tiles::<{ TILE.0 }, { TILE.1 }>(left, right, block, |a, b, sum| a * b + sum);
}

#[inline(always)]
fn multiply_tiles<const ROWS: usize, const TILES: usize>(
    left: &[StripRow],
    right: &[StripRow],
    block: &mut [StripRow; STRIP],
    multiply_add: impl Fn(f64, f64, f64) -> f64 + Copy,
) {
    for (at, rows) in block.chunks_exact_mut(ROWS * TILES).enumerate() {
        let mut sums = [[[0.0; STRIP]; ROWS]; TILES];
        for (StripRow(a), StripRow(b)) in left.iter().zip(right) {
            let a = &a.as_chunks::<ROWS>().0[at * TILES..][..TILES];
            for (sums, a) in sums.iter_mut().zip(a) {
                add_tile(sums, a, b, multiply_add);
            }
        }
        rows.iter_mut().zip(sums.as_flattened()).for_each(|(row, sums)| row.0 = *sums);
    }
}

/// Adds one row's products. The sums of a tile stay in registers as long as compilers unroll both loops, which they do for a small one.
#[inline(always)]
fn add_tile<const ROWS: usize>(
    sums: &mut [[f64; STRIP]; ROWS],
    a: &[f64; ROWS],
    b: &[f64; STRIP],
    multiply_add: impl Fn(f64, f64, f64) -> f64,
) {
    for row in 0..ROWS {
        for column in 0..STRIP {
            sums[row][column] = multiply_add(a[row], b[column], sums[row][column]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn blocks_are_sums_of_products_fused_or_not() {
        let mut random = SplitMix64::new(3);
        for depth in [0, 1, 7, 130] {
            let mut strip = || (0..depth).map(|_| StripRow([(); STRIP].map(|()| random.normal()))).collect::<Vec<_>>();
            let (left, right) = (strip(), strip());
            let found = multiply_strips(&left, &right);
            let mut unfused = [StripRow::ZERO; STRIP];
            multiply_unfused(&left, &right, &mut unfused);
            for (i, j) in (0..STRIP).flat_map(|i| (0..STRIP).map(move |j| (i, j))) {
                let expected: f64 = left.iter().zip(&right).map(|(a, b)| a.0[i] * b.0[j]).sum();
                assert!((found[i].0[j] - expected).abs() < 1e-12 && (unfused[i].0[j] - expected).abs() < 1e-12);
            }
        }
    }
}
