// Gradients of batch and group norms: sums over a gradient, tables from them, and the gradient carried on.
#include "activation.cuh"
#include "rows.cuh"
#include "tables.cuh"

// Sums of the gradient below the activation, and of it times the centred value, over this block's rows of image `blockIdx.z`.
template <int V, int KIND>
static __device__ __forceinline__ void gather_sums(const element *gradient, const element *values, const float *tables, int len,
                                                   int activation, float *partial, int rows, int channels) {
    int c = own_channel<V>();
    pack<V> sum = filled<V>(0.0f), product = filled<V>(0.0f);
    long long start = (long long)blockIdx.z * rows * channels;
    float low = lower_bound(activation), high = upper_bound(activation);
    if (c < channels) {
        int at = blockIdx.z * channels + c;
        pack<V> scale = load_floats<V>(tables + SCALE * len + at);
        pack<V> shift = load_floats<V>(tables + SHIFT * len + at);
        pack<V> centre = load_floats<V>(tables + CENTRE * len + at);
#pragma unroll ROWS
        for (int row = first_row(); row < rows; row += row_step()) {
            long long from = start + (long long)row * channels + c;
            pack<V> g = load_pack<V>(gradient + from);
            pack<V> y = load_pack<V>(values + from);
#pragma unroll
            for (int i = 0; i < V; i++) {
                float z = scale.at[i] * y.at[i] + shift.at[i];
                float d = below_as<KIND>(activation, g.at[i], z, low, high);
                sum.at[i] += d;
                product.at[i] += d * (y.at[i] - centre.at[i]);
            }
        }
    }
    put_sums<V>(sum, partial, 0, channels);
    put_sums<V>(product, partial, 1, channels);
}

template <int KIND>
static __device__ __forceinline__ void gather_sums_wide(const element *gradient, const element *values, const float *tables, int len,
                                                        int activation, float *partial, int rows, int channels) {
    gather_sums<8, KIND>(gradient, values, tables, len, activation, partial, rows, channels);
}

extern "C" __global__ void norm_sums_wide(const element *gradient, const element *values, const float *tables, int len,
                                          int activation, float *partial, int rows, int channels) {
    BY_KIND(gather_sums_wide, kind_of(activation), gradient, values, tables, len, activation, partial, rows, channels)
}

extern "C" __global__ void norm_sums_narrow(const element *gradient, const element *values, const float *tables, int len,
                                            int activation, float *partial, int rows, int channels) {
    gather_sums<1, CURVED>(gradient, values, tables, len, activation, partial, rows, channels);
}

// gradient *= mask, plus `other` first if given; and the sums of up to two norms joined there. Slot 0 is the gradient's
// sum, slots 1 and 2 are those of its products with the centred values.
template <int V, bool OTHER, int NORMS>
static __device__ __forceinline__ void join_back(element *gradient, const element *other, const unsigned char *mask,
                                                 const element *a_values, const float *a_centre, const element *b_values,
                                                 const float *b_centre, float *partial, int rows, int channels) {
    int c = own_channel<V>();
    pack<V> sum = filled<V>(0.0f), of_a = filled<V>(0.0f), of_b = filled<V>(0.0f);
    if (c < channels) {
        pack<V> a_mid = NORMS > 0 ? load_floats<V>(a_centre + c) : filled<V>(0.0f);
        pack<V> b_mid = NORMS > 1 ? load_floats<V>(b_centre + c) : filled<V>(0.0f);
        int step = row_step();
        for (int first = first_row(); first < rows; first += ROWS * step) {
            stored<V> from[ROWS], more[ROWS], from_a[ROWS], from_b[ROWS];
            unsigned inside[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                long long at = (long long)(first + r * step) * channels + c;
                if (first + r * step < rows) {
                    from[r].take(gradient + at);
                    inside[r] = mask ? mask[at / V] : 0xffu;
                    if (OTHER) {
                        more[r].take(other + at);
                    }
                    if (NORMS > 0) {
                        from_a[r].take(a_values + at);
                    }
                    if (NORMS > 1) {
                        from_b[r].take(b_values + at);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int row = first + r * step;
                if (row >= rows) {
                    break;
                }
                pack<V> g = from[r].wide();
                if (OTHER) {
                    pack<V> added = more[r].wide();
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        g.at[i] += added.at[i];
                    }
                }
#pragma unroll
                for (int i = 0; i < V; i++) {
                    g.at[i] = (inside[r] >> i) & 1u ? g.at[i] : 0.0f;
                    sum.at[i] += g.at[i];
                }
                if (mask || OTHER) {
                    store_pack<V>(gradient + (long long)row * channels + c, g);
                }
                if (NORMS > 0) {
                    pack<V> y = from_a[r].wide();
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        of_a.at[i] += g.at[i] * (y.at[i] - a_mid.at[i]);
                    }
                }
                if (NORMS > 1) {
                    pack<V> y = from_b[r].wide();
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        of_b.at[i] += g.at[i] * (y.at[i] - b_mid.at[i]);
                    }
                }
            }
        }
    }
    if (NORMS > 0) {
        put_sums<V>(sum, partial, 0, channels);
        put_sums<V>(of_a, partial, 1, channels);
    }
    if (NORMS > 1) {
        put_sums<V>(of_b, partial, 2, channels);
    }
}

#define JOIN_BACK                                                                                                          \
    element *gradient, const element *other, const unsigned char *mask, const element *a_values, const float *a_centre,    \
        const element *b_values, const float *b_centre, float *partial, int rows, int channels
#define JOIN_BACK_ARGUMENTS gradient, other, mask, a_values, a_centre, b_values, b_centre, partial, rows, channels

template <int V, bool OTHER> static __device__ __forceinline__ void join_back_any(JOIN_BACK) {
    if (b_values) {
        join_back<V, OTHER, 2>(JOIN_BACK_ARGUMENTS);
    } else if (a_values) {
        join_back<V, OTHER, 1>(JOIN_BACK_ARGUMENTS);
    } else {
        join_back<V, OTHER, 0>(JOIN_BACK_ARGUMENTS);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) join_back_wide(JOIN_BACK) {
    join_back_any<8, false>(JOIN_BACK_ARGUMENTS);
}

extern "C" __global__ void join_back_narrow(JOIN_BACK) {
    join_back_any<1, false>(JOIN_BACK_ARGUMENTS);
}

extern "C" __global__ void __launch_bounds__(256, 2) join_back_other_wide(JOIN_BACK) {
    join_back_any<8, true>(JOIN_BACK_ARGUMENTS);
}

extern "C" __global__ void join_back_other_narrow(JOIN_BACK) {
    join_back_any<1, true>(JOIN_BACK_ARGUMENTS);
}

// Gradients of scale and shift, and the tables that carry a gradient through a batch norm. `of_mean` and `of_variance` are
// how much of them comes from the batch, per value.
extern "C" __global__ void __launch_bounds__(MERGED * SLICES)
batch_finish(const float *sums, const float *products, int parts, float of_mean, float of_variance,
             float *tables, float *scale_gradient, float *shift_gradient, int channels) {
    __shared__ double room[2 * MERGED * 32];
    int c = blockIdx.x * MERGED + threadIdx.x;
    int safe = c < channels ? c : 0;
    // The channel that this thread's warp finishes, and what that takes.
    int own = blockIdx.x * MERGED + merging_warp();
    bool finishes = merging_warp() < MERGED && own < channels;
    int entry = finishes ? own : 0;
    float inverse = tables[INVERSE * channels + entry], slope = tables[SCALE * channels + entry];
    float mean = tables[BATCH_MEAN * channels + entry];
    double found[2] = {0.0, 0.0};
    for (int first = threadIdx.y; first < parts; first += PARTS * SLICES) {
        float sum[PARTS], product[PARTS];
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            int p = first + SLICES * i;
            long long at = (long long)(p < parts ? p : 0) * channels + safe;
            sum[i] = p < parts ? sums[at] : 0.0f;
            product[i] = p < parts ? products[at] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            found[0] += (double)sum[i];
            found[1] += (double)product[i];
        }
    }
    over_slices<2>(found, room);
    if (!finishes || merging_lane() != 0) {
        return;
    }
    float sum = (float)found[0], product = (float)found[1];
    scale_gradient[own] = product * inverse;
    shift_gradient[own] = sum;
    float pull = -slope * inverse * inverse * product * of_variance;
    tables[SLOPE * channels + own] = slope;
    tables[PULL * channels + own] = pull;
    tables[CONSTANT * channels + own] = -slope * sum * of_mean - pull * mean;
}

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

// The same for a group norm, one block per image (x) and group (y). `merged` keeps sums and products per image and channel.
extern "C" __global__ void group_finish(const float *partial, int parts, const float *scale, float *tables, int len, float *merged,
                                        int channels, int pixels) {
    __shared__ double room[128];
    int image = blockIdx.x, images = gridDim.x, size = channels / gridDim.y, first = blockIdx.y * size;
    const float *sums = partial + (long long)image * parts * channels;
    const float *products = sums + (long long)images * parts * channels;
    double of_sum = 0.0, of_product = 0.0;
    for (int c = first + threadIdx.x; c < first + size; c += blockDim.x) {
        double sum = 0.0, product = 0.0;
        for (int p = 0; p < parts; p++) {
            sum += (double)sums[(long long)p * channels + c];
            product += (double)products[(long long)p * channels + c];
        }
        merged[image * channels + c] = (float)sum;
        merged[(images + image) * channels + c] = (float)product;
        of_sum += (double)scale[c] * sum;
        of_product += (double)scale[c] * product;
    }
    double count = (double)size * (double)pixels;
    float mean_sum = (float)(over_block(of_sum, room) / count);
    float mean_product = (float)(over_block(of_product, room) / count);
    for (int c = first + threadIdx.x; c < first + size; c += blockDim.x) {
        int at = image * channels + c;
        float inverse = tables[INVERSE * len + at];
        float pull = -inverse * inverse * inverse * mean_product;
        tables[SLOPE * len + at] = tables[SCALE * len + at];
        tables[PULL * len + at] = pull;
        tables[CONSTANT * len + at] = -inverse * mean_sum - pull * tables[CENTRE * len + at];
    }
}

// Gradients of a group norm's scale and shift: sums over the images of what `group_finish` merged.
extern "C" __global__ void group_affine(const float *merged, const float *tables, int len, float *scale_gradient, float *shift_gradient,
                                        int images, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) {
        return;
    }
    double sum = 0.0, product = 0.0;
    for (int image = 0; image < images; image++) {
        int at = image * channels + c;
        sum += (double)merged[at];
        product += (double)merged[images * channels + at] * (double)tables[INVERSE * len + at];
    }
    scale_gradient[c] = (float)product;
    shift_gradient[c] = (float)sum;
}

// out = [out +] slope * g + pull * y + constant, with g the gradient below the activation. Without tables, out = [out +] g.
template <int V, int KIND>
static __device__ __forceinline__ void carry(const element *gradient, const element *values, const float *tables, int len,
                                             int activation, int pixels, element *out, int add, int rows, int channels) {
    int c = own_channel<V>();
    if (c >= channels) {
        return;
    }
    float low = lower_bound(activation), high = upper_bound(activation);
    pack<V> one = filled<V>(1.0f), zero = filled<V>(0.0f);
    pack<V> scale = one, shift = zero, slope = one, pull = zero, constant = zero;
    if (tables && !pixels) {
        scale = load_floats<V>(tables + SCALE * len + c);
        shift = load_floats<V>(tables + SHIFT * len + c);
        slope = load_floats<V>(tables + SLOPE * len + c);
        pull = load_floats<V>(tables + PULL * len + c);
        constant = load_floats<V>(tables + CONSTANT * len + c);
    }
    int step = row_step();
    for (int first = first_row(); first < rows; first += ROWS * step) {
        stored<V> from[ROWS], of[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            long long at = (long long)(first + r * step) * channels + c;
            if (first + r * step < rows) {
                from[r].take(gradient + at);
                of[r].take(values + at);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = first + r * step;
            if (row >= rows) {
                break;
            }
            if (tables && pixels) {
                int at = (row / pixels) * channels + c;
                scale = load_floats<V>(tables + SCALE * len + at);
                shift = load_floats<V>(tables + SHIFT * len + at);
                slope = load_floats<V>(tables + SLOPE * len + at);
                pull = load_floats<V>(tables + PULL * len + at);
                constant = load_floats<V>(tables + CONSTANT * len + at);
            }
            pack<V> g = from[r].wide(), y = of[r].wide();
#pragma unroll
            for (int i = 0; i < V; i++) {
                float z = scale.at[i] * y.at[i] + shift.at[i];
                float d = below_as<KIND>(activation, g.at[i], z, low, high);
                g.at[i] = slope.at[i] * d + (pull.at[i] * y.at[i] + constant.at[i]);
            }
            long long at = (long long)row * channels + c;
            if (add) {
                pack<V> before = load_pack<V>(out + at);
#pragma unroll
                for (int i = 0; i < V; i++) {
                    g.at[i] += before.at[i];
                }
            }
            store_pack<V>(out + at, g);
        }
    }
}

template <int KIND>
static __device__ __forceinline__ void carry_wide(const element *gradient, const element *values, const float *tables, int len,
                                                  int activation, int pixels, element *out, int add, int rows, int channels) {
    carry<8, KIND>(gradient, values, tables, len, activation, pixels, out, add, rows, channels);
}

extern "C" __global__ void __launch_bounds__(256, 2) through_norm_wide(const element *gradient, const element *values, const float *tables, int len,
                                             int activation, int pixels, element *out, int add, int rows, int channels) {
    BY_KIND(carry_wide, kind_of(activation), gradient, values, tables, len, activation, pixels, out, add, rows, channels)
}

extern "C" __global__ void through_norm_narrow(const element *gradient, const element *values, const float *tables, int len,
                                               int activation, int pixels, element *out, int add, int rows, int channels) {
    carry<1, CURVED>(gradient, values, tables, len, activation, pixels, out, add, rows, channels);
}
