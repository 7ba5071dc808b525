// Gradients of pointwise convolutions below a norm, from many channels to few, with everything around them.
//
// What the norm pulls back need not be read: with x = W y,
//
//   W' (slope g + pull x + constant) = (W' slope) g + (W' pull W) y + W' constant
//
// where y, which the convolution read, has as many channels as the result. `panel_pull` makes the weights of both terms.
#include "panel.cuh"

// Stores the result. Below a norm and a clamp, sums it below the clamp, alone and with the centred values.
template <bool SUMS> struct gradient_end {
    static constexpr int KINDS = SUMS ? 2 : 0;
    // Rows that a lane has on their way at a time.
    static constexpr int BATCH = 4;
    element *out;
    int add;
    const float *constant;
    // What is normalised to what the convolution read, and the tables of that norm.
    const element *values;
    const float *tables;
    int activation;
    float *partial;

    template <int GROUPS> __device__ __forceinline__ void finish(const warp_tile &at, int outs, int channel, bool) const {
        constexpr int ACROSS = GROUPS * SIDE / WIDTH, STEP = 32 / ACROSS;
        int column = threadIdx.x % ACROSS * WIDTH, c = channel + column, count = rows_of(at.row, at.rows);
        float low = lower_bound(activation), high = upper_bound(activation);
        lanes more = load_row(constant + c), scale = {}, shift = {}, centre = {}, sum = {}, product = {};
        if (SUMS) {
            scale = load_row(tables + SCALE * outs + c);
            shift = load_row(tables + SHIFT * outs + c);
            centre = load_row(tables + CENTRE * outs + c);
        }
#pragma unroll 1
        for (int start = threadIdx.x % 32 / ACROSS; start < count; start += BATCH * STEP) {
            words before[BATCH], below[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                long long from = (at.row + start + i * STEP) * outs + c;
                if (start + i * STEP < count) {
                    if (add) {
                        before[i] = *reinterpret_cast<const words *>(out + from);
                    }
                    if (SUMS) {
                        below[i] = *reinterpret_cast<const words *>(values + from);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                int row = start + i * STEP;
                if (row < count) {
                    lanes g = plus(load_row(at.at + row * STRIDE<GROUPS> + column), more);
                    if (add) {
                        g = plus(g, unpack(before[i]));
                    }
                    store_lanes_global(out + (at.row + row) * outs + c, g);
                    if (SUMS) {
                        lanes y = unpack(below[i]);
#pragma unroll
                        for (int j = 0; j < WIDTH; j++) {
                            float d = below_as<CLAMPED>(activation, g.at[j], scale.at[j] * y.at[j] + shift.at[j], low, high);
                            sum.at[j] += d;
                            product.at[j] += d * (y.at[j] - centre.at[j]);
                        }
                    }
                }
            }
        }
        if (SUMS) {
            add_total<GROUPS>(sum, at.totals);
            add_total<GROUPS>(product, at.totals + at.columns);
        }
    }

    static __device__ __forceinline__ lanes plus(lanes x, const lanes &y) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            x.at[i] += y.at[i];
        }
        return x;
    }

    // Adds up what the warps found, in their order.
    __device__ __forceinline__ void close(const float *totals, int columns, int left, int, int outs) const {
        int warps = blockDim.x / 32;
        for (int at = threadIdx.x; at < KINDS * columns; at += blockDim.x) {
            float all = 0.0f;
            for (int warp = 0; warp < warps; warp++) {
                all += totals[warp * KINDS * columns + at];
            }
            partial[((long long)(at / columns) * gridDim.y + blockIdx.y) * outs + left + at % columns] = all;
        }
    }
};

// `gradient` has `wide` channels; `values`, normalised or not, are what the convolution read.
#define ARGUMENTS                                                                                                          \
    const element *gradient, const element *values, const float *tables, int activation, const words *weights,             \
        const float *constant, element *out, int add, float *partial, int rows, int wide, int few
#define NARROW(more, sums)                                                                                                 \
    narrow<STORED, more>(source{gradient, nullptr, 0, wide, {}}, source{values, tables, activation, few, {}}, weights,             \
                         gradient_end<sums>{out, add, constant, values, tables, activation, partial}, rows, few)

extern "C" __global__ void __launch_bounds__(512, 1) narrow_back_stored(ARGUMENTS) { NARROW(STORED, false); }
extern "C" __global__ void __launch_bounds__(512, 1) narrow_back_normed(ARGUMENTS) { NARROW(NORMED, false); }
extern "C" __global__ void __launch_bounds__(512, 1) narrow_back_sums(ARGUMENTS) { NARROW(NORMED, true); }
