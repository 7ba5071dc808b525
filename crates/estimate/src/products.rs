//! Products of narrow matrices, in tiles that stay in registers.

use multiversion::multiversion;

/// Columns of a strip: three registers of four values, of which four rows fill twelve of sixteen registers.
pub(crate) const STRIP: usize = 12;

/// Rows of a tile.
const TILE: usize = 4;

/// One row of a strip: some columns of a matrix, stored together.
pub(crate) type StripRow = [f64; STRIP];

/// Whether a product and a sum are one instruction here. Where they are not, `mul_add` is a slow call.
pub(crate) fn has_fused_multiply_add() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// `left' right` of two strips with equally many rows.
pub(crate) fn multiply_strips(left: &[StripRow], right: &[StripRow]) -> [StripRow; STRIP] {
    let mut block = [[0.0; STRIP]; STRIP];
    if has_fused_multiply_add() {
        multiply_fused(left, right, &mut block);
    } else {
        multiply_unfused(left, right, &mut block);
    }
    block
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn multiply_fused(left: &[StripRow], right: &[StripRow], block: &mut [StripRow; STRIP]) {
    multiply_tiles(left, right, block, f64::mul_add);
}

fn multiply_unfused(left: &[StripRow], right: &[StripRow], block: &mut [StripRow; STRIP]) {
    multiply_tiles(left, right, block, |a, b, sum| a * b + sum);
}

#[inline(always)]
fn multiply_tiles(
    left: &[StripRow],
    right: &[StripRow],
    block: &mut [StripRow; STRIP],
    multiply_add: impl Fn(f64, f64, f64) -> f64,
) {
    for (at, rows) in block.chunks_exact_mut(TILE).enumerate() {
        let mut sums = [[0.0; STRIP]; TILE];
        for (a, b) in left.iter().zip(right) {
            for row in 0..TILE {
                for column in 0..STRIP {
                    sums[row][column] = multiply_add(a[at * TILE + row], b[column], sums[row][column]);
                }
            }
        }
        rows.copy_from_slice(&sums);
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
            let mut strip = || (0..depth).map(|_| [(); STRIP].map(|()| random.normal())).collect::<Vec<StripRow>>();
            let (left, right) = (strip(), strip());
            let found = multiply_strips(&left, &right);
            let mut unfused = [[0.0; STRIP]; STRIP];
            multiply_unfused(&left, &right, &mut unfused);
            for (i, j) in (0..STRIP).flat_map(|i| (0..STRIP).map(move |j| (i, j))) {
                let expected: f64 = left.iter().zip(&right).map(|(a, b)| a[i] * b[j]).sum();
                assert!((found[i][j] - expected).abs() < 1e-12 && (unfused[i][j] - expected).abs() < 1e-12);
            }
        }
    }
}
