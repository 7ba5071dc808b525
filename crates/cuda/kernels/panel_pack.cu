// The order in which `panel.cuh` keeps weights.
#include "panel.cuh"

// Where the weight of channel `c` of the result and `k` of a source of `slices` slices lies. Rows of a panel are channels in such an
// order that a lane's results are neighbours, words of a row are such that its 16 bytes of the source are those of two steps.
static __device__ __forceinline__ long long packed_at(int c, int k, int slices) {
    constexpr int EACH = WIDTH / 4;
    int block = c % SIDE / (4 * WIDTH), lane = c % (4 * WIDTH) / WIDTH, pair = c % WIDTH / 2;
    int n = (block * (WIDTH / 2) + pair) * 8 + lane * 2 + c % 2;
    int word = k % SLICE / EACH, step = word / 16 * 2 + word % 4 / 2, place = step * 8 + word % 2 * 4 + word % 16 / 4;
    long long panel = (long long)(c / SIDE) * slices + k / SLICE;
    return ((panel * SIDE + n) * 32 + ((place / 4) ^ (n % 8)) * 4 + place % 4) * EACH + k % EACH;
}

static __device__ __forceinline__ void put_factor(element *out, long long at, float x) {
#if FLIPCAST_BF16
    store(out + at, x);
#else
    out[at] = __uint_as_float(to_tf32(x));
#endif
}

// Weights of a convolution, `[outs][ins]`.
extern "C" __global__ void panel_pack(const element *weights, element *out, int ins, int outs) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < ins * outs) {
        put_factor(out, packed_at(at / ins, at % ins, ins / SLICE), load(weights + at));
    }
}

// Columns of the matrix that a block of `panel_pull` multiplies, and its threads.
#define EDGE 16
#define PULLERS (EDGE * EDGE)

// Columns `left` to `left + EDGE` of the weights, times `factor` if there is one.
static __device__ __forceinline__ void take_columns(const element *weights, const float *factor, float *to, int left, int wide, int few) {
    for (int at = threadIdx.x; at < wide * EDGE; at += PULLERS) {
        float x = load(weights + (long long)(at / EDGE) * few + left + at % EDGE);
        to[at] = factor ? factor[at / EDGE] * x : x;
    }
}

// Weights for `narrow_back` from those of a convolution, W of `[wide][few]`, and the tables of the norm above it: slope * W, then
// W' * pull * W in tiles of `EDGE` columns, and W' * constant. The first blocks along y have a tile each, the others scale.
extern "C" __global__ void __launch_bounds__(256) panel_pull(const element *weights, const float *tables, element *out, float *constant,
                                                              int wide, int few) {
    DYNAMIC_SHARED(float, shared);
    const float *slope = tables + SLOPE * wide, *pull = tables + PULL * wide, *constants = tables + CONSTANT * wide;
    int slices = (wide + few) / SLICE, left = blockIdx.x * EDGE, tiles = few / EDGE, i = threadIdx.x % EDGE, j = threadIdx.x / EDGE;
    if (blockIdx.y >= tiles) {
        int step = (gridDim.y - tiles) * EDGE;
        for (int k = (blockIdx.y - tiles) * EDGE + j; k < wide; k += step) {
            put_factor(out, packed_at(left + i, k, slices), slope[k] * load(weights + (long long)k * few + left + i));
        }
        return;
    }
    float *of_result = shared, *of_source = shared + wide * EDGE;
    take_columns(weights, nullptr, of_result, left, wide, few);
    take_columns(weights, pull, of_source, blockIdx.y * EDGE, wide, few);
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 8
    for (int o = 0; o < wide; o++) {
        sum += of_result[o * EDGE + j] * of_source[o * EDGE + i];
    }
    put_factor(out, packed_at(left + j, wide + blockIdx.y * EDGE + i, slices), sum);
    if (blockIdx.y == 0) {
        // Every thread adds up a part of a column; the parts are added in their order.
        sum = 0.0f;
        for (int o = j; o < wide; o += EDGE) {
            sum += constants[o] * of_result[o * EDGE + i];
        }
        __syncthreads();
        of_source[threadIdx.x] = sum;
        __syncthreads();
        if (j == 0) {
            sum = 0.0f;
            for (int part = 0; part < EDGE; part++) {
                sum += of_source[part * EDGE + i];
            }
            constant[left + i] = sum;
        }
    }
}
