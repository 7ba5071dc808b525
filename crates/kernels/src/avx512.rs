//! Sixteen lanes on x86-64 with AVX-512.

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::lanes::{Lanes, Task, WIDEST, one_instruction};
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    /// The mask of the first `count` lanes.
    #[inline(always)]
    fn first(count: usize) -> __mmask16 {
        ((1u32 << count) - 1) as __mmask16
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    #[inline(never)]
    unsafe fn enter<T: Task>(task: T) -> T::Output {
        // SAFETY: this function is compiled for the features `Avx512` needs.
        unsafe { task.run::<Avx512>() }
    }

    // SAFETY (all blocks): the trait's contract gives the instruction set and valid pointers; loads and stores are the
    // unaligned forms but for `stream`, whose caller aligned `to`, and the masked ones touch only the lanes of their mask.
    impl Lanes for Avx512 {
        const N: usize = 16;
        const TILE_ROWS: usize = 14;
        type V = __m512;

        #[inline(always)]
        unsafe fn vectorize<T: Task>(task: T) -> T::Output {
            // SAFETY: the caller vouches for the instruction set.
            unsafe { enter(task) }
        }
        one_instruction! {
            splat(x: f32) -> __m512 = _mm512_set1_ps;
            load(from: *const f32) -> __m512 = _mm512_loadu_ps;
            store(to: *mut f32, v: __m512) = _mm512_storeu_ps;
            stream(to: *mut f32, v: __m512) = _mm512_stream_ps;
            fence() = _mm_sfence;
            add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps;
            sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps;
            mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps;
            div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps;
            sqrt(a: __m512) -> __m512 = _mm512_sqrt_ps;
            fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps;
            max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps;
            min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps;
            sum(a: __m512) -> f32 = _mm512_reduce_add_ps;
            largest(a: __m512) -> f32 = _mm512_reduce_max_ps;
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
        unsafe fn load_part(from: *const f32, count: usize) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_maskz_loadu_ps(first(count), from) }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, count: usize, v: __m512) {
            // SAFETY: see the impl.
            unsafe { _mm512_mask_storeu_ps(to, first(count), v) }
        }
        #[inline(always)]
        unsafe fn load_bytes(from: *const u8) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn select_gt(a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), no, yes) }
        }
        #[inline(always)]
        unsafe fn bits_gt(a: __m512, b: __m512) -> u32 {
            // SAFETY: see the impl.
            unsafe { u32::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b)) }
        }
        #[inline(always)]
        unsafe fn keep(bits: u32, v: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_maskz_mov_ps(bits as __mmask16, v) }
        }
        #[inline(always)]
        unsafe fn round(a: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_roundscale_ps::<0>(a) }
        }
        #[inline(always)]
        unsafe fn pow2(k: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe {
                let biased = _mm512_add_epi32(_mm512_cvtps_epi32(k), _mm512_set1_epi32(127));
                _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
            }
        }
        #[inline(always)]
        unsafe fn transpose(rows: &mut [__m512; WIDEST]) {
            // SAFETY: see the impl.
            unsafe {
                // Four rows at a time: quarter `l` of vector `j` becomes their column `4 l + j`.
                for four in rows.chunks_exact_mut(4) {
                    let low = [0, 2].map(|i| _mm512_unpacklo_ps(four[i], four[i + 1]));
                    let high = [0, 2].map(|i| _mm512_unpackhi_ps(four[i], four[i + 1]));
                    for (to, [a, b]) in [low, high].into_iter().enumerate() {
                        let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
                        four[2 * to] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                        four[2 * to + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
                    }
                }
                // Then quarters: even ones by `0x88`, odd ones by `0xdd`, twice.
                for j in 0..4 {
                    let [a, b, c, d] = [rows[j], rows[4 + j], rows[8 + j], rows[12 + j]];
                    let even = [_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0x88>(c, d)];
                    let odd = [_mm512_shuffle_f32x4::<0xdd>(a, b), _mm512_shuffle_f32x4::<0xdd>(c, d)];
                    rows[j] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
                    rows[4 + j] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
                    rows[8 + j] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
                    rows[12 + j] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Avx512;
