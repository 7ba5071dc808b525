//! Eight lanes on x86-64 with AVX2 and FMA.

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::lanes::{Lanes, Task, WIDEST, one_instruction};
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    /// All ones in the first `count` lanes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn first(count: usize) -> __m256i {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lane)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline(never)]
    unsafe fn enter<T: Task>(task: T) -> T::Output {
        // SAFETY: this function is compiled for the features `Avx2` needs.
        unsafe { task.run::<Avx2>() }
    }

    // SAFETY (all blocks): the trait's contract gives the instruction set and valid pointers; loads and stores are the
    // unaligned forms but for `stream`, whose caller aligned `to`, and the masked ones touch only the lanes of their mask.
    impl Lanes for Avx2 {
        const N: usize = 8;
        const TILE_ROWS: usize = 6;
        type V = __m256;

        #[inline(always)]
        unsafe fn vectorize<T: Task>(task: T) -> T::Output {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { enter(task) }
        }
        one_instruction! {
            splat(x: f32) -> __m256 = _mm256_set1_ps;
            load(from: *const f32) -> __m256 = _mm256_loadu_ps;
            store(to: *mut f32, v: __m256) = _mm256_storeu_ps;
            stream(to: *mut f32, v: __m256) = _mm256_stream_ps;
            fence() = _mm_sfence;
            add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps;
            sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps;
            mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps;
            div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps;
            sqrt(a: __m256) -> __m256 = _mm256_sqrt_ps;
            fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps;
            max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps;
            min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps;
        }
        #[inline(always)]
        unsafe fn prefetch(at: *const f32) {
            // SAFETY: part of every x86-64; a prefetch never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn prefetch_far(at: *const f32) {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_maskload_ps(from, first(count)) }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, count: usize, v: __m256) {
            // SAFETY: see the impl.
            unsafe { _mm256_maskstore_ps(to, first(count), v) }
        }
        #[inline(always)]
        unsafe fn load_bytes(from: *const u8) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn select_gt(a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) }
        }
        #[inline(always)]
        unsafe fn bits_gt(a: __m256, b: __m256) -> u32 {
            // SAFETY: see the impl.
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) as u32 }
        }
        #[inline(always)]
        unsafe fn keep(bits: u32, v: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe {
                let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
                let set = _mm256_and_si256(_mm256_set1_epi32(bits as i32), lane);
                _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)))
            }
        }
        #[inline(always)]
        unsafe fn round(a: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
        }
        #[inline(always)]
        unsafe fn pow2(k: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(k), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            }
        }
        #[inline(always)]
        unsafe fn sum(a: __m256) -> f32 {
            // SAFETY: see the impl.
            unsafe {
                let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps::<1>(quarter, quarter)))
            }
        }
        #[inline(always)]
        unsafe fn largest(a: __m256) -> f32 {
            // SAFETY: see the impl.
            unsafe {
                let half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                let quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_max_ss(quarter, _mm_shuffle_ps::<1>(quarter, quarter)))
            }
        }
        #[inline(always)]
        unsafe fn transpose(rows: &mut [__m256; WIDEST]) {
            // SAFETY: see the impl.
            unsafe {
                // Four rows at a time: quarter `l` of vector `j` becomes their column `4 l + j`.
                for four in rows[..8].chunks_exact_mut(4) {
                    let low = [0, 2].map(|i| _mm256_unpacklo_ps(four[i], four[i + 1]));
                    let high = [0, 2].map(|i| _mm256_unpackhi_ps(four[i], four[i + 1]));
                    for (to, [a, b]) in [low, high].into_iter().enumerate() {
                        let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
                        four[2 * to] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
                        four[2 * to + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
                    }
                }
                for j in 0..4 {
                    let (a, b) = (rows[j], rows[4 + j]);
                    rows[j] = _mm256_permute2f128_ps::<0x20>(a, b);
                    rows[4 + j] = _mm256_permute2f128_ps::<0x31>(a, b);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Avx2;
