// Self-attention on tensor cores, for heads of 32 or 64 channels: brain floats, or 32-bit floats with products of ten bits of
// mantissa.
//
// A block has a unit. The two tensors that every token is compared with lie in shared memory as a whole; a warp takes 16 of
// the other side's tokens at a time and keeps them, and what it makes of them, in registers. So a pass has one barrier, and
// no sum crosses warps. As in attention.cu the backward passes make the scores again, once from the side of the queries
// and once from that of the keys.
#include "attention_tiles.cuh"
#include "shared.cuh"

// Warps of a block are as many as a multiprocessor has schedulers. Blocks to leave registers for: as many as the shared memory
// of a ViT's heads of 64 leaves room for, and as many as hide latencies for the small groups of heads of 32.
constexpr int THREADS = 128;
constexpr int BLOCKS_64 = FLIPCAST_BF16 ? 3 : 2;
constexpr int BLOCKS_32 = 4;
// Keys whose scores are held at once in the forward pass.
constexpr int CHUNK = 64;

// What is added to the scores of this thread's two rows: nothing, a bias, or a bias and the mask between regions. Which of
// them is known when the kernel is compiled, so that the loops have no branches.
enum Extra : int { NOTHING = 0, BIAS = 1, BIAS_AND_MASK = 2 };

template <int EXTRA>
static __device__ __forceinline__ float extra(const Unit &unit, int query, int key) {
    if constexpr (EXTRA == NOTHING) {
        return 0.0f;
    } else {
        // Tokens that are not there take the numbers of the last one; nothing comes of their scores.
        int last = unit.layer.group - 1;
        query = min(query, last), key = min(key, last);
        float sum = unit.layer.bias[((long long)unit.head * unit.layer.group + query) * unit.layer.group + key];
        if constexpr (EXTRA == BIAS_AND_MASK) {
            const unsigned char *regions = unit.layer.regions + unit.group * unit.layer.group;
            sum += regions[query] == regions[key] ? 0.0f : MASK;
        }
        return sum * LOG2_E;
    }
}

// The sums of 16 softmaxes on their way: the largest score so far, in units of `1 / factor`, and what was added up.
template <int D>
struct Softmaxes {
    float sum[D / 8][4], largest[2], total[2];
};

// Takes the keys from `start` on into the softmaxes. With `MASKED` some of them may lie beyond the group.
template <int D, int EXTRA, int KEYS, bool MASKED>
static __device__ __forceinline__ void take_keys(Softmaxes<D> &to, const Unit &unit, const Rows<D> &queries, int query,
                                                 const element *keys, const element *weighted, int start, int lane) {
    int t = lane % 4;
    float scale = unit.layer.scale * LOG2_E, factor = EXTRA == NOTHING ? scale : 1.0f;
    float score[KEYS / 8][4] = {}, high[2] = {to.largest[0], to.largest[1]};
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
        times_transposed<D>(score[n], queries, keys + (start + 8 * n) * (D + PAD), lane);
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = start + 8 * n + 2 * t + i % 2;
            if constexpr (EXTRA != NOTHING) {
                score[n][i] = fmaf(score[n][i], scale, extra<EXTRA>(unit, query + i / 2 * 8, key));
            }
            if (MASKED) score[n][i] = key < unit.layer.group ? score[n][i] : MINUS_INFINITY;
            high[i / 2] = fmaxf(high[i / 2], score[n][i]);
        }
    float offset[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        high[h] = row_max(high[h]);
        float shrink = exp2_fast((to.largest[h] - high[h]) * factor);
        to.largest[h] = high[h];
        to.total[h] *= shrink;
        offset[h] = -high[h] * factor;
#pragma unroll
        for (int n = 0; n < D / 8; n++) to.sum[n][2 * h] *= shrink, to.sum[n][2 * h + 1] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            score[n][i] = exp2_fast(fmaf(score[n][i], factor, offset[i / 2]));
            to.total[i / 2] += score[n][i];
        }
#pragma unroll
    for (int k = 0; k < KEYS / TILE; k++) {
        unsigned left[A_WORDS];
        as_left(left, score[2 * k], score[2 * k + 1]);
        times_rows<D>(to.sum, left, weighted + (start + TILE * k) * (D + PAD), lane);
    }
}

template <int D, int EXTRA>
static __device__ __forceinline__ void forward(const Unit &unit, const element *values, element *out, element *kept,
                                               float *log_sums) {
    DYNAMIC_SHARED(element, shared);
    int group = unit.layer.group, rows = (group + TILE - 1) / TILE * TILE, lane = threadIdx.x % 32, t = lane % 4;
    element *keys = shared, *weighted = keys + rows * (D + PAD);
    fill<D>(keys, unit, values, KEY, rows);
    fill<D>(weighted, unit, values, VALUE, rows);
    wait_for_copies();
    round_copied<D>(keys, rows);
    round_copied<D>(weighted, rows);
    __syncthreads();
    float factor = EXTRA == NOTHING ? unit.layer.scale * LOG2_E : 1.0f;
    for (int tile = threadIdx.x / 32 * TILE; tile < rows; tile += blockDim.x / 32 * TILE) {
        int query = tile + lane / 4, last = group - 1;
        // A row beyond the group is computed from the last token and not written.
        Rows<D> queries;
        load_rows<D>(queries, values + unit.part(QUERY, min(query, last)), values + unit.part(QUERY, min(query + 8, last)), t);
        Softmaxes<D> to;
        clear<D>(to.sum);
        to.largest[0] = to.largest[1] = MINUS_INFINITY;
        to.total[0] = to.total[1] = 0.0f;
        int start = 0;
        for (; start + CHUNK <= group; start += CHUNK) {
            take_keys<D, EXTRA, CHUNK, false>(to, unit, queries, query, keys, weighted, start, lane);
        }
        for (; start < rows; start += TILE) {
            take_keys<D, EXTRA, TILE, true>(to, unit, queries, query, keys, weighted, start, lane);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float total = row_sum(to.total[h]);
            if (query + 8 * h >= group) continue;
            write<D>(out + unit.result(query + 8 * h), to.sum, h, 1.0f / total, t, 0);
            if (kept != nullptr) write<D>(kept + unit.result(query + 8 * h), to.sum, h, 1.0f / total, t, 0);
            if (log_sums != nullptr && t == 0) {
                log_sums[(long long)blockIdx.x * group + query + 8 * h] = fmaf(to.largest[h], factor, log2f(total));
            }
        }
    }
}

template <int D, int EXTRA>
static __device__ __forceinline__ void backward_queries(const Unit &unit, const element *values, const element *kept,
                                                        const element *gradient, const float *log_sums, float *pulls,
                                                        element *target, int add) {
    DYNAMIC_SHARED(element, shared);
    int group = unit.layer.group, rows = (group + TILE - 1) / TILE * TILE, lane = threadIdx.x % 32, t = lane % 4;
    element *keys = shared, *weighted = keys + rows * (D + PAD);
    fill<D>(keys, unit, values, KEY, rows);
    fill<D>(weighted, unit, values, VALUE, rows);
    wait_for_copies();
    round_copied<D>(keys, rows);
    round_copied<D>(weighted, rows);
    __syncthreads();
    float factor = unit.layer.scale * LOG2_E;
    for (int tile = threadIdx.x / 32 * TILE; tile < rows; tile += blockDim.x / 32 * TILE) {
        int query = tile + lane / 4;
        const element *from[2], *above[2];
        float log_sum[2], pull[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int row = min(query + 8 * h, group - 1);
            from[h] = values + unit.part(QUERY, row);
            above[h] = gradient + unit.result(row);
            log_sum[h] = log_sums[(long long)blockIdx.x * group + row];
            const element *result = kept + unit.result(row);
            float part = 0.0f;
#pragma unroll
            for (int n = 0; n < D / 8; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int c = 8 * n + 2 * t + i;
                    part = fmaf(load(result + c), load(above[h] + c), part);
                }
            pull[h] = row_sum(part);
            if (query + 8 * h < group && t == 0) pulls[(long long)blockIdx.x * group + row] = pull[h];
        }
        Rows<D> queries, slopes;
        load_rows<D>(queries, from[0], from[1], t);
        load_rows<D>(slopes, above[0], above[1], t);
        float sum[D / 8][4];
        clear<D>(sum);
        for (int start = 0; start < rows; start += TILE) {
            float score[2][4] = {}, slope[2][4] = {};
#pragma unroll
            for (int n = 0; n < 2; n++) {
                times_transposed<D>(score[n], queries, keys + (start + 8 * n) * (D + PAD), lane);
                times_transposed<D>(slope[n], slopes, weighted + (start + 8 * n) * (D + PAD), lane);
            }
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int key = start + 8 * n + 2 * t + i % 2;
                    float s = fmaf(score[n][i], factor, -log_sum[i / 2]) + extra<EXTRA>(unit, query + i / 2 * 8, key);
                    // No share is above 1. Keys that are not there are zeros, so theirs only have to be finite.
                    slope[n][i] = exp2_fast(fminf(s, 0.0f)) * (slope[n][i] - pull[i / 2]);
                }
            unsigned left[A_WORDS];
            as_left(left, slope[0], slope[1]);
            times_rows<D>(sum, left, keys + start * (D + PAD), lane);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (query + 8 * h >= group) continue;
            write<D>(target + unit.part(QUERY, query + 8 * h), sum, h, unit.layer.scale, t, add);
        }
    }
}

template <int D, int EXTRA>
static __device__ __forceinline__ void backward_keys(const Unit &unit, const element *values, const element *gradient,
                                                     const float *log_sums, const float *pulls, element *target, int add) {
    DYNAMIC_SHARED(element, shared);
    int group = unit.layer.group, rows = (group + TILE - 1) / TILE * TILE, lane = threadIdx.x % 32, t = lane % 4;
    element *queries = shared, *slopes = queries + rows * (D + PAD);
    // Logarithm of the sum and pull of every query.
    float *of_rows = reinterpret_cast<float *>(slopes + rows * (D + PAD));
    fill<D>(queries, unit, values, QUERY, rows);
    fill<D>(slopes, unit, gradient, -1, rows);
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        // A token that is not there has no share in any softmax.
        long long at = (long long)blockIdx.x * group + i;
        of_rows[2 * i] = i < group ? log_sums[at] : -MINUS_INFINITY;
        of_rows[2 * i + 1] = i < group ? pulls[at] : 0.0f;
    }
    wait_for_copies();
    round_copied<D>(queries, rows);
    round_copied<D>(slopes, rows);
    __syncthreads();
    float factor = unit.layer.scale * LOG2_E;
    for (int tile = threadIdx.x / 32 * TILE; tile < rows; tile += blockDim.x / 32 * TILE) {
        int key = tile + lane / 4, low = min(key, group - 1), high = min(key + 8, group - 1);
        Rows<D> keys, weighted;
        load_rows<D>(keys, values + unit.part(KEY, low), values + unit.part(KEY, high), t);
        load_rows<D>(weighted, values + unit.part(VALUE, low), values + unit.part(VALUE, high), t);
        float key_sum[D / 8][4], value_sum[D / 8][4];
        clear<D>(key_sum);
        clear<D>(value_sum);
        for (int start = 0; start < rows; start += TILE) {
            float prob[2][4] = {}, slope[2][4] = {};
#pragma unroll
            for (int n = 0; n < 2; n++) {
                times_transposed<D>(prob[n], keys, queries + (start + 8 * n) * (D + PAD), lane);
                times_transposed<D>(slope[n], weighted, slopes + (start + 8 * n) * (D + PAD), lane);
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
                // Of columns `2 t` and `2 t + 1`.
                int query = start + 8 * n + 2 * t;
                float4 of = *reinterpret_cast<const float4 *>(of_rows + 2 * query);
                float log_sum[2] = {of.x, of.z}, pull[2] = {of.y, of.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float s = fmaf(prob[n][i], factor, -log_sum[i % 2]) + extra<EXTRA>(unit, query + i % 2, key + i / 2 * 8);
                    prob[n][i] = exp2_fast(fminf(s, 0.0f));
                    slope[n][i] = prob[n][i] * (slope[n][i] - pull[i % 2]);
                }
            }
            unsigned left[A_WORDS];
            as_left(left, prob[0], prob[1]);
            times_rows<D>(value_sum, left, slopes + start * (D + PAD), lane);
            as_left(left, slope[0], slope[1]);
            times_rows<D>(key_sum, left, queries + start * (D + PAD), lane);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (key + 8 * h >= group) continue;
            write<D>(target + unit.part(KEY, key + 8 * h), key_sum, h, unit.layer.scale, t, add);
            write<D>(target + unit.part(VALUE, key + 8 * h), value_sum, h, 1.0f, t, add);
        }
    }
}

// Runs `pass<D, EXTRA>` for what the layer adds to its scores. A mask comes with a bias only.
#define WITH_EXTRA(pass, D, ...)                             \
    if (regions != nullptr) {                                \
        pass<D, BIAS_AND_MASK>(__VA_ARGS__);                 \
    } else if (bias != nullptr) {                            \
        pass<D, BIAS>(__VA_ARGS__);                          \
    } else {                                                 \
        pass<D, NOTHING>(__VA_ARGS__);                       \
    }

// Arguments as in attention.cu.
#define TABLES const unsigned *order, const float *bias, const unsigned char *regions
#define EXTENTS int tokens, int group, int groups, int heads, int head_channels, float scale
#define UNIT Unit unit({order, bias, regions, tokens, group, groups, heads, head_channels, scale}, blockIdx.x)

#define FORWARD_ARGUMENTS const element *values, TABLES, element *out, element *kept, float *log_sums, EXTENTS
#define FORWARD(D) \
    UNIT;          \
    WITH_EXTRA(forward, D, unit, values, out, kept, log_sums)

#define QUERIES_ARGUMENTS                                                                                      \
    const element *values, TABLES, const element *kept, const element *gradient, const float *log_sums,       \
        float *pulls, element *target, EXTENTS, int add
#define BACKWARD_QUERIES(D) \
    UNIT;                   \
    WITH_EXTRA(backward_queries, D, unit, values, kept, gradient, log_sums, pulls, target, add)

#define KEYS_ARGUMENTS                                                                                         \
    const element *values, TABLES, const element *gradient, const float *log_sums, const float *pulls,        \
        element *target, EXTENTS, int add
#define BACKWARD_KEYS(D) \
    UNIT;                \
    WITH_EXTRA(backward_keys, D, unit, values, gradient, log_sums, pulls, target, add)

// A kernel per head width, since each needs another number of registers. Their names are read from this text.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_64)
attention_forward_tensor_64(FORWARD_ARGUMENTS) {
    FORWARD(64)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_64)
attention_backward_queries_tensor_64(QUERIES_ARGUMENTS) {
    BACKWARD_QUERIES(64)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_64)
attention_backward_keys_tensor_64(KEYS_ARGUMENTS) {
    BACKWARD_KEYS(64)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_32)
attention_forward_tensor_32(FORWARD_ARGUMENTS) {
    FORWARD(32)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_32)
attention_backward_queries_tensor_32(QUERIES_ARGUMENTS) {
    BACKWARD_QUERIES(32)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_32)
attention_backward_keys_tensor_32(KEYS_ARGUMENTS) {
    BACKWARD_KEYS(32)
}
