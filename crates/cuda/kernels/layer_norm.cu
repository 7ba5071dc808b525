// Layer norm: every token by its own channels. A warp has a token and keeps it in registers.
//
// Mean and variance are found again in the backward pass: the token is read there anyway, so keeping them would only add
// bytes.
#include "element.cuh"
#include "shared.cuh"
#include "warp.cuh"

// A warp's token: lane `l` holds the vectors `l, l + 32, ..` of WIDTH channels, zeros beyond the end.
template <int RUNS>
struct token {
    float at[RUNS][WIDTH];
};

template <int RUNS>
static __device__ __forceinline__ token<RUNS> load_token(const element *from, int channels, int lane) {
    token<RUNS> out;
#pragma unroll
    for (int r = 0; r < RUNS; r++) {
        int c = (r * 32 + lane) * WIDTH;
        if (c < channels) {
            lanes raw = load_lanes(from + c);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) out.at[r][i] = raw.at[i];
        } else {
#pragma unroll
            for (int i = 0; i < WIDTH; i++) out.at[r][i] = 0.0f;
        }
    }
    return out;
}

static __device__ __forceinline__ void load_table(const float *from, float (&to)[WIDTH]) {
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) {
        words raw = *reinterpret_cast<const words *>(from + i);
#pragma unroll
        for (int j = 0; j < 4; j++) to[i + j] = __uint_as_float(raw.at[j]);
    }
}

// Makes a token's channels `(x - mean) / sqrt(variance + eps)`, zeros beyond the end; gives the reciprocal root.
template <int RUNS>
static __device__ __forceinline__ float normalise(token<RUNS> &x, int channels, int lane, float eps) {
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < RUNS; r++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum += x.at[r][i];
    float mean = warp_sum(sum) / channels, squares = 0.0f;
#pragma unroll
    for (int r = 0; r < RUNS; r++) {
        bool inside = (r * 32 + lane) * WIDTH < channels;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            x.at[r][i] = inside ? x.at[r][i] - mean : 0.0f;
            squares = fmaf(x.at[r][i], x.at[r][i], squares);
        }
    }
    float inverse = 1.0f / sqrtf(warp_sum(squares) / channels + eps);
#pragma unroll
    for (int r = 0; r < RUNS; r++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++) x.at[r][i] *= inverse;
    return inverse;
}

template <int RUNS>
static __device__ __forceinline__ void forward(const element *values, const float *scale, const float *shift, element *out,
                                               int tokens, int channels, float eps) {
    int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (int t = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; t < tokens; t += warps) {
        token<RUNS> x = load_token<RUNS>(values + (long long)t * channels, channels, lane);
        normalise<RUNS>(x, channels, lane, eps);
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            int c = (r * 32 + lane) * WIDTH;
            if (c < channels) {
                float factor[WIDTH], term[WIDTH];
                load_table(scale + c, factor);
                load_table(shift + c, term);
                lanes y;
#pragma unroll
                for (int i = 0; i < WIDTH; i++) y.at[i] = fmaf(x.at[r][i], factor[i], term[i]);
                store_lanes(out + (long long)t * channels + c, y);
            }
        }
    }
}

// Mean and reciprocal root of a token of any length, read twice.
static __device__ __forceinline__ void moments(const element *from, int channels, int lane, float eps, float &mean,
                                               float &inverse) {
    float sum = 0.0f, squares = 0.0f;
    for (int c = lane; c < channels; c += 32) sum += load(from + c);
    mean = warp_sum(sum) / channels;
    for (int c = lane; c < channels; c += 32) {
        float d = load(from + c) - mean;
        squares = fmaf(d, d, squares);
    }
    inverse = 1.0f / sqrtf(warp_sum(squares) / channels + eps);
}

// `runs` vectors per lane, of 32 channels together at most; 0 for tokens of any length, one channel at a time.
extern "C" __global__ void __launch_bounds__(256)
layer_norm(const element *values, const float *scale, const float *shift, element *out, int tokens, int channels, float eps,
           int runs) {
    switch (runs) {
        case 1: forward<1>(values, scale, shift, out, tokens, channels, eps); return;
        case 2: forward<2>(values, scale, shift, out, tokens, channels, eps); return;
        case 4: forward<4>(values, scale, shift, out, tokens, channels, eps); return;
#if !FLIPCAST_BF16
        case 8: forward<8>(values, scale, shift, out, tokens, channels, eps); return;
#endif
    }
    int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (int t = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; t < tokens; t += warps) {
        const element *from = values + (long long)t * channels;
        float mean, inverse;
        moments(from, channels, lane, eps, mean, inverse);
        for (int c = lane; c < channels; c += 32) {
            store(out + (long long)t * channels + c, fmaf((load(from + c) - mean) * inverse, scale[c], shift[c]));
        }
    }
}

template <int RUNS>
static __device__ __forceinline__ void backward(const element *values, const element *gradient, const float *scale,
                                                element *target, float *partials, int tokens, int channels, float eps,
                                                int add) {
    DYNAMIC_SHARED(float, sums);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    token<RUNS> of_shift, of_scale;
#pragma unroll
    for (int r = 0; r < RUNS; r++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++) of_shift.at[r][i] = of_scale.at[r][i] = 0.0f;
    for (int t = blockIdx.x * warps + warp; t < tokens; t += gridDim.x * warps) {
        token<RUNS> x = load_token<RUNS>(values + (long long)t * channels, channels, lane);
        token<RUNS> g = load_token<RUNS>(gradient + (long long)t * channels, channels, lane);
        float inverse = normalise<RUNS>(x, channels, lane, eps), total = 0.0f, along = 0.0f;
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            int c = (r * 32 + lane) * WIDTH;
            if (c < channels) {
                float factor[WIDTH];
                load_table(scale + c, factor);
#pragma unroll
                for (int i = 0; i < WIDTH; i++) {
                    of_shift.at[r][i] += g.at[r][i];
                    of_scale.at[r][i] = fmaf(g.at[r][i], x.at[r][i], of_scale.at[r][i]);
                    g.at[r][i] *= factor[i];
                    total += g.at[r][i];
                    along = fmaf(g.at[r][i], x.at[r][i], along);
                }
            }
        }
        if (target == nullptr) continue;
        total = -warp_sum(total) / channels;
        along = -warp_sum(along) / channels;
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            int c = (r * 32 + lane) * WIDTH;
            if (c < channels) {
                element *to = target + (long long)t * channels + c;
                lanes d;
#pragma unroll
                for (int i = 0; i < WIDTH; i++) d.at[i] = inverse * (fmaf(along, x.at[r][i], total) + g.at[r][i]);
                if (add) {
                    lanes before = load_lanes(to);
#pragma unroll
                    for (int i = 0; i < WIDTH; i++) d.at[i] += before.at[i];
                }
                store_lanes(to, d);
            }
        }
    }
    // Warp after warp, so that the order of the sum does not depend on timing.
    for (int turn = 0; turn < warps; turn++) {
        if (turn == warp) {
#pragma unroll
            for (int r = 0; r < RUNS; r++) {
                int c = (r * 32 + lane) * WIDTH;
                if (c < channels) {
#pragma unroll
                    for (int i = 0; i < WIDTH; i++) {
                        sums[c + i] = of_scale.at[r][i] + (turn > 0 ? sums[c + i] : 0.0f);
                        sums[channels + c + i] = of_shift.at[r][i] + (turn > 0 ? sums[channels + c + i] : 0.0f);
                    }
                }
            }
        }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < 2 * channels; c += blockDim.x) partials[(long long)blockIdx.x * 2 * channels + c] = sums[c];
}

// The gradient of the input, if `target` is not null, and a row of partial gradients of scale and shift per block. `runs` as in
// `layer_norm`; with 0 a block is one warp, and shared memory holds `2 * channels` floats in any case.
extern "C" __global__ void __launch_bounds__(128)
layer_norm_backward(const element *values, const element *gradient, const float *scale, element *target, float *partials,
                    int tokens, int channels, float eps, int add, int runs) {
    switch (runs) {
        case 1: backward<1>(values, gradient, scale, target, partials, tokens, channels, eps, add); return;
        case 2: backward<2>(values, gradient, scale, target, partials, tokens, channels, eps, add); return;
        case 4: backward<4>(values, gradient, scale, target, partials, tokens, channels, eps, add); return;
#if !FLIPCAST_BF16
        case 8: backward<8>(values, gradient, scale, target, partials, tokens, channels, eps, add); return;
#endif
    }
    DYNAMIC_SHARED(float, sums);
    int lane = threadIdx.x;
    for (int c = lane; c < 2 * channels; c += 32) sums[c] = 0.0f;
    for (int t = blockIdx.x; t < tokens; t += gridDim.x) {
        const element *from = values + (long long)t * channels, *slopes = gradient + (long long)t * channels;
        float mean, inverse, total = 0.0f, along = 0.0f;
        moments(from, channels, lane, eps, mean, inverse);
        for (int c = lane; c < channels; c += 32) {
            float x = (load(from + c) - mean) * inverse, g = load(slopes + c);
            sums[c] = fmaf(g, x, sums[c]);
            sums[channels + c] += g;
            total = fmaf(g, scale[c], total);
            along = fmaf(g * scale[c], x, along);
        }
        if (target == nullptr) continue;
        total = -warp_sum(total) / channels;
        along = -warp_sum(along) / channels;
        for (int c = lane; c < channels; c += 32) {
            float x = (load(from + c) - mean) * inverse;
            element *to = target + (long long)t * channels + c;
            float d = inverse * (fmaf(along, x, total) + load(slopes + c) * scale[c]);
            store(to, d + (add ? load(to) : 0.0f));
        }
    }
    for (int c = lane; c < 2 * channels; c += 32) partials[(long long)blockIdx.x * 2 * channels + c] = sums[c];
}

// Column sums of `[rows, columns]` in a fixed order. Blocks are 32 x 8 threads.
extern "C" __global__ void __launch_bounds__(256)
sum_rows(const float *partials, float *out, int rows, int columns) {
    __shared__ float sums[8][32];
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (column < columns) {
        for (int row = threadIdx.y; row < rows; row += 8) sum += partials[(long long)row * columns + column];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        for (int i = 1; i < 8; i++) sum += sums[i][threadIdx.x];
        out[column] = sum;
    }
}
