// The gradient of a pointwise convolution with everything around it: a norm's gradient is made while it is read, and what the
// next norms need is gathered while the result is written.
//
//   out[row][in] = sum over outs of carried[row][out] * weights[out][in],  carried = slope * below(g) + pull * values + constant
//
// The next slice is on its way while one is multiplied.
#include "pointwise.cuh"

#define PLAIN 0
#define JOIN 1
#define SUMS 2

// What is read: the gradient above a norm and an activation, the values below them, and the norm's tables.
struct carried {
    const element *gradient, *values;
    const float *tables;
    int activation;
};

// What becomes of the result. A join's gradient is added to, times the slope, and summed alone and with the centred values of up
// to two norms; below a norm and an activation, it is summed in the same way after the activation.
struct ending {
    element *out;
    int add;
    const unsigned char *mask;
    const element *a_values, *b_values;
    const float *a_centre, *b_centre, *scale, *shift;
    int activation;
    float *partial;
};

struct slice {
    words gradient[A_PIECES], values[A_PIECES];
};

static __device__ __forceinline__ void fetch(const carried &from, slice &to, int top, int start, int rows, int outs) {
    int column = start + threadIdx.x % A_GROUPS * WIDTH;
#pragma unroll
    for (int i = 0; i < A_PIECES; i++) {
        int row = top + threadIdx.x / A_GROUPS + i * A_STEP;
        if (row < rows) {
            long long at = (long long)row * outs + column;
            to.gradient[i] = *reinterpret_cast<const words *>(from.gradient + at);
            to.values[i] = *reinterpret_cast<const words *>(from.values + at);
        }
    }
}

// Values in a word of a slice, and those values of the norm's tables.
#define EACH (WIDTH / 4)

struct carrying {
    pack<EACH> scale, shift, slope, pull, constant;
    float low, high;
};

// The values of one word, carried through the norm.
static __device__ __forceinline__ unsigned carry_word(unsigned gradient, unsigned values, int activation, const carrying &by) {
    float made[2];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
#if FLIPCAST_BF16
        float g = i ? __uint_as_float(gradient & 0xffff0000u) : from_brain(gradient & 0xffffu);
        float y = i ? __uint_as_float(values & 0xffff0000u) : from_brain(values & 0xffffu);
#else
        float g = __uint_as_float(gradient), y = __uint_as_float(values);
#endif
        float d = below_as<CLAMPED>(activation, g, by.scale.at[i] * y + by.shift.at[i], by.low, by.high);
        made[i] = by.slope.at[i] * d + (by.pull.at[i] * y + by.constant.at[i]);
    }
#if FLIPCAST_BF16
    return pack_brain(made[0], made[1]);
#else
    return to_tf32(made[0]);
#endif
}

// Carries a slice through the norm, into shared memory. It is changed word by word, so that few tables are held at a time.
static __device__ __forceinline__ void place(const carried &from, slice &of, element *to, int top, int start, int rows, int outs) {
    int group = threadIdx.x % A_GROUPS * WIDTH;
    carrying by;
    by.low = lower_bound(from.activation);
    by.high = upper_bound(from.activation);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float *tables = from.tables + start + group + j * EACH;
        by.scale = load_floats<EACH>(tables + SCALE * outs);
        by.shift = load_floats<EACH>(tables + SHIFT * outs);
        by.slope = load_floats<EACH>(tables + SLOPE * outs);
        by.pull = load_floats<EACH>(tables + PULL * outs);
        by.constant = load_floats<EACH>(tables + CONSTANT * outs);
#pragma unroll
        for (int i = 0; i < A_PIECES; i++) {
            of.gradient[i].at[j] = carry_word(of.gradient[i].at[j], of.values[i].at[j], from.activation, by);
        }
    }
#pragma unroll
    for (int i = 0; i < A_PIECES; i++) {
        int row = threadIdx.x / A_GROUPS + i * A_STEP;
        if (top + row >= rows) {
            of.gradient[i] = words{{0, 0, 0, 0}};
        }
        *reinterpret_cast<words *>(to + row * A_STRIDE + group) = of.gradient[i];
    }
}

// Begins to copy a slice of the weights.
template <int BN>
static __device__ __forceinline__ void copy_weights(const element *weights, element *to, int left, int start, int ins) {
    constexpr int GROUPS = BN / WIDTH;
#pragma unroll
    for (int at = threadIdx.x; at < BK * GROUPS; at += BLOCK) {
        int row = at / GROUPS, column = at % GROUPS * WIDTH;
        copy_async(to + row * B_STRIDE + column, weights + (long long)(start + row) * ins + left + column, true);
    }
}

// Adds the product of two slices; the second has rows of `B_STRIDE` along the result.
template <int BN>
static __device__ __forceinline__ void multiply(const element *a, const element *b, float (&sum)[2][BN / 16][4]) {
    int lane = threadIdx.x % 32, left = threadIdx.x / 128 * (BN / 2);
#if FLIPCAST_BF16
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
        unsigned rows[2][4];
        load_rows(a, k, rows);
#pragma unroll
        for (int n = 0; n < BN / 16; n += 2) {
            unsigned columns[4];
            int matrix = lane / 8;
            load_matrices_transposed(columns, b + (k + matrix % 2 * 8 + lane % 8) * B_STRIDE + left + n * 8 + matrix / 2 * 8);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_bf16_16x8x16(sum[m][n], rows[m], columns[0], columns[1]);
                mma_bf16_16x8x16(sum[m][n + 1], rows[m], columns[2], columns[3]);
            }
        }
    }
#else
#pragma unroll
    for (int k = 0; k < BK; k += 8) {
        unsigned rows[2][4];
        load_rows(a, k, rows);
#pragma unroll
        for (int n = 0; n < BN / 16; n++) {
            const float *at = b + (k + lane % 4) * B_STRIDE + left + n * 8 + lane / 4;
            unsigned first = __float_as_uint(at[0]), second = __float_as_uint(at[4 * B_STRIDE]);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_tf32_16x8x8(sum[m][n], rows[m], first, second);
            }
        }
    }
#endif
}

// Puts sums per column into slot `which` of the block's partial sums.
template <int BN>
static __device__ __forceinline__ void put_columns(const pack<8> &sum, float *room, float *partial, int which, int left, int ins) {
    float all = over_rows<BN>(sum, room);
    if (threadIdx.x < BN) {
        partial[((long long)which * gridDim.y + blockIdx.y) * ins + left + threadIdx.x] = all;
    }
}

// Writes the tile in shared memory.
template <int BN, int END>
static __device__ __forceinline__ void finish(const ending &to, float *tile, int top, int left, int rows, int ins) {
    constexpr int PACKS = BN / 8, STEP = BLOCK / PACKS;
    int column = threadIdx.x % PACKS * 8, c = left + column;
    pack<8> sum = filled<8>(0.0f), of_a = sum, of_b = sum, a_mid = sum, b_mid = sum, scale = sum, shift = sum;
    float low = lower_bound(to.activation), high = upper_bound(to.activation);
    bool has_a = END != PLAIN && to.a_values, has_b = END == JOIN && to.b_values;
    if (has_a) {
        a_mid = load_floats<8>(to.a_centre + c);
    }
    if (has_b) {
        b_mid = load_floats<8>(to.b_centre + c);
    }
    if (END == SUMS) {
        scale = load_floats<8>(to.scale + c);
        shift = load_floats<8>(to.shift + c);
    }
    for (int first = threadIdx.x / PACKS; first < BM; first += ROWS * STEP) {
        stored<8> before[ROWS], from_a[ROWS], from_b[ROWS];
        unsigned inside[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = top + first + r * STEP;
            long long at = (long long)row * ins + c;
            inside[r] = 0xffu;
            if (row < rows && first + r * STEP < BM) {
                if (to.add) {
                    before[r].take(to.out + at);
                }
                if (END == JOIN && to.mask) {
                    inside[r] = to.mask[at / 8];
                }
                if (has_a) {
                    from_a[r].take(to.a_values + at);
                }
                if (has_b) {
                    from_b[r].take(to.b_values + at);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = first + r * STEP;
            if (row >= BM || top + row >= rows) {
                break;
            }
            pack<8> g = load_tile(tile + row * B_STRIDE + column);
            if (to.add) {
                pack<8> added = before[r].wide();
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    g.at[i] += added.at[i];
                }
            }
            if (END == JOIN) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    g.at[i] = (inside[r] >> i) & 1u ? g.at[i] : 0.0f;
                }
            }
            store_pack<8>(to.out + (long long)(top + row) * ins + c, g);
            if (END == SUMS) {
                pack<8> y = from_a[r].wide();
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float d = below_as<CLAMPED>(to.activation, g.at[i], scale.at[i] * y.at[i] + shift.at[i], low, high);
                    sum.at[i] += d;
                    of_a.at[i] += d * (y.at[i] - a_mid.at[i]);
                }
            }
            if (END == JOIN) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    sum.at[i] += g.at[i];
                }
                if (has_a) {
                    pack<8> y = from_a[r].wide();
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        of_a.at[i] += g.at[i] * (y.at[i] - a_mid.at[i]);
                    }
                }
                if (has_b) {
                    pack<8> y = from_b[r].wide();
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        of_b.at[i] += g.at[i] * (y.at[i] - b_mid.at[i]);
                    }
                }
            }
        }
    }
    if (END != PLAIN) {
        put_columns<BN>(sum, tile, to.partial, 0, left, ins);
    }
    if (has_a) {
        put_columns<BN>(of_a, tile, to.partial, 1, left, ins);
    }
    if (has_b) {
        put_columns<BN>(of_b, tile, to.partial, 2, left, ins);
    }
}

template <int BN, int END>
static __device__ __forceinline__ void pointwise_back(const carried &from, const element *weights, const ending &to, int rows, int outs, int ins) {
    DYNAMIC_SHARED(element, shared);
    constexpr int OF_A = BM * A_STRIDE, STAGE = OF_A + BK * B_STRIDE;
    int left = blockIdx.x * BN, top = blockIdx.y * BM;
    float sum[2][BN / 16][4];
#pragma unroll
    for (int i = 0; i < 2 * (BN / 16) * 4; i++) {
        sum[i / 4 / (BN / 16)][i / 4 % (BN / 16)][i % 4] = 0.0f;
    }
    slice next;
    fetch(from, next, top, 0, rows, outs);
    copy_weights<BN>(weights, shared + OF_A, left, 0, ins);
    place(from, next, shared, top, 0, rows, outs);
    wait_for_copies();
    __syncthreads();
    for (int start = 0, stage = 0; start < outs; start += BK, stage ^= 1) {
        element *here = shared + stage * STAGE, *there = shared + (stage ^ 1) * STAGE;
        bool more = start + BK < outs;
        if (more) {
            fetch(from, next, top, start + BK, rows, outs);
            copy_weights<BN>(weights, there + OF_A, left, start + BK, ins);
        }
        multiply<BN>(here, here + OF_A, sum);
        if (more) {
            place(from, next, there, top, start + BK, rows, outs);
        }
        wait_for_copies();
        __syncthreads();
    }
    float *tile = reinterpret_cast<float *>(shared);
    put_tile<BN>(sum, tile);
    finish<BN, END>(to, tile, top, left, rows, ins);
}

#define ARGUMENTS                                                                                                          \
    const element *gradient, const element *values, const float *tables, int activation, const element *weights,           \
        element *out, int add, const unsigned char *mask, const element *a_values, const float *a_centre,                   \
        const element *b_values, const float *b_centre, const float *scale, const float *shift, int below, float *partial, \
        int rows, int outs, int ins
#define CALL(bn, end)                                                                                                      \
    carried from = {gradient, values, tables, activation};                                                                 \
    ending to = {out, add, mask, a_values, b_values, a_centre, b_centre, scale, shift, below, partial};            \
    pointwise_back<bn, end>(from, weights, to, rows, outs, ins)

extern "C" __global__ void __launch_bounds__(256, 2) pointwise_back_plain_128(ARGUMENTS) { CALL(128, PLAIN); }
extern "C" __global__ void __launch_bounds__(256, 2) pointwise_back_join_128(ARGUMENTS) { CALL(128, JOIN); }
extern "C" __global__ void __launch_bounds__(256, 2) pointwise_back_sums_128(ARGUMENTS) { CALL(128, SUMS); }
extern "C" __global__ void __launch_bounds__(256, 2) pointwise_back_plain_64(ARGUMENTS) { CALL(64, PLAIN); }
extern "C" __global__ void __launch_bounds__(256, 2) pointwise_back_join_64(ARGUMENTS) { CALL(64, JOIN); }
extern "C" __global__ void __launch_bounds__(256, 2) pointwise_back_sums_64(ARGUMENTS) { CALL(64, SUMS); }
