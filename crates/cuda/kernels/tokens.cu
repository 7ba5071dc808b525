// Moves of tokens and products with factors, elementwise over `[image, pixel, channel]`.
//
// With `wide` set, channels are a multiple of WIDTH and every address is one of 16 bytes, and a thread takes WIDTH channels
// at a time. Where a kernel has `add`, it adds to what the target holds.
#include "element.cuh"

template <int W>
struct piece {
    float at[W];
};

template <int W>
static __device__ __forceinline__ piece<W> load_piece(const element *from) {
    piece<W> out;
    if constexpr (W == 1) {
        out.at[0] = load(from);
    } else {
        lanes raw = load_lanes(from);
#pragma unroll
        for (int i = 0; i < W; i++) out.at[i] = raw.at[i];
    }
    return out;
}

template <int W>
static __device__ __forceinline__ piece<W> load_floats(const float *from) {
    piece<W> out;
    if constexpr (W == 1) {
        out.at[0] = *from;
    } else {
#pragma unroll
        for (int i = 0; i < W; i += 4) {
            words raw = *reinterpret_cast<const words *>(from + i);
#pragma unroll
            for (int j = 0; j < 4; j++) out.at[i + j] = __uint_as_float(raw.at[j]);
        }
    }
    return out;
}

template <int W>
static __device__ __forceinline__ void store_piece(element *to, piece<W> x, int add) {
    if (add) {
        piece<W> before = load_piece<W>(to);
#pragma unroll
        for (int i = 0; i < W; i++) x.at[i] += before.at[i];
    }
    if constexpr (W == 1) {
        store(to, x.at[0]);
    } else {
        lanes raw;
#pragma unroll
        for (int i = 0; i < W; i++) raw.at[i] = x.at[i];
        store_lanes(to, raw);
    }
}

template <int W>
static __device__ __forceinline__ void arrange_by(const element *values, const unsigned *table, const float *learned,
                                                  element *out, int images, int cells, int tokens, int channels, int add) {
    int groups = channels / W, count = images * cells * groups;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int channel = i % groups * W, cell = i / groups % cells, image = i / groups / cells;
        unsigned from = table[cell];
        piece<W> x;
        if (from < 0x80000000u) {
            x = load_piece<W>(values + ((long long)image * tokens + from) * channels + channel);
        } else if (from != 0xffffffffu) {
            x = load_floats<W>(learned + (long long)(from - 0x80000000u) * channels + channel);
        } else if (add) {
            continue;
        } else {
#pragma unroll
            for (int j = 0; j < W; j++) x.at[j] = 0.0f;
        }
        store_piece<W>(out + (long long)i * W, x, add);
    }
}

// Cell `c` of the result is token `table[c]` of the same image; from 2^31 on a row of `learned`, and 2^32 - 1 is zeros.
extern "C" __global__ void __launch_bounds__(256)
arrange(const element *values, const unsigned *table, const float *learned, element *out, int images, int cells, int tokens,
        int channels, int add, int wide) {
    if (wide) {
        arrange_by<WIDTH>(values, table, learned, out, images, cells, tokens, channels, add);
    } else {
        arrange_by<1>(values, table, learned, out, images, cells, tokens, channels, add);
    }
}

template <int W>
static __device__ __forceinline__ void add_position_by(const element *values, const float *position, element *out, int images,
                                                       int len) {
    int pieces = len / W, count = images * pieces;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        piece<W> x = load_piece<W>(values + (long long)i * W), term = load_floats<W>(position + i % pieces * W);
#pragma unroll
        for (int j = 0; j < W; j++) x.at[j] += term.at[j];
        store_piece<W>(out + (long long)i * W, x, 0);
    }
}

// The same `len` numbers are added to every image.
extern "C" __global__ void __launch_bounds__(256)
add_position(const element *values, const float *position, element *out, int images, int len, int wide) {
    if (wide) {
        add_position_by<WIDTH>(values, position, out, images, len);
    } else {
        add_position_by<1>(values, position, out, images, len);
    }
}

template <int W>
static __device__ __forceinline__ void scale_by(const element *values, const float *factors, element *out, int pixels,
                                                int channels, int add) {
    int groups = channels / W, count = pixels * groups;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        piece<W> x = load_piece<W>(values + (long long)i * W), factor = load_floats<W>(factors + i % groups * W);
#pragma unroll
        for (int j = 0; j < W; j++) x.at[j] *= factor.at[j];
        store_piece<W>(out + (long long)i * W, x, add);
    }
}

// A factor per channel, forward and backward.
extern "C" __global__ void __launch_bounds__(256)
scale_channels(const element *values, const float *factors, element *out, int pixels, int channels, int add, int wide) {
    if (wide) {
        scale_by<WIDTH>(values, factors, out, pixels, channels, add);
    } else {
        scale_by<1>(values, factors, out, pixels, channels, add);
    }
}

template <int W>
static __device__ __forceinline__ void multiply_by(const element *values, const element *gate, element *out, int images,
                                                   int len, int gate_len, int add) {
    int pieces = len / W, gate_pieces = gate_len / W, count = images * pieces;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int image = i / pieces, within = i % pieces % gate_pieces;
        piece<W> x = load_piece<W>(values + (long long)i * W);
        piece<W> factor = load_piece<W>(gate + ((long long)image * gate_pieces + within) * W);
#pragma unroll
        for (int j = 0; j < W; j++) x.at[j] *= factor.at[j];
        store_piece<W>(out + (long long)i * W, x, add);
    }
}

// Product with a gate of as many numbers per image, or of one pixel.
extern "C" __global__ void __launch_bounds__(256)
multiply(const element *values, const element *gate, element *out, int images, int len, int gate_len, int add, int wide) {
    if (wide) {
        multiply_by<WIDTH>(values, gate, out, images, len, gate_len, add);
    } else {
        multiply_by<1>(values, gate, out, images, len, gate_len, add);
    }
}

template <int W>
static __device__ __forceinline__ void gate_gradient_by(const element *gradient, const element *values, element *target,
                                                        int pixels, int channels, int add, float *sums) {
    int channel = (blockIdx.x * 32 + threadIdx.x) * W;
    long long start = (long long)blockIdx.y * pixels * channels + channel;
    float *mine = sums + (threadIdx.y * 32 + threadIdx.x) * W;
    piece<W> sum;
#pragma unroll
    for (int j = 0; j < W; j++) sum.at[j] = 0.0f;
    if (channel < channels) {
        for (int pixel = threadIdx.y; pixel < pixels; pixel += blockDim.y) {
            piece<W> g = load_piece<W>(gradient + start + (long long)pixel * channels);
            piece<W> x = load_piece<W>(values + start + (long long)pixel * channels);
#pragma unroll
            for (int j = 0; j < W; j++) sum.at[j] = fmaf(g.at[j], x.at[j], sum.at[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < W; j++) mine[j] = sum.at[j];
    __syncthreads();
    if (threadIdx.y == 0 && channel < channels) {
        for (int row = 1; row < (int)blockDim.y; row++)
#pragma unroll
            for (int j = 0; j < W; j++) sum.at[j] += mine[row * 32 * W + j];
        store_piece<W>(target + (long long)blockIdx.y * channels + channel, sum, add);
    }
}

// The gradient of a gate of one pixel: the sum over pixels. Blocks are 32 x 8 threads, and a grid row is an image.
extern "C" __global__ void __launch_bounds__(256)
multiply_backward_gate(const element *gradient, const element *values, element *target, int pixels, int channels, int add,
                       int wide) {
    __shared__ float sums[8 * 32 * WIDTH];
    if (wide) {
        gate_gradient_by<WIDTH>(gradient, values, target, pixels, channels, add, sums);
    } else {
        gate_gradient_by<1>(gradient, values, target, pixels, channels, add, sums);
    }
}

// Rows and columns of every image exchanged. Blocks are 32 x 8 threads; a grid plane is an image.
extern "C" __global__ void __launch_bounds__(256)
transpose(const element *values, element *out, int rows, int columns, int add) {
    __shared__ float tile[32][33];
    long long start = (long long)blockIdx.z * rows * columns;
    for (int i = threadIdx.y; i < 32; i += 8) {
        int row = blockIdx.y * 32 + i, column = blockIdx.x * 32 + threadIdx.x;
        if (row < rows && column < columns) {
            tile[i][threadIdx.x] = load(values + start + (long long)row * columns + column);
        }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) {
        int column = blockIdx.x * 32 + i, row = blockIdx.y * 32 + threadIdx.x;
        if (row < rows && column < columns) {
            element *to = out + start + (long long)column * rows + row;
            store(to, tile[threadIdx.x][i] + (add ? load(to) : 0.0f));
        }
    }
}

// Every `stride`-th pixel, with zero channels around. `small` channels are those of the input, `large` those of the result.
extern "C" __global__ void __launch_bounds__(256)
shortcut_a(const element *values, element *out, int images, int height, int width, int out_height, int out_width, int small,
           int large, int stride) {
    int front = (large - small) / 2, count = images * out_height * out_width * large;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int channel = i % large - front, pixel = i / large;
        int x = pixel % out_width * stride, y = pixel / out_width % out_height * stride;
        int image = pixel / out_width / out_height;
        float value = 0.0f;
        if (channel >= 0 && channel < small) {
            value = load(values + (((long long)image * height + y) * width + x) * small + channel);
        }
        store(out + i, value);
    }
}

extern "C" __global__ void __launch_bounds__(256)
shortcut_a_backward(const element *gradient, element *target, int images, int height, int width, int out_height,
                    int out_width, int small, int large, int stride, int add) {
    int front = (large - small) / 2, count = images * height * width * small;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int channel = i % small, pixel = i / small;
        int x = pixel % width, y = pixel / width % height, image = pixel / width / height;
        float value = add ? load(target + i) : 0.0f;
        if (x % stride == 0 && y % stride == 0 && x / stride < out_width && y / stride < out_height) {
            long long from = ((long long)image * out_height + y / stride) * out_width + x / stride;
            value += load(gradient + from * large + front + channel);
        }
        store(target + i, value);
    }
}
