// Self-attention of any head width up to 128 with 32-bit products: `softmax(scale * q k' + bias + mask) v`.
//
// A block has 32 tokens of a unit, four per warp, and walks over the unit's tokens 32 at a time, which lie in shared memory. A
// lane has a token of the walk while scores are made, and every 32nd channel while they are used. Nothing of tokens x tokens is
// kept: the forward pass leaves the logarithm of every softmax's sum, and the backward passes make the scores again.
#include "attention.cuh"
#include "shared.cuh"
#include "warp.cuh"

constexpr int BLOCK = 32;
constexpr int ROWS = 4;
constexpr int SLOTS = 4;

// Copies the same part of 32 tokens to rows of `stride` floats, zeros beyond the group.
static __device__ __forceinline__ void fill(float *to, int stride, const Unit &unit, const element *from, int part, int first) {
    int width = unit.layer.head_channels;
    for (int i = threadIdx.x; i < BLOCK * width; i += blockDim.x) {
        int row = i / width, c = i % width, token = first + row;
        float x = 0.0f;
        if (token < unit.layer.group) {
            x = load(from + (part < 0 ? unit.result(token) : unit.part(part, token)) + c);
        }
        to[row * stride + c] = x;
    }
}

// The products of this warp's rows of `own` with the row of `walk` of this lane.
static __device__ __forceinline__ void products(float (&sum)[ROWS], const float *own, const float *walk, int width) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = 0.0f;
    for (int c = 0; c < width; c++) {
        float x = walk[c];
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum[r] = fmaf(own[r * width + c], x, sum[r]);
    }
}

// Adds the rows of `walk` to this lane's channels, each with the factor that its lane holds.
static __device__ __forceinline__ void mix(float (&sum)[ROWS][SLOTS], const float (&factor)[ROWS], const float *walk,
                                           int width, int lane) {
    for (int j = 0; j < BLOCK; j++) {
        float of[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) of[r] = __shfl_sync(ALL_LANES, factor[r], j);
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            int c = lane + 32 * s;
            if (c < width) {
                float x = walk[j * (width + 1) + c];
#pragma unroll
                for (int r = 0; r < ROWS; r++) sum[r][s] = fmaf(of[r], x, sum[r][s]);
            }
        }
    }
}

static __device__ __forceinline__ void write(element *to, const float (&row)[SLOTS], float factor, int width, int lane, int add) {
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        int c = lane + 32 * s;
        if (c < width) store(to + c, row[s] * factor + (add ? load(to + c) : 0.0f));
    }
}

static __device__ __forceinline__ void clear(float (&sum)[ROWS][SLOTS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < SLOTS; s++) sum[r][s] = 0.0f;
}

// `kept` receives a second copy of the result and `log_sums` one number per token and head, both for the backward pass; either
// may be null.
extern "C" __global__ void __launch_bounds__(256)
attention_forward(const element *values, const unsigned *order, const float *bias, const unsigned char *regions, element *out,
                  element *kept, float *log_sums, int tokens, int group, int groups, int heads, int head_channels, float scale) {
    DYNAMIC_SHARED(float, shared);
    Unit unit({order, bias, regions, tokens, group, groups, heads, head_channels, scale}, blockIdx.x);
    int lane = threadIdx.x % 32, width = head_channels, first = blockIdx.y * BLOCK, mine = threadIdx.x / 32 * ROWS;
    float *queries = shared, *keys = queries + BLOCK * width, *weighted = keys + BLOCK * (width + 1);
    fill(queries, width, unit, values, QUERY, first);
    float largest[ROWS], total[ROWS], sum[ROWS][SLOTS];
    clear(sum);
#pragma unroll
    for (int r = 0; r < ROWS; r++) largest[r] = MINUS_INFINITY, total[r] = 0.0f;
    for (int start = 0; start < group; start += BLOCK) {
        __syncthreads();
        fill(keys, width + 1, unit, values, KEY, start);
        fill(weighted, width + 1, unit, values, VALUE, start);
        __syncthreads();
        float score[ROWS];
        int key = start + lane;
        products(score, queries + mine * width, keys + lane * (width + 1), width);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int query = first + mine + r;
            bool inside = key < group && query < group;
            float extra = inside ? unit.extra(query, key) : 0.0f;
            float s = key < group ? fmaf(score[r], scale * LOG2_E, extra) : MINUS_INFINITY;
            float high = fmaxf(largest[r], warp_max(s)), shrink = exp2f(largest[r] - high);
            score[r] = exp2f(s - high);
            total[r] = fmaf(total[r], shrink, warp_sum(score[r]));
            largest[r] = high;
#pragma unroll
            for (int i = 0; i < SLOTS; i++) sum[r][i] *= shrink;
        }
        mix(sum, score, weighted, width, lane);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int query = first + mine + r;
        if (query >= group) continue;
        write(out + unit.result(query), sum[r], 1.0f / total[r], width, lane, 0);
        if (kept != nullptr) write(kept + unit.result(query), sum[r], 1.0f / total[r], width, lane, 0);
        if (log_sums != nullptr && lane == 0) {
            log_sums[(long long)blockIdx.x * group + query] = largest[r] + log2f(total[r]);
        }
    }
}

// The gradient of the queries, and in `pulls` the product of every token's result with its gradient.
extern "C" __global__ void __launch_bounds__(256)
attention_backward_queries(const element *values, const unsigned *order, const float *bias, const unsigned char *regions,
                           const element *kept, const element *gradient, const float *log_sums, float *pulls, element *target,
                           int tokens, int group, int groups, int heads, int head_channels, float scale, int add) {
    DYNAMIC_SHARED(float, shared);
    Unit unit({order, bias, regions, tokens, group, groups, heads, head_channels, scale}, blockIdx.x);
    int lane = threadIdx.x % 32, width = head_channels, first = blockIdx.y * BLOCK, mine = threadIdx.x / 32 * ROWS;
    float *queries = shared, *slopes = queries + BLOCK * width, *keys = slopes + BLOCK * width;
    float *weighted = keys + BLOCK * (width + 1);
    fill(queries, width, unit, values, QUERY, first);
    fill(slopes, width, unit, gradient, -1, first);
    __syncthreads();
    float log_sum[ROWS], pull[ROWS], sum[ROWS][SLOTS];
    clear(sum);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int query = first + mine + r;
        float part = 0.0f;
        if (query < group) {
            for (int c = lane; c < width; c += 32) {
                part = fmaf(load(kept + unit.result(query) + c), slopes[(mine + r) * width + c], part);
            }
        }
        pull[r] = warp_sum(part);
        log_sum[r] = query < group ? log_sums[(long long)blockIdx.x * group + query] : 0.0f;
        if (query < group && lane == 0) pulls[(long long)blockIdx.x * group + query] = pull[r];
    }
    for (int start = 0; start < group; start += BLOCK) {
        __syncthreads();
        fill(keys, width + 1, unit, values, KEY, start);
        fill(weighted, width + 1, unit, values, VALUE, start);
        __syncthreads();
        float score[ROWS], slope[ROWS];
        int key = start + lane;
        products(score, queries + mine * width, keys + lane * (width + 1), width);
        products(slope, slopes + mine * width, weighted + lane * (width + 1), width);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int query = first + mine + r;
            bool inside = key < group && query < group;
            float extra = inside ? unit.extra(query, key) : 0.0f;
            float prob = inside ? exp2f(fmaf(score[r], scale * LOG2_E, extra) - log_sum[r]) : 0.0f;
            slope[r] = prob * (slope[r] - pull[r]);
        }
        mix(sum, slope, keys, width, lane);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int query = first + mine + r;
        if (query < group) write(target + unit.part(QUERY, query), sum[r], scale, width, lane, add);
    }
}

// The gradients of the keys and of what they weight.
extern "C" __global__ void __launch_bounds__(256)
attention_backward_keys(const element *values, const unsigned *order, const float *bias, const unsigned char *regions,
                        const element *gradient, const float *log_sums, const float *pulls, element *target, int tokens,
                        int group, int groups, int heads, int head_channels, float scale, int add) {
    DYNAMIC_SHARED(float, shared);
    Unit unit({order, bias, regions, tokens, group, groups, heads, head_channels, scale}, blockIdx.x);
    int lane = threadIdx.x % 32, width = head_channels, first = blockIdx.y * BLOCK, mine = threadIdx.x / 32 * ROWS;
    float *keys = shared, *weighted = keys + BLOCK * width, *queries = weighted + BLOCK * width;
    float *slopes = queries + BLOCK * (width + 1);
    fill(keys, width, unit, values, KEY, first);
    fill(weighted, width, unit, values, VALUE, first);
    float of_keys[ROWS][SLOTS], of_weighted[ROWS][SLOTS];
    clear(of_keys);
    clear(of_weighted);
    for (int start = 0; start < group; start += BLOCK) {
        __syncthreads();
        fill(queries, width + 1, unit, values, QUERY, start);
        fill(slopes, width + 1, unit, gradient, -1, start);
        __syncthreads();
        int query = start + lane;
        long long row = (long long)blockIdx.x * group + query;
        float log_sum = query < group ? log_sums[row] : 0.0f, pull = query < group ? pulls[row] : 0.0f;
        float prob[ROWS], slope[ROWS];
        products(prob, keys + mine * width, queries + lane * (width + 1), width);
        products(slope, weighted + mine * width, slopes + lane * (width + 1), width);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int key = first + mine + r;
            bool inside = key < group && query < group;
            float extra = inside ? unit.extra(query, key) : 0.0f;
            prob[r] = inside ? exp2f(fmaf(prob[r], scale * LOG2_E, extra) - log_sum) : 0.0f;
            slope[r] = prob[r] * (slope[r] - pull);
        }
        mix(of_weighted, prob, slopes, width, lane);
        mix(of_keys, slope, queries, width, lane);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int key = first + mine + r;
        if (key >= group) continue;
        write(target + unit.part(KEY, key), of_keys[r], scale, width, lane, add);
        write(target + unit.part(VALUE, key), of_weighted[r], 1.0f, width, lane, add);
    }
}
