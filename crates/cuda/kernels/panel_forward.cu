// Pointwise convolutions with the norm and the clamp below them, and convolutions of images, with the statistics of what they give.
#include "panel.cuh"

// Stores a result, and gathers mean and squared distances from it: a warp's sums are shifted by its first row, so that nothing
// cancels.
struct statistics_end {
    // Sums, squares, and the origin of a warp.
    static constexpr int KINDS = 3;
    element *out;
    float *partial, *counts;

    template <int GROUPS> __device__ __forceinline__ void finish(const warp_tile &at, int outs, int channel, bool first) const {
        constexpr int ACROSS = GROUPS * SIDE / WIDTH, STEP = 32 / ACROSS;
        int column = threadIdx.x % ACROSS * WIDTH, count = rows_of(at.row, at.rows);
        float *origin = at.totals + 2 * at.columns + column;
        if (first) {
            lanes x = as_stored(load_row(at.at + column));
            if (threadIdx.x % 32 < ACROSS) {
#pragma unroll
                for (int i = 0; i < WIDTH; i++) {
                    origin[i] = x.at[i];
                }
            }
            __syncwarp();
        }
        lanes from = load_row(origin), sum = {}, square = {};
#pragma unroll 4
        for (int row = threadIdx.x % 32 / ACROSS; row < count; row += STEP) {
            lanes x = load_row(at.at + row * STRIDE<GROUPS> + column);
            store_lanes_global(out + (at.row + row) * outs + channel + column, x);
            x = as_stored(x);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                float off = x.at[i] - from.at[i];
                sum.at[i] += off;
                square.at[i] += off * off;
            }
        }
        add_total<GROUPS>(sum, at.totals);
        add_total<GROUPS>(square, at.totals + at.columns);
    }

    // Merges what the warps found, one after the other.
    __device__ __forceinline__ void close(const float *totals, int columns, int left, int rows, int outs) const {
        int warps = blockDim.x / 32, teams = warps / 4, tiles = (rows + TILE - 1) / TILE;
        for (int c = threadIdx.x; c < columns; c += blockDim.x) {
            float count = 0.0f, mean = 0.0f, squares = 0.0f;
            for (int warp = 0; warp < warps; warp++) {
                const float *own = totals + warp * KINDS * columns + c;
                long long of_warp = 0;
                for (int tile = blockIdx.y * teams + warp / 4; tile < tiles; tile += gridDim.y * teams) {
                    of_warp += rows_of((long long)tile * TILE + warp % 4 * DOWN, rows);
                }
                if (of_warp > 0) {
                    float more = (float)of_warp, off = own[0] / more, step = own[2 * columns] + off - mean;
                    count += more;
                    mean += step * (more / count);
                    squares += (own[columns] - own[0] * off) + step * step * (more * ((count - more) / count));
                }
            }
            long long at = (long long)blockIdx.y * outs + left + c;
            partial[at] = mean;
            partial[(long long)gridDim.y * outs + at] = squares;
            if (left + c == 0) {
                counts[blockIdx.y] = count;
            }
        }
    }
};

#define ARGUMENTS                                                                                                          \
    const element *values, const float *tables, int activation, const words *weights, element *out, float *partial,        \
        float *counts, int rows, int ins, int outs, int columns
#define WIDEN(slices, from)                                                                                                \
    widen<slices, from>(source{values, tables, activation, ins, {}}, weights, statistics_end{out, partial, counts}, rows, outs, columns)
#define NARROW(from)                                                                                                       \
    narrow<from, NOTHING>(source{values, tables, activation, ins, {}}, source{}, weights, statistics_end{out, partial, counts}, rows, outs)

extern "C" __global__ void __launch_bounds__(384, 1) widen_stored_1(ARGUMENTS) { WIDEN(1, STORED); }
extern "C" __global__ void __launch_bounds__(384, 1) widen_stored_2(ARGUMENTS) { WIDEN(2, STORED); }
extern "C" __global__ void __launch_bounds__(256, 1) widen_stored_4(ARGUMENTS) { WIDEN(4, STORED); }
extern "C" __global__ void __launch_bounds__(384, 1) widen_normed_1(ARGUMENTS) { WIDEN(1, NORMED); }
extern "C" __global__ void __launch_bounds__(384, 1) widen_normed_2(ARGUMENTS) { WIDEN(2, NORMED); }
extern "C" __global__ void __launch_bounds__(256, 1) widen_normed_4(ARGUMENTS) { WIDEN(4, NORMED); }
extern "C" __global__ void __launch_bounds__(512, 1) narrow_stored(ARGUMENTS) { NARROW(STORED); }
extern "C" __global__ void __launch_bounds__(512, 1) narrow_normed(ARGUMENTS) { NARROW(NORMED); }

// A convolution with stride 1 and no padding; `ins` counts the elements of a patch.
extern "C" __global__ void __launch_bounds__(512, 1)
narrow_patches(const element *values, const words *weights, element *out, float *partial, float *counts, int rows, int ins, int outs,
               int outputs, int across, int image, int line, int pixel, int packs) {
    source from = {values, nullptr, IDENTITY, ins, {outputs, across, image, line, pixel, packs}};
    narrow<PATCHES, NOTHING>(from, source{}, weights, statistics_end{out, partial, counts}, rows, outs);
}
