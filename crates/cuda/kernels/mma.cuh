// Products of small matrices on tensor cores, and the loads that feed them. Each instruction has one function here, and a
// plain twin for the host that follows the documented layout of its fragments: with `g = lane / 4` and `t = lane % 4`,
//
//   accumulator 16 x 8   c[0], c[1]: row g, columns 2t, 2t + 1; c[2], c[3]: row g + 8
//   A of m16n8k16, bf16  a[0]: row g, columns 2t, 2t + 1; a[1]: row g + 8; a[2], a[3]: columns 2t + 8, 2t + 9
//   B of m16n8k16, bf16  b[0]: rows 2t, 2t + 1 of column g; b[1]: rows 2t + 8, 2t + 9
//   A of m16n8k8, tf32   a[0]: row g, column t; a[1]: row g + 8; a[2], a[3]: column t + 4
//   B of m16n8k8, tf32   b[0]: row t of column g; b[1]: row t + 4
#pragma once

#include "element.cuh"

#if defined(__CUDA_ARCH__)

static __device__ __forceinline__ void mma_bf16_16x8x16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void mma_tf32_16x8x8(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of eight rows of 16 bytes in shared memory; lane `8 i + r` gives the address of row `r` of matrix `i`.
// Lane `l` gets word `l % 4` of row `l / 4` of each.
static __device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void *row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// As `load_matrices` with every matrix of 8 x 8 half words transposed.
static __device__ __forceinline__ void load_matrices_transposed(unsigned (&to)[4], const void *row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// Begins to copy 16 bytes to shared memory; zeros if `valid` is false, and then `from` is not read.
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool valid) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

// Waits for the copies this thread began.
static __device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The nearest number with ten bits of mantissa.
static __device__ __forceinline__ unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// Two floats as brain floats in one word, the first in the low half.
static __device__ __forceinline__ unsigned pack_brain(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

static __device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

struct Fragments {
    unsigned a[4], b[2];
};

static inline void mma_bf16_16x8x16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulator::show(Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}});
    for (int i = 0; i < 4; i++) {
        unsigned row = emulator::lane() / 4 + i / 2 * 8, column = emulator::lane() % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; k++) {
            unsigned word_a = emulator::shown<Fragments>(row % 8 * 4 + k % 8 / 2).a[row / 8 + k / 8 * 2];
            unsigned word_b = emulator::shown<Fragments>(column * 4 + k % 8 / 2).b[k / 8];
            c[i] += from_brain(word_a >> k % 2 * 16 & 0xffffu) * from_brain(word_b >> k % 2 * 16 & 0xffffu);
        }
    }
}

static inline void mma_tf32_16x8x8(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulator::show(Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}});
    for (int i = 0; i < 4; i++) {
        unsigned row = emulator::lane() / 4 + i / 2 * 8, column = emulator::lane() % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 8; k++) {
            unsigned of_a = emulator::shown<Fragments>(row % 8 * 4 + k % 4).a[row / 8 + k / 4 * 2];
            unsigned of_b = emulator::shown<Fragments>(column * 4 + k % 4).b[k / 4];
            // The units read the upper 19 bits.
            c[i] += __uint_as_float(of_a & 0xffffe000u) * __uint_as_float(of_b & 0xffffe000u);
        }
    }
}

static inline void load_matrices(unsigned (&to)[4], const void *row) {
    emulator::show(row);
    unsigned lane = emulator::lane();
    for (unsigned i = 0; i < 4; i++) {
        const void *from = emulator::shown<const void *>(8 * i + lane / 4);
        memcpy(&to[i], static_cast<const char *>(from) + 4 * (lane % 4), 4);
    }
}

static inline void load_matrices_transposed(unsigned (&to)[4], const void *row) {
    emulator::show(row);
    unsigned lane = emulator::lane();
    for (unsigned i = 0; i < 4; i++) {
        unsigned short halves[2];
        for (unsigned j = 0; j < 2; j++) {
            const void *from = emulator::shown<const void *>(8 * i + lane % 4 * 2 + j);
            memcpy(&halves[j], static_cast<const char *>(from) + 2 * (lane / 4), 2);
        }
        to[i] = halves[0] | static_cast<unsigned>(halves[1]) << 16;
    }
}

static inline void copy_async(void *to, const void *from, bool valid) {
    if (valid) {
        *static_cast<words *>(to) = *static_cast<const words *>(from);
    } else {
        memset(to, 0, 16);
    }
}

static inline void wait_for_copies() {}

static inline unsigned to_tf32(float x) {
    unsigned bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

static inline unsigned pack_brain(float low, float high) { return to_brain(low) | to_brain(high) << 16; }

static inline float exp2_fast(float x) { return exp2f(x); }

#endif
