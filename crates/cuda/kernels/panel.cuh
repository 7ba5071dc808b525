// Rows that stream past weights which stay in shared memory, with what lies around the product done in passing: rows are
// normalised in registers on their way to the tensor cores, and what norms need is gathered while the result is written.
//
//   result[row][channel] = sum over k of made(source)[row][k] * weights[channel][k]
//
// Every warpgroup takes tiles of 64 rows of its own, and channels in groups of 64; blocks along x share the channels. The order of
// words within a product and of channels within a group is free, and `panel_pack` chooses it such that a lane takes 16 bytes of
// rows `g` and `g + 8` at a time: pack `p` of lane `t` is `WIDTH` elements from `(4 p + t) * WIDTH` on, of the source and of the
// result. The result then passes through shared memory, 16 rows of a warp that no other touches, so that whole rows are read and
// written, and a lane has the same channels in all of them.
#pragma once
#define SHARED_ALIGNMENT 1024
#include "activation.cuh"
#include "shared.cuh"
#include "tables.cuh"
#include "warpgroup.cuh"

// Rows of a tile, and channels of a group.
#define TILE 64
#define SIDE 64
// Elements of 128 bytes: the part of a row that one panel is multiplied with.
#define SLICE (8 * WIDTH)
// Packs of a lane in a row of a group.
#define PACKS (SIDE / 4 / WIDTH)
// Rows of a warp.
#define DOWN 16

// What rows are made of: values as they are stored; normalised and clamped; patches of images as they are stored; nothing at all.
#define STORED 0
#define NORMED 1
#define PATCHES 2
#define NOTHING 3

// Patches of an image, row by row of its outputs: outputs of an image and of a row; elements from image to image, from line to
// line and from output to output; packs of four lanes in a line of a patch.
struct patches {
    int outputs, across, image, line, pixel, packs;
};

struct source {
    const element *values;
    // Of the norm, where there is one.
    const float *tables;
    int activation;
    // Channels, or elements of a patch.
    int len;
    patches of;
};

// The lane's two rows; null where there is none.
struct two_rows {
    const element *at[2];
};

template <int FROM> static __device__ __forceinline__ two_rows rows_at(const source &from, long long row, int rows) {
    two_rows out;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        long long own = row + 8 * r, start = own * from.len;
        if (FROM == PATCHES) {
            int at = (int)(own % from.of.outputs);
            start = own / from.of.outputs * from.of.image + at / from.of.across * from.of.line + at % from.of.across * from.of.pixel;
        }
        out.at[r] = own < rows ? from.values + start + threadIdx.x % 4 * WIDTH : nullptr;
    }
    return out;
}

// One slice of them: two packs each.
struct slice {
    words at[2][2];
};

template <int FROM> static __device__ __forceinline__ slice load_slice(const source &from, const two_rows &rows, int start) {
    slice out;
#pragma unroll
    for (int p = 0; p < 2; p++) {
        int pack = start / (4 * WIDTH) + p, offset = pack * 4 * WIDTH;
        if (FROM == PATCHES) {
            offset = pack / from.of.packs * from.of.line + pack % from.of.packs * 4 * WIDTH;
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            out.at[r][p] = words{{0, 0, 0, 0}};
            if (rows.at[r]) {
                out.at[r][p] = *reinterpret_cast<const words *>(rows.at[r] + offset);
            }
        }
    }
    return out;
}

// `WIDTH` floats on a multiple of 16 bytes.
static __device__ __forceinline__ lanes load_row(const float *from) {
    lanes out;
#pragma unroll
    for (int part = 0; part < WIDTH / 4; part++) {
        words raw = reinterpret_cast<const words *>(from)[part];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out.at[part * 4 + i] = __uint_as_float(raw.at[i]);
        }
    }
    return out;
}

// As it is stored.
static __device__ __forceinline__ lanes as_stored(lanes x) {
#if FLIPCAST_BF16
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        x.at[i] = from_brain(to_brain(x.at[i]));
    }
#endif
    return x;
}

static __device__ __forceinline__ words as_factor(const lanes &x) {
    words out;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if FLIPCAST_BF16
        out.at[i] = pack_brain(x.at[2 * i], x.at[2 * i + 1]);
#else
        out.at[i] = to_tf32(x.at[i]);
#endif
    }
    return out;
}

// The factors of a slice, for four products. `tables` are scales and, `len` further, shifts from the slice's first channel on.
template <int FROM>
static __device__ __forceinline__ void make_slice(const slice &values, const float *tables, int len, float low, float high,
                                                  unsigned (&a)[4][4]) {
#pragma unroll
    for (int p = 0; p < 2; p++) {
        lanes scale = {}, shift = {};
        if (FROM == NORMED) {
            const float *at = tables + (4 * p + threadIdx.x % 4) * WIDTH;
            scale = load_row(at);
            shift = load_row(at + len);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            words made = values.at[r][p];
            if (FROM == NORMED || WIDTH == 4) {
                lanes x = unpack(made);
                if (FROM == NORMED) {
#pragma unroll
                    for (int i = 0; i < WIDTH; i++) {
                        x.at[i] = clamp(scale.at[i] * x.at[i] + shift.at[i], low, high);
                    }
                }
                made = as_factor(x);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[2 * p + i / 2][r + 2 * (i % 2)] = made.at[i];
            }
        }
    }
}

// Floats from row to row of a result in shared memory, such that the lanes of a warp meet different banks.
template <int GROUPS> static constexpr int STRIDE = GROUPS * SIDE + 16;

// Puts a warp's result of `GROUPS` groups into its own rows of shared memory.
template <int GROUPS> static __device__ __forceinline__ void put_result(const float (&d)[GROUPS][32], float *rows) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < GROUPS * PACKS * 2; i++) {
        int group = i / (PACKS * 2), p = i / 2 % PACKS, r = i % 2;
        float *to = rows + (threadIdx.x % 32 / 4 + 8 * r) * STRIDE<GROUPS> + group * SIDE + (4 * p + threadIdx.x % 4) * WIDTH;
#pragma unroll
        for (int part = 0; part < WIDTH / 4; part++) {
            words raw;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int e = part * 4 + j;
                raw.at[j] = __float_as_uint(d[group][(p * (WIDTH / 2) + e / 2) * 4 + 2 * r + e % 2]);
            }
            reinterpret_cast<words *>(to)[part] = raw;
        }
    }
    __syncwarp();
}

// Adds `sum` over the lanes that have the same channels; the first `GROUPS * SIDE / WIDTH` lanes add it to their warp's totals.
template <int GROUPS> static __device__ __forceinline__ void add_total(lanes sum, float *totals) {
    constexpr int ACROSS = GROUPS * SIDE / WIDTH;
#pragma unroll
    for (int bit = 16; bit >= ACROSS; bit /= 2) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            sum.at[i] += __shfl_xor_sync(0xffffffffu, sum.at[i], bit);
        }
    }
    if (threadIdx.x % 32 < ACROSS) {
        float *at = totals + threadIdx.x % ACROSS * WIDTH;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            at[i] += sum.at[i];
        }
    }
}

// Where a block keeps what: panels, then the rows of every warp's result, scales and shifts of what is read, and sums of every warp.
struct places {
    words *panels;
    float *rows, *tables, *totals;
};

// Copies weights and tables; `floats` floats of sums are zero then.
template <int FROM, int GROUPS>
static __device__ __forceinline__ places prepare(const source &from, const words *weights, int panels, int floats) {
    DYNAMIC_SHARED(words, shared);
    int normed = FROM == NORMED ? 2 * from.len : 0;
    float *rows = reinterpret_cast<float *>(shared + panels * PANEL);
    float *tables = rows + blockDim.x / 32 * DOWN * STRIDE<GROUPS>, *totals = tables + normed;
    for (int at = threadIdx.x; at < panels * PANEL; at += blockDim.x) {
        copy_async(shared + at, weights + at, true);
    }
    for (int at = threadIdx.x; at < normed; at += blockDim.x) {
        tables[at] = from.tables[SCALE * from.len + at];
    }
    for (int at = threadIdx.x; at < floats; at += blockDim.x) {
        totals[at] = 0.0f;
    }
    wait_for_copies();
    show_to_products();
    __syncthreads();
    return places{shared, rows + threadIdx.x / 32 * DOWN * STRIDE<GROUPS>, tables, totals};
}

// A warp's rows of the result, in shared memory and from `row` on of all `rows`, and its sums, `columns` floats from kind to kind.
struct warp_tile {
    const float *at;
    long long row;
    int rows;
    float *totals;
    int columns;
};

// Rows of the warp that starts at `row`.
static __device__ __forceinline__ int rows_of(long long row, int rows) {
    long long rest = rows - row;
    return rest < 0 ? 0 : rest > DOWN ? DOWN : (int)rest;
}

// Few channels in, many out: a lane keeps the factors of its rows and goes through the groups, two at a time, while the next rows
// are on their way. `END` has what becomes of the groups, `finish`, and what is left of a block, `close`; its kinds of sums are
// kept per warp and channel. Blocks have `columns` of the `outs` channels each.
template <int SLICES, int FROM, class END>
static __device__ __forceinline__ void widen(const source &from, const words *weights, const END &end, int rows, int outs, int columns) {
    constexpr int GROUPS = 2;
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, teams = warps / 4;
    int panels = columns / SIDE * SLICES, kept = END::KINDS * columns;
    places in = prepare<FROM, GROUPS>(from, weights + (long long)blockIdx.x * panels * PANEL, panels, warps * kept);
    float low = lower_bound(from.activation), high = upper_bound(from.activation);
    int tiles = (rows + TILE - 1) / TILE, step = gridDim.y * teams, tile = blockIdx.y * teams + warp / 4;
    slice values[SLICES];
    auto load = [&](int tile) {
        two_rows own = rows_at<FROM>(from, (long long)tile * TILE + warp % 4 * DOWN + threadIdx.x % 32 / 4, rows);
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            values[s] = load_slice<FROM>(from, own, s * SLICE);
        }
    };
    load(tile);
    for (bool first = true; tile < tiles; tile += step, first = false) {
        unsigned a[SLICES][4][4];
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            make_slice<FROM>(values[s], in.tables + s * SLICE, from.len, low, high, a[s]);
        }
        load(tile + step);
        for (int column = 0; column < columns; column += GROUPS * SIDE) {
            float d[GROUPS][32] = {};
            open_products();
#pragma unroll
            for (int i = 0; i < 4 * SLICES * GROUPS; i++) {
                int group = i / (4 * SLICES), s = i / 4 % SLICES, step = i % 4;
                multiply_panel(d[group], a[s][step], in.panels + ((column / SIDE + group) * SLICES + s) * PANEL, step);
            }
            close_products();
#pragma unroll
            for (int i = 0; i < 4 * SLICES; i++) {
                keep_rows(a[i / 4][i % 4]);
            }
            put_result<GROUPS>(d, in.rows);
            long long row = (long long)tile * TILE + warp % 4 * DOWN;
            warp_tile at = {in.rows, row, rows, in.totals + warp * kept + column, columns};
            end.template finish<GROUPS>(at, outs, blockIdx.x * columns + column, first);
        }
    }
    __syncthreads();
    end.close(in.totals, columns, blockIdx.x * columns, rows, outs);
}

// Adds the product of a source's slices, `AT_ONCE` at a time.
template <int AT_ONCE, int FROM>
static __device__ __forceinline__ void add_source(const source &from, const float *tables, const words *panels, long long row, int rows,
                                                  float (&d)[32]) {
    float low = lower_bound(from.activation), high = upper_bound(from.activation);
    two_rows own = rows_at<FROM>(from, row, rows);
    for (int start = 0; start < from.len; start += AT_ONCE * SLICE) {
        slice values[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            values[s] = load_slice<FROM>(from, own, start + s * SLICE);
        }
        unsigned a[AT_ONCE][4][4];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            make_slice<FROM>(values[s], tables + start + s * SLICE, from.len, low, high, a[s]);
        }
        keep_result(d);
        open_products();
#pragma unroll
        for (int i = 0; i < 4 * AT_ONCE; i++) {
            multiply_panel(d, a[i / 4][i % 4], panels + (start / SLICE + i / 4) * PANEL, i % 4);
        }
        close_products();
        keep_result(d);
#pragma unroll
        for (int i = 0; i < 4 * AT_ONCE; i++) {
            keep_rows(a[i / 4][i % 4]);
        }
    }
}

// Many channels in, 64 out per block, of one source and its continuation.
template <int FROM, int MORE, class END>
static __device__ __forceinline__ void narrow(const source &from, const source &more, const words *weights, const END &end, int rows,
                                              int outs) {
    constexpr int WITH = MORE == NOTHING ? FROM : MORE;
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, teams = warps / 4, kept = END::KINDS * SIDE;
    int panels = (from.len + more.len) / SLICE, step = gridDim.y * teams, tiles = (rows + TILE - 1) / TILE;
    places in = prepare<WITH, 1>(MORE == NOTHING ? from : more, weights + (long long)blockIdx.x * panels * PANEL, panels, warps * kept);
    bool first = true;
    for (int tile = blockIdx.y * teams + warp / 4; tile < tiles; tile += step, first = false) {
        long long top = (long long)tile * TILE + warp % 4 * DOWN, row = top + threadIdx.x % 32 / 4;
        float d[1][32] = {};
        add_source<2, FROM>(from, in.tables, in.panels, row, rows, d[0]);
        if (MORE != NOTHING) {
            add_source<1, MORE>(more, in.tables, in.panels + from.len / SLICE * PANEL, row, rows, d[0]);
        }
        put_result<1>(d, in.rows);
        warp_tile at = {in.rows, top, rows, in.totals + warp * kept, SIDE};
        end.template finish<1>(at, outs, blockIdx.x * SIDE, first);
    }
    __syncthreads();
    end.close(in.totals, SIDE, blockIdx.x * SIDE, rows, outs);
}
