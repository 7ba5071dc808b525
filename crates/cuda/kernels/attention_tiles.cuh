// Tiles of a unit's tokens for tensor cores: copies to shared memory, fragments, and their products.
//
// Rows in shared memory are 16 bytes longer than a head: eight rows of 16 bytes then fall on different banks, and so do the four
// pairs of rows that a transposed 32-bit load takes.
#pragma once

#include "attention.cuh"
#include "mma.cuh"

// Words of the left factor's fragment for 16 columns.
#if FLIPCAST_BF16
constexpr int A_WORDS = 4;
#else
constexpr int A_WORDS = 8;
#endif
// Elements between the end of a row in shared memory and the next.
constexpr int PAD = WIDTH;
constexpr int TILE = 16;

template <int D>
struct Rows {
    unsigned at[D / 16][A_WORDS];
};

// Begins to copy a part of all tokens of the group to rows of `D + PAD`; zeros up to a whole number of tiles.
template <int D>
static __device__ __forceinline__ void fill(element *to, const Unit &unit, const element *from, int part, int rows) {
    constexpr int PIECES = D / WIDTH;
    for (int i = threadIdx.x; i < rows * PIECES; i += blockDim.x) {
        int row = i / PIECES, c = i % PIECES * WIDTH;
        bool inside = row < unit.layer.group;
        long long at = !inside ? 0 : part < 0 ? unit.result(row) : unit.part(part, row);
        copy_async(to + row * (D + PAD) + c, from + at + c, inside);
    }
}

// Rounds what this thread copied to what the units multiply; brain floats are that already.
template <int D>
static __device__ __forceinline__ void round_copied(element *to, int rows) {
#if !FLIPCAST_BF16
    constexpr int PIECES = D / WIDTH;
    for (int i = threadIdx.x; i < rows * PIECES; i += blockDim.x) {
        element *piece = to + i / PIECES * (D + PAD) + i % PIECES * WIDTH;
        lanes x = load_lanes(piece);
#pragma unroll
        for (int j = 0; j < WIDTH; j++) x.at[j] = __uint_as_float(to_tf32(x.at[j]));
        store_lanes(piece, x);
    }
#endif
}

// Rows `g` and `g + 8` of a left factor, straight from device memory.
template <int D>
static __device__ __forceinline__ void load_rows(Rows<D> &rows, const element *low, const element *high, int t) {
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
#if FLIPCAST_BF16
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const element *row = i % 2 == 0 ? low : high;
            rows.at[k][i] = *reinterpret_cast<const unsigned *>(row + 16 * k + 8 * (i / 2) + 2 * t);
        }
#else
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const element *row = i % 2 == 0 ? low : high;
            rows.at[k][i] = to_tf32(row[16 * k + 4 * (i / 2) + t]);
        }
#endif
    }
}

// Two accumulators, 16 columns, as a left factor. For 32-bit floats column `2 t + i` of an accumulator takes the place of
// column `t + 4 i`: `times_rows` reads the rows it is multiplied with in the same order.
static __device__ __forceinline__ void as_left(unsigned (&a)[A_WORDS], const float (&first)[4], const float (&second)[4]) {
#if FLIPCAST_BF16
    a[0] = pack_brain(first[0], first[1]);
    a[1] = pack_brain(first[2], first[3]);
    a[2] = pack_brain(second[0], second[1]);
    a[3] = pack_brain(second[2], second[3]);
#else
    a[0] = to_tf32(first[0]), a[1] = to_tf32(first[2]), a[2] = to_tf32(first[1]), a[3] = to_tf32(first[3]);
    a[4] = to_tf32(second[0]), a[5] = to_tf32(second[2]), a[6] = to_tf32(second[1]), a[7] = to_tf32(second[3]);
#endif
}

// `c += left * rows'` for eight rows of shared memory: 16 x 8 products over the channels.
template <int D>
static __device__ __forceinline__ void times_transposed(float (&c)[4], const Rows<D> &left, const element *rows, int lane) {
    const element *row = rows + lane % 8 * (D + PAD) + lane / 8 * (16 / sizeof(element));
#if FLIPCAST_BF16
#pragma unroll
    for (int k = 0; k < D / 16; k += 2) {
        unsigned b[4];
        load_matrices(b, row + 16 * k);
        mma_bf16_16x8x16(c, left.at[k], b[0], b[1]);
        mma_bf16_16x8x16(c, left.at[k + 1], b[2], b[3]);
    }
#else
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        unsigned b[4];
        load_matrices(b, row + 16 * k);
        const unsigned(&a)[8] = left.at[k];
        mma_tf32_16x8x8(c, {a[0], a[1], a[2], a[3]}, b[0], b[1]);
        mma_tf32_16x8x8(c, {a[4], a[5], a[6], a[7]}, b[2], b[3]);
    }
#endif
}

// `c += left * rows` for 16 rows of shared memory: 16 x D products over the rows.
template <int D>
static __device__ __forceinline__ void times_rows(float (&c)[D / 8][4], const unsigned (&left)[A_WORDS], const element *rows,
                                                  int lane) {
#if FLIPCAST_BF16
    const element *row = rows + lane % 16 * (D + PAD) + lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
        unsigned b[4];
        load_matrices_transposed(b, row + 8 * n);
        mma_bf16_16x8x16(c[n], left, b[0], b[1]);
        mma_bf16_16x8x16(c[n + 1], left, b[2], b[3]);
    }
#else
    const element *row = rows + lane % 4 * 2 * (D + PAD) + lane / 4;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            unsigned low = __float_as_uint(row[8 * k * (D + PAD) + 8 * n]);
            unsigned high = __float_as_uint(row[(8 * k + 1) * (D + PAD) + 8 * n]);
            mma_tf32_16x8x8(c[n], {left[4 * k], left[4 * k + 1], left[4 * k + 2], left[4 * k + 3]}, low, high);
        }
    }
#endif
}

// Writes row `g` or `g + 8` of accumulators, `half` 0 or 1.
template <int D>
static __device__ __forceinline__ void write(element *to, const float (&c)[D / 8][4], int half, float factor, int t, int add) {
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        element *at = to + 8 * n + 2 * t;
        float first = c[n][2 * half] * factor, second = c[n][2 * half + 1] * factor;
        if (add) first += load(at), second += load(at + 1);
#if FLIPCAST_BF16
        *reinterpret_cast<unsigned *>(at) = pack_brain(first, second);
#else
        *reinterpret_cast<float2 *>(at) = make_float2(first, second);
#endif
    }
}

template <int D>
static __device__ __forceinline__ void clear(float (&c)[D / 8][4]) {
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) c[n][i] = 0.0f;
}

// Over the four lanes of a row.
static __device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

static __device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
