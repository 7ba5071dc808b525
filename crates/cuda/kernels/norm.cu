// Batch and group norms: statistics, tables, and joins of normalised values.
#include "activation.cuh"
#include "rows.cuh"
#include "tables.cuh"

// One term of a join. `pixels` is 0 where all images share the tables.
struct term {
    const element *values;
    const float *scale;
    const float *shift;
    int activation;
    int pixels;
};

template <int V> struct affine {
    pack<V> scale, shift;
};

template <int V>
static __device__ __forceinline__ affine<V> load_affine(const float *scale, const float *shift, int at) {
    affine<V> out;
    if (scale) {
        out.scale = load_floats<V>(scale + at);
        out.shift = load_floats<V>(shift + at);
    } else {
        out.scale = filled<V>(1.0f);
        out.shift = filled<V>(0.0f);
    }
    return out;
}

template <int V, int KIND>
static __device__ __forceinline__ void add_term(const term &t, affine<V> &tables, const stored<V> &from, int row, int c, int channels,
                                                pack<V> &sum) {
    if (t.pixels) {
        tables = load_affine<V>(t.scale, t.shift, (row / t.pixels) * channels + c);
    }
    pack<V> y = from.wide();
    float low = lower_bound(t.activation), high = upper_bound(t.activation);
#pragma unroll
    for (int i = 0; i < V; i++) {
        float z = tables.scale.at[i] * y.at[i] + tables.shift.at[i];
        sum.at[i] += activate_as<KIND>(t.activation, z, low, high);
    }
}

template <int V, int KIND, bool TWO>
static __device__ __forceinline__ void join_rows(term a, term b, int last, element *out, unsigned char *mask, int rows, int channels) {
    int c = own_channel<V>();
    if (c >= channels) {
        return;
    }
    affine<V> of_a = load_affine<V>(a.pixels ? nullptr : a.scale, a.shift, c), of_b = of_a;
    if (TWO) {
        of_b = load_affine<V>(b.pixels ? nullptr : b.scale, b.shift, c);
    }
    float low = lower_bound(last), high = upper_bound(last);
    int step = row_step();
    for (int first = first_row(); first < rows; first += ROWS * step) {
        stored<V> from_a[ROWS], from_b[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            long long at = (long long)(first + r * step) * channels + c;
            if (first + r * step < rows) {
                from_a[r].take(a.values + at);
                if (TWO) {
                    from_b[r].take(b.values + at);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = first + r * step;
            if (row >= rows) {
                break;
            }
            pack<V> sum = filled<V>(0.0f);
            add_term<V, KIND>(a, of_a, from_a[r], row, c, channels, sum);
            if (TWO) {
                add_term<V, KIND>(b, of_b, from_b[r], row, c, channels, sum);
            }
            long long at = (long long)row * channels + c;
            unsigned inside = 0;
#pragma unroll
            for (int i = 0; i < V; i++) {
                float z = sum.at[i];
                inside |= (z > low && z < high ? 1u : 0u) << i;
                sum.at[i] = clamp(z, low, high);
            }
            store_pack<V>(out + at, sum);
            if (mask) {
                mask[at / V] = (unsigned char)inside;
            }
        }
    }
}

#define TERM(x) const element *x##_values, const float *x##_scale, const float *x##_shift, int x##_activation, int x##_pixels
#define TERM_OF(x) term{x##_values, x##_scale, x##_shift, x##_activation, x##_pixels}

#define JOIN TERM(a), TERM(b), int last, element *out, unsigned char *mask, int rows, int channels
#define JOIN_ARGUMENTS TERM_OF(a), TERM_OF(b), last, out, mask, rows, channels

template <int KIND>
static __device__ __forceinline__ void join_wide_as(term a, term b, int last, element *out, unsigned char *mask, int rows, int channels) {
    if (b.values) {
        join_rows<8, KIND, true>(a, b, last, out, mask, rows, channels);
    } else {
        join_rows<8, KIND, false>(a, b, last, out, mask, rows, channels);
    }
}

// The kind that covers both terms: a clamp between infinities is none.
static __device__ __forceinline__ int kind_of_both(int a, int b) {
    int first = kind_of(a), second = kind_of(b);
    if (first <= CLAMPED && second <= CLAMPED) {
        return first > second ? first : second;
    }
    return first == second ? first : CURVED;
}

// out = clamp(a + b); `mask` notes where its slope is one.
extern "C" __global__ void __launch_bounds__(256, 2) join_wide(JOIN) {
    int kind = b_values ? kind_of_both(a_activation, b_activation) : kind_of(a_activation);
    BY_KIND(join_wide_as, kind, JOIN_ARGUMENTS)
}

extern "C" __global__ void join_narrow(JOIN) {
    term b = TERM_OF(b);
    if (b.values) {
        join_rows<1, CURVED, true>(TERM_OF(a), b, last, out, mask, rows, channels);
    } else {
        join_rows<1, CURVED, false>(TERM_OF(a), b, last, out, mask, rows, channels);
    }
}

// Mean and sum of squared distances from it over this block's rows of image `blockIdx.z`. Every thread shifts by its first
// value, so that nothing cancels.
template <int V>
static __device__ __forceinline__ void gather_statistics(const element *values, float *partial, float *counts, int rows, int channels) {
    extern __shared__ float shared[];
    int c = own_channel<V>();
    bool active = c < channels;
    values += (long long)blockIdx.z * rows * channels;
    pack<V> origin = filled<V>(0.0f), sum = filled<V>(0.0f), square = filled<V>(0.0f);
    int count = 0;
    if (active && first_row() < rows) {
        origin = load_pack<V>(values + (long long)first_row() * channels + c);
#pragma unroll 4
        for (int row = first_row(); row < rows; row += row_step()) {
            pack<V> x = load_pack<V>(values + (long long)row * channels + c);
#pragma unroll
            for (int i = 0; i < V; i++) {
                float d = x.at[i] - origin.at[i];
                sum.at[i] += d;
                square.at[i] += d * d;
            }
            count++;
        }
    }
    // Threads of one column of the block meet in shared memory: mean, squares, count per thread.
    int width = blockDim.x * V;
    float *means = shared, *squares = shared + blockDim.y * width, *sizes = squares + blockDim.y * width;
    float share = count ? 1.0f / (float)count : 0.0f;
#pragma unroll
    for (int i = 0; i < V; i++) {
        int at = threadIdx.y * width + threadIdx.x * V + i;
        means[at] = origin.at[i] + sum.at[i] * share;
        squares[at] = square.at[i] - sum.at[i] * sum.at[i] * share;
    }
    if (threadIdx.x == 0) {
        sizes[threadIdx.y] = (float)count;
    }
    __syncthreads();
    float all = 0.0f;
    for (int y = 0; y < blockDim.y; y++) {
        all += sizes[y];
    }
    int slot = blockIdx.z * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0 && threadIdx.y == 0 && blockIdx.y == 0) {
        counts[slot] = all;
    }
    float *out_means = partial + (long long)slot * channels;
    float *out_squares = out_means + (long long)gridDim.z * gridDim.x * channels;
    int threads = blockDim.x * blockDim.y;
    for (int k = threadIdx.y * blockDim.x + threadIdx.x; k < width; k += threads) {
        int channel = blockIdx.y * width + k;
        if (channel >= channels) {
            break;
        }
        float mean = 0.0f, spread = 0.0f;
        for (int y = 0; y < blockDim.y; y++) {
            mean += sizes[y] * means[y * width + k];
        }
        mean = all > 0.0f ? mean / all : 0.0f;
        for (int y = 0; y < blockDim.y; y++) {
            float d = means[y * width + k] - mean;
            spread += sizes[y] > 0.0f ? squares[y * width + k] + sizes[y] * d * d : 0.0f;
        }
        out_means[channel] = mean;
        out_squares[channel] = spread;
    }
}

extern "C" __global__ void statistics_wide(const element *values, float *partial, float *counts, int rows, int channels) {
    gather_statistics<8>(values, partial, counts, rows, channels);
}

extern "C" __global__ void statistics_narrow(const element *values, float *partial, float *counts, int rows, int channels) {
    gather_statistics<1>(values, partial, counts, rows, channels);
}

// Tables of a batch norm. `parts` blocks gathered the batch's statistics, or none; `source_weight` is the share of the
// running ones, and `unbiased` asks for the variance over count - 1. Sums are shifted by the first part's mean.
extern "C" __global__ void __launch_bounds__(MERGED * SLICES)
batch_tables(const float *partial, const float *counts, int parts, const float *running_mean,
             const float *running_variance, const float *scale, const float *shift, float eps,
             float source_weight, int unbiased, float *tables, int channels) {
    __shared__ double room[3 * MERGED * 32];
    int c = blockIdx.x * MERGED + threadIdx.x;
    int safe = c < channels ? c : 0;
    // The channel that this thread's warp finishes, and what that takes.
    int own = blockIdx.x * MERGED + merging_warp();
    bool finishes = merging_warp() < MERGED && own < channels;
    float own_scale = finishes ? scale[own] : 0.0f, own_shift = finishes ? shift[own] : 0.0f;
    const float *squares = partial + (long long)parts * channels;
    double count = 0.0, mean = 0.0, variance = 0.0;
    if (parts) {
        // Count, distance from the origin, its square.
        double found[3] = {0.0, 0.0, 0.0};
        float origin = partial[safe], own_origin = finishes ? partial[own] : 0.0f;
        for (int first = threadIdx.y; first < parts; first += PARTS * SLICES) {
            float size[PARTS], middle[PARTS], spread[PARTS];
#pragma unroll
            for (int i = 0; i < PARTS; i++) {
                int p = first + SLICES * i;
                bool there = p < parts;
                long long at = (long long)(there ? p : 0) * channels + safe;
                size[i] = there ? counts[p] : 0.0f;
                middle[i] = partial[at];
                spread[i] = there ? squares[at] : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < PARTS; i++) {
                double n = (double)size[i], d = (double)middle[i] - (double)origin;
                found[0] += n;
                found[1] += n * d;
                found[2] += (double)spread[i] + n * d * d;
            }
        }
        over_slices<3>(found, room);
        count = found[0];
        double share = 1.0 / count;
        mean = (double)own_origin + found[1] * share;
        variance = (found[2] - found[1] * found[1] * share) * share;
        variance = variance < 0.0 ? 0.0 : variance;
    }
    if (!finishes || merging_lane() != 0) {
        return;
    }
    tables[BATCH_MEAN * channels + own] = (float)mean;
    statistics used = mix_statistics({mean, variance}, count, unbiased, source_weight, running_mean, running_variance, own);
    set_tables(tables, channels, own, used.mean, used.variance, own_scale, own_shift, eps);
}

// Sums over a block of up to 128 threads, in a fixed order; every thread gets the result.
static __device__ __forceinline__ double over_block(double value, double *room) {
    __syncthreads();
    room[threadIdx.x] = value;
    __syncthreads();
    double sum = 0.0;
    for (int i = 0; i < blockDim.x; i++) {
        sum += room[i];
    }
    return sum;
}

// Tables of a group norm: one block per image (x) and group (y).
extern "C" __global__ void group_tables(const float *partial, const float *counts, int parts, const float *scale,
                                        const float *shift, float eps, float *tables, int len, int channels) {
    __shared__ double room[128];
    int image = blockIdx.x, size = channels / gridDim.y, first = blockIdx.y * size;
    const float *means = partial + (long long)image * parts * channels;
    const float *squares = means + (long long)gridDim.x * parts * channels;
    const float *sizes = counts + image * parts;
    double sum = 0.0, all = 0.0;
    for (int p = 0; p < parts; p++) {
        all += (double)sizes[p];
        for (int c = first + threadIdx.x; c < first + size; c += blockDim.x) {
            sum += (double)sizes[p] * (double)means[(long long)p * channels + c];
        }
    }
    all *= (double)size;
    double mean = over_block(sum, room) / all;
    double spread = 0.0;
    for (int p = 0; p < parts; p++) {
        for (int c = first + threadIdx.x; c < first + size; c += blockDim.x) {
            double d = (double)means[(long long)p * channels + c] - mean;
            spread += (double)squares[(long long)p * channels + c] + (double)sizes[p] * d * d;
        }
    }
    double variance = over_block(spread, room) / all;
    for (int c = first + threadIdx.x; c < first + size; c += blockDim.x) {
        set_tables(tables, len, image * channels + c, mean, variance, scale[c], shift[c], eps);
    }
}
