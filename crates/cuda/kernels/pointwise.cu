// A pointwise convolution that normalises what it reads and gathers the statistics of what it writes.
//
//   out[row][k] = sum over ins of activate(scale * values + shift)[row][in] * weights[k][in]
#include "pointwise.cuh"

// What is read; without a scale it is taken as it is before the activation.
struct source {
    const element *values;
    const float *scale, *shift;
    int activation;
};

static __device__ __forceinline__ void fetch(const element *values, words (&to)[A_PIECES], int top, int start, int rows, int ins) {
    int column = start + threadIdx.x % A_GROUPS * WIDTH;
#pragma unroll
    for (int i = 0; i < A_PIECES; i++) {
        int row = top + threadIdx.x / A_GROUPS + i * A_STEP;
        if (row < rows) {
            to[i] = *reinterpret_cast<const words *>(values + (long long)row * ins + column);
        }
    }
}

// Normalises a slice, into shared memory.
static __device__ __forceinline__ void place(const source &from, const words (&of)[A_PIECES], element *to, int top, int start, int rows) {
    int group = threadIdx.x % A_GROUPS * WIDTH, c = start + group;
    float low = lower_bound(from.activation), high = upper_bound(from.activation);
    pack<WIDTH> scale = filled<WIDTH>(1.0f), shift = filled<WIDTH>(0.0f);
    if (from.scale) {
        scale = load_floats<WIDTH>(from.scale + c);
        shift = load_floats<WIDTH>(from.shift + c);
    }
#pragma unroll
    for (int i = 0; i < A_PIECES; i++) {
        int row = threadIdx.x / A_GROUPS + i * A_STEP;
        lanes made;
        if (top + row < rows) {
            lanes x = unpack(of[i]);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                made.at[j] = clamp(scale.at[j] * x.at[j] + shift.at[j], low, high);
#if !FLIPCAST_BF16
                made.at[j] = __uint_as_float(to_tf32(made.at[j]));
#endif
            }
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                made.at[j] = 0.0f;
            }
        }
        store_lanes(to + row * A_STRIDE + group, made);
    }
}

// Begins to copy a slice of the weights of `BN` outs, in rows of `A_STRIDE`.
template <int BN>
static __device__ __forceinline__ void copy_weights(const element *weights, element *to, int left, int start, int ins) {
#pragma unroll
    for (int at = threadIdx.x; at < BN * A_GROUPS; at += BLOCK) {
        int row = at / A_GROUPS, column = at % A_GROUPS * WIDTH;
        copy_async(to + row * A_STRIDE + column, weights + (long long)(left + row) * ins + start + column, true);
    }
}

// Adds the product of two slices; the second has a row per column of the result.
template <int BN>
static __device__ __forceinline__ void multiply(const element *a, const element *b, float (&sum)[2][BN / 16][4]) {
    int lane = threadIdx.x % 32, left = threadIdx.x / 128 * (BN / 2);
    constexpr int STRIDE = A_STRIDE * sizeof(element) / 4, STEP = 32 / sizeof(element);
#pragma unroll
    for (int k = 0; k < BK; k += STEP) {
        unsigned rows[2][4];
        load_rows(a, k, rows);
        const unsigned *of = reinterpret_cast<const unsigned *>(b) + (left + lane / 4) * STRIDE + k * sizeof(element) / 4 + lane % 4;
#pragma unroll
        for (int n = 0; n < BN / 16; n++) {
            const unsigned *at = of + n * 8 * STRIDE;
#pragma unroll
            for (int m = 0; m < 2; m++) {
#if FLIPCAST_BF16
                mma_bf16_16x8x16(sum[m][n], rows[m], at[0], at[4]);
#else
                mma_tf32_16x8x8(sum[m][n], rows[m], at[0], at[4]);
#endif
            }
        }
    }
}

// As it is stored.
static __device__ __forceinline__ float as_stored(float x) {
#if FLIPCAST_BF16
    return from_brain(to_brain(x));
#else
    return x;
#endif
}

// Writes the tile in shared memory, and per column its mean and the sum of squared distances from that, shifted by the first
// row so that nothing cancels.
template <int BN>
static __device__ __forceinline__ void finish(element *out, float *partial, float *counts, float *tile, int top, int left, int rows, int outs) {
    constexpr int PACKS = BN / 8, STEP = BLOCK / PACKS;
    int column = threadIdx.x % PACKS * 8;
    int count = rows - top < BM ? rows - top : BM;
    pack<8> origin = load_tile(tile + column), sum = filled<8>(0.0f), square = sum;
    float first = as_stored(threadIdx.x < BN ? tile[threadIdx.x] : 0.0f);
#pragma unroll 2
    for (int row = threadIdx.x / PACKS; row < count; row += STEP) {
        pack<8> x = load_tile(tile + row * B_STRIDE + column);
        store_pack<8>(out + (long long)(top + row) * outs + left + column, x);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float d = as_stored(x.at[i]) - as_stored(origin.at[i]);
            sum.at[i] += d;
            square.at[i] += d * d;
        }
    }
    float all = over_rows<BN>(sum, tile), squares = over_rows<BN>(square, tile);
    if (threadIdx.x < BN) {
        long long at = (long long)blockIdx.y * outs + left + threadIdx.x;
        float mean = all / (float)count;
        partial[at] = first + mean;
        partial[(long long)gridDim.y * outs + at] = squares - all * mean;
    }
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        counts[blockIdx.y] = (float)count;
    }
}

template <int BN>
static __device__ __forceinline__ void pointwise(const source &from, const element *weights, element *out, float *partial, float *counts,
                                                 int rows, int ins, int outs) {
    DYNAMIC_SHARED(element, shared);
    constexpr int OF_A = BM * A_STRIDE, STAGE = OF_A + BN * A_STRIDE;
    int left = blockIdx.x * BN, top = blockIdx.y * BM;
    float sum[2][BN / 16][4];
#pragma unroll
    for (int i = 0; i < 2 * (BN / 16) * 4; i++) {
        sum[i / 4 / (BN / 16)][i / 4 % (BN / 16)][i % 4] = 0.0f;
    }
    words next[A_PIECES];
    fetch(from.values, next, top, 0, rows, ins);
    copy_weights<BN>(weights, shared + OF_A, left, 0, ins);
    place(from, next, shared, top, 0, rows);
    wait_for_copies();
    __syncthreads();
    for (int start = 0, stage = 0; start < ins; start += BK, stage ^= 1) {
        element *here = shared + stage * STAGE, *there = shared + (stage ^ 1) * STAGE;
        bool more = start + BK < ins;
        if (more) {
            fetch(from.values, next, top, start + BK, rows, ins);
            copy_weights<BN>(weights, there + OF_A, left, start + BK, ins);
        }
        multiply<BN>(here, here + OF_A, sum);
        if (more) {
            place(from, next, there, top, start + BK, rows);
        }
        wait_for_copies();
        __syncthreads();
    }
    float *tile = reinterpret_cast<float *>(shared);
    put_tile<BN>(sum, tile);
    finish<BN>(out, partial, counts, tile, top, left, rows, outs);
}

#define ARGUMENTS                                                                                                          \
    const element *values, const float *scale, const float *shift, int activation, const element *weights, element *out,   \
        float *partial, float *counts, int rows, int ins, int outs

extern "C" __global__ void __launch_bounds__(256, 2) pointwise_128(ARGUMENTS) {
    pointwise<128>(source{values, scale, shift, activation}, weights, out, partial, counts, rows, ins, outs);
}

extern "C" __global__ void __launch_bounds__(256, 2) pointwise_64(ARGUMENTS) {
    pointwise<64>(source{values, scale, shift, activation}, weights, out, partial, counts, rows, ins, outs);
}
