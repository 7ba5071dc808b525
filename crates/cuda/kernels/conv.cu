// Convolutions that the libraries do badly or not at all: depthwise ones, and a plain loop for any other.
#include "activation.cuh"
#include "element.cuh"

struct conv {
    int images, height, width, in_channels, out_height, out_width, out_channels;
    int kernel_height, kernel_width, stride, pad_top, pad_left, dilation, groups;
};

#define CONV                                                                                                              \
    int images, int height, int width, int in_channels, int out_height, int out_width, int out_channels, int kernel_height, \
        int kernel_width, int stride, int pad_top, int pad_left, int dilation, int groups
#define CONV_OF                                                                                                           \
    conv {                                                                                                                \
        images, height, width, in_channels, out_height, out_width, out_channels, kernel_height, kernel_width, stride,     \
            pad_top, pad_left, dilation, groups                                                                           \
    }
#define SOURCE const element *values, const float *scale, const float *shift, int activation, int pixels

// One thread per output. `weights` are [out][row][column][in of the group].
extern "C" __global__ void conv_plain(const element *values, const element *weights, element *out, int add, CONV) {
    conv s = CONV_OF;
    long long count = (long long)s.images * s.out_height * s.out_width * s.out_channels;
    long long step = (long long)gridDim.x * blockDim.x;
    int ins = s.in_channels / s.groups, outs = s.out_channels / s.groups;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int k = (int)(i % s.out_channels);
        long long pixel = i / s.out_channels;
        int x = (int)(pixel % s.out_width) * s.stride - s.pad_left;
        int y = (int)(pixel / s.out_width % s.out_height) * s.stride - s.pad_top;
        long long image = pixel / ((long long)s.out_width * s.out_height);
        int first = k / outs * ins;
        float sum = 0.0f;
        for (int ky = 0; ky < s.kernel_height; ky++) {
            for (int kx = 0; kx < s.kernel_width; kx++) {
                int iy = y + ky * s.dilation, ix = x + kx * s.dilation;
                if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) {
                    continue;
                }
                const element *from = values + ((image * s.height + iy) * s.width + ix) * s.in_channels + first;
                const element *taps = weights + (((long long)k * s.kernel_height + ky) * s.kernel_width + kx) * ins;
                for (int c = 0; c < ins; c++) {
                    sum += load(from + c) * load(taps + c);
                }
            }
        }
        store(out + i, add ? load(out + i) + sum : sum);
    }
}

// One thread per input: the gradient gathered from the outputs that read it.
extern "C" __global__ void conv_plain_back(const element *gradient, const element *weights, element *out, int add, CONV) {
    conv s = CONV_OF;
    long long count = (long long)s.images * s.height * s.width * s.in_channels;
    long long step = (long long)gridDim.x * blockDim.x;
    int ins = s.in_channels / s.groups, outs = s.out_channels / s.groups;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int c = (int)(i % s.in_channels);
        long long pixel = i / s.in_channels;
        int x = (int)(pixel % s.width) + s.pad_left;
        int y = (int)(pixel / s.width % s.height) + s.pad_top;
        long long image = pixel / ((long long)s.width * s.height);
        int first = c / ins * outs;
        float sum = 0.0f;
        for (int ky = 0; ky < s.kernel_height; ky++) {
            int oy = y - ky * s.dilation;
            if (oy < 0 || oy % s.stride || oy / s.stride >= s.out_height) {
                continue;
            }
            for (int kx = 0; kx < s.kernel_width; kx++) {
                int ox = x - kx * s.dilation;
                if (ox < 0 || ox % s.stride || ox / s.stride >= s.out_width) {
                    continue;
                }
                const element *from =
                    gradient + ((image * s.out_height + oy / s.stride) * s.out_width + ox / s.stride) * s.out_channels + first;
                for (int k = 0; k < outs; k++) {
                    long long tap = (((long long)(first + k) * s.kernel_height + ky) * s.kernel_width + kx) * ins + c % ins;
                    sum += load(from + k) * load(weights + tap);
                }
            }
        }
        store(out + i, add ? load(out + i) + sum : sum);
    }
}

#define QUAD 4

struct quad {
    float at[QUAD];
};

struct alignas(8) half_words {
    unsigned at[2];
};

// Four elements, on a multiple of their size.
static __device__ __forceinline__ quad load_quad(const element *from) {
    quad out;
#if FLIPCAST_BF16
    half_words raw = *reinterpret_cast<const half_words *>(from);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        out.at[2 * i] = from_brain(raw.at[i] & 0xffffu);
        out.at[2 * i + 1] = __uint_as_float(raw.at[i] & 0xffff0000u);
    }
#else
    lanes raw = load_lanes(from);
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        out.at[i] = raw.at[i];
    }
#endif
    return out;
}

static __device__ __forceinline__ void store_quad(element *to, const quad &x) {
#if FLIPCAST_BF16
    half_words raw;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        raw.at[i] = to_brain(x.at[2 * i]) | (to_brain(x.at[2 * i + 1]) << 16);
    }
    *reinterpret_cast<half_words *>(to) = raw;
#else
    lanes raw;
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        raw.at[i] = x.at[i];
    }
    store_lanes(to, raw);
#endif
}

static __device__ __forceinline__ quad load_four(const float *from) {
    quad out;
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        out.at[i] = from[i];
    }
    return out;
}

// Four channels of a run of STRIP outputs in a row of a 3x3 depthwise convolution. Beyond the border there are zeros.
// `weights` are [row][column][channel], 32-bit.
#define STRIP 4
template <int STRIDE, int KIND, bool SCALED>
static __device__ __forceinline__ void depthwise_rows(SOURCE, const float *weights, const float *bias, element *out, int add, conv s) {
    unsigned quads = s.in_channels / QUAD, strips = (s.out_width + STRIP - 1) / STRIP;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.images * s.out_height * strips * quads) {
        return;
    }
    int c = (int)(i % quads) * QUAD;
    unsigned rest = i / quads;
    int ox = (int)(rest % strips) * STRIP;
    rest /= strips;
    int oy = (int)(rest % s.out_height);
    int image = (int)(rest / s.out_height);
    quad factor, offset, start;
    if (SCALED) {
        int at = pixels ? image * s.in_channels + c : c;
#pragma unroll
        for (int k = 0; k < QUAD; k++) {
            factor.at[k] = scale ? scale[at + k] : 1.0f;
            offset.at[k] = scale ? shift[at + k] : 0.0f;
        }
    }
    float low = lower_bound(activation), high = upper_bound(activation);
#pragma unroll
    for (int k = 0; k < QUAD; k++) {
        start.at[k] = bias ? bias[c + k] : 0.0f;
    }
    quad sums[STRIP];
#pragma unroll
    for (int o = 0; o < STRIP; o++) {
        sums[o] = start;
    }
    int left = ox * STRIDE - s.pad_left, top = oy * STRIDE - s.pad_top;
    const element *corner = values + ((long long)(image * s.height + top) * s.width + left) * s.in_channels + c;
    const int columns = (STRIP - 1) * STRIDE + 3;
#pragma unroll
    for (int ky = 0; ky < 3; ky++) {
        if (top + ky < 0 || top + ky >= s.height) {
            continue;
        }
        const element *row = corner + (long long)ky * s.width * s.in_channels;
        quad from[columns];
#pragma unroll
        for (int j = 0; j < columns; j++) {
            if (left + j >= 0 && left + j < s.width) {
                from[j] = load_quad(row + j * s.in_channels);
            }
        }
        quad taps[3];
#pragma unroll
        for (int kx = 0; kx < 3; kx++) {
            taps[kx] = load_four(weights + (ky * 3 + kx) * s.in_channels + c);
        }
#pragma unroll
        for (int j = 0; j < columns; j++) {
            bool inside = left + j >= 0 && left + j < s.width;
#pragma unroll
            for (int k = 0; k < QUAD; k++) {
                float z = from[j].at[k];
                if (SCALED) {
                    z = factor.at[k] * z + offset.at[k];
                }
                z = activate_as<KIND>(activation, z, low, high);
                z = inside ? z : 0.0f;
#pragma unroll
                for (int o = 0; o < STRIP; o++) {
                    int kx = j - o * STRIDE;
                    if (kx >= 0 && kx < 3) {
                        sums[o].at[k] += z * taps[kx].at[k];
                    }
                }
            }
        }
    }
    element *to = out + ((long long)(image * s.out_height + oy) * s.out_width + ox) * s.in_channels + c;
#pragma unroll
    for (int o = 0; o < STRIP; o++) {
        if (ox + o < s.out_width) {
            if (add) {
                quad before = load_quad(to + o * s.in_channels);
#pragma unroll
                for (int k = 0; k < QUAD; k++) {
                    sums[o].at[k] += before.at[k];
                }
            }
            store_quad(to + o * s.in_channels, sums[o]);
        }
    }
}

template <int STRIDE>
static __device__ __forceinline__ void depthwise_3(SOURCE, const float *weights, const float *bias, element *out, int add, conv s) {
    if (!scale && activation == IDENTITY) {
        depthwise_rows<STRIDE, LINEAR, false>(values, scale, shift, activation, pixels, weights, bias, out, add, s);
    } else if (activation <= RELU6) {
        depthwise_rows<STRIDE, CLAMPED, true>(values, scale, shift, activation, pixels, weights, bias, out, add, s);
    } else {
        depthwise_rows<STRIDE, CURVED, true>(values, scale, shift, activation, pixels, weights, bias, out, add, s);
    }
}

extern "C" __global__ void depthwise_3_1(SOURCE, const float *weights, const float *bias, element *out, int add, CONV) {
    depthwise_3<1>(values, scale, shift, activation, pixels, weights, bias, out, add, CONV_OF);
}

extern "C" __global__ void depthwise_3_2(SOURCE, const float *weights, const float *bias, element *out, int add, CONV) {
    depthwise_3<2>(values, scale, shift, activation, pixels, weights, bias, out, add, CONV_OF);
}

// The gradient of a 3x3 depthwise convolution of stride 2: four channels of two by two inputs, which see four outputs.
extern "C" __global__ void depthwise_3_back_2(const element *gradient, const float *weights, element *out, int add, CONV) {
    conv s = CONV_OF;
    unsigned quads = s.in_channels / QUAD;
    unsigned down = (s.height - 1 + s.pad_top) / 2 + 1, across = (s.width - 1 + s.pad_left) / 2 + 1;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.images * down * across * quads) {
        return;
    }
    int c = (int)(i % quads) * QUAD;
    unsigned rest = i / quads;
    int bx = (int)(rest % across);
    rest /= across;
    int by = (int)(rest % down);
    int image = (int)(rest / down);
    // Outputs at rows by - 1 and by, columns bx - 1 and bx.
    quad g[2][2];
#pragma unroll
    for (int dy = 0; dy < 2; dy++) {
#pragma unroll
        for (int dx = 0; dx < 2; dx++) {
            int oy = by - 1 + dy, ox = bx - 1 + dx;
            if (oy >= 0 && oy < s.out_height && ox >= 0 && ox < s.out_width) {
                g[dy][dx] = load_quad(gradient + ((long long)(image * s.out_height + oy) * s.out_width + ox) * s.out_channels + c);
            } else {
#pragma unroll
                for (int k = 0; k < QUAD; k++) {
                    g[dy][dx].at[k] = 0.0f;
                }
            }
        }
    }
    quad taps[9];
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
        taps[tap] = load_four(weights + tap * s.in_channels + c);
    }
    // In padded coordinates, an even position is tap 0 of its own output and tap 2 of the one before; an odd one is tap 1.
#pragma unroll
    for (int py = 0; py < 2; py++) {
#pragma unroll
        for (int px = 0; px < 2; px++) {
            int y = 2 * by + py - s.pad_top, x = 2 * bx + px - s.pad_left;
            if (y < 0 || y >= s.height || x < 0 || x >= s.width) {
                continue;
            }
            quad sum;
#pragma unroll
            for (int k = 0; k < QUAD; k++) {
                sum.at[k] = 0.0f;
            }
#pragma unroll
            for (int dy = py; dy < 2; dy++) {
#pragma unroll
                for (int dx = px; dx < 2; dx++) {
                    int ky = py ? 1 : 2 * (1 - dy), kx = px ? 1 : 2 * (1 - dx);
#pragma unroll
                    for (int k = 0; k < QUAD; k++) {
                        sum.at[k] += g[dy][dx].at[k] * taps[ky * 3 + kx].at[k];
                    }
                }
            }
            element *to = out + ((long long)(image * s.height + y) * s.width + x) * s.in_channels + c;
            if (add) {
                quad before = load_quad(to);
#pragma unroll
                for (int k = 0; k < QUAD; k++) {
                    sum.at[k] += before.at[k];
                }
            }
            store_quad(to, sum);
        }
    }
}

// Any other depthwise convolution: four channels of one output.
extern "C" __global__ void depthwise_any(SOURCE, const float *weights, const float *bias, element *out, int add, CONV) {
    conv s = CONV_OF;
    int quads = s.in_channels / QUAD;
    long long count = (long long)s.images * s.out_height * s.out_width * quads;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int c = (int)(i % quads) * QUAD;
        long long pixel = i / quads;
        int x = (int)(pixel % s.out_width) * s.stride - s.pad_left;
        int y = (int)(pixel / s.out_width % s.out_height) * s.stride - s.pad_top;
        long long image = pixel / ((long long)s.out_width * s.out_height);
        long long at = pixels ? image * s.in_channels + c : c;
        quad sum;
#pragma unroll
        for (int k = 0; k < QUAD; k++) {
            sum.at[k] = bias ? bias[c + k] : 0.0f;
        }
        for (int ky = 0; ky < s.kernel_height; ky++) {
            int iy = y + ky * s.dilation;
            if (iy < 0 || iy >= s.height) {
                continue;
            }
            for (int kx = 0; kx < s.kernel_width; kx++) {
                int ix = x + kx * s.dilation;
                if (ix < 0 || ix >= s.width) {
                    continue;
                }
                quad z = load_quad(values + ((image * s.height + iy) * s.width + ix) * (long long)s.in_channels + c);
                quad taps = load_four(weights + (ky * s.kernel_width + kx) * s.in_channels + c);
#pragma unroll
                for (int k = 0; k < QUAD; k++) {
                    float v = scale ? scale[at + k] * z.at[k] + shift[at + k] : z.at[k];
                    sum.at[k] += activate(activation, v) * taps.at[k];
                }
            }
        }
        element *to = out + pixel * s.in_channels + c;
        if (add) {
            quad before = load_quad(to);
#pragma unroll
            for (int k = 0; k < QUAD; k++) {
                sum.at[k] += before.at[k];
            }
        }
        store_quad(to, sum);
    }
}

// The gradient of a strided depthwise convolution's input.
extern "C" __global__ void depthwise_back(const element *gradient, const float *weights, element *out, int add, CONV) {
    conv s = CONV_OF;
    int quads = s.in_channels / QUAD;
    long long count = (long long)s.images * s.height * s.width * quads;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int c = (int)(i % quads) * QUAD;
        long long pixel = i / quads;
        int x = (int)(pixel % s.width) + s.pad_left;
        int y = (int)(pixel / s.width % s.height) + s.pad_top;
        long long image = pixel / ((long long)s.width * s.height);
        quad sum;
#pragma unroll
        for (int k = 0; k < QUAD; k++) {
            sum.at[k] = 0.0f;
        }
        for (int ky = 0; ky < s.kernel_height; ky++) {
            int oy = y - ky * s.dilation;
            if (oy < 0 || oy % s.stride || oy / s.stride >= s.out_height) {
                continue;
            }
            for (int kx = 0; kx < s.kernel_width; kx++) {
                int ox = x - kx * s.dilation;
                if (ox < 0 || ox % s.stride || ox / s.stride >= s.out_width) {
                    continue;
                }
                long long at = ((image * s.out_height + oy / s.stride) * s.out_width + ox / s.stride) * s.out_channels + c;
                quad g = load_quad(gradient + at);
                quad taps = load_four(weights + (ky * s.kernel_width + kx) * s.in_channels + c);
#pragma unroll
                for (int k = 0; k < QUAD; k++) {
                    sum.at[k] += g.at[k] * taps.at[k];
                }
            }
        }
        element *to = out + pixel * s.in_channels + c;
        if (add) {
            quad before = load_quad(to);
#pragma unroll
            for (int k = 0; k < QUAD; k++) {
                sum.at[k] += before.at[k];
            }
        }
        store_quad(to, sum);
    }
}

// values[row][c] += bias[c]
extern "C" __global__ void add_bias(element *values, const float *bias, long long count, int channels) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        store(values + i, load(values + i) + bias[i % channels]);
    }
}
