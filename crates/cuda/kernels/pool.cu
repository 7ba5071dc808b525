// Pools, forward and backward. What they read may be derived: `activate(scale * y + shift)`.
#include "activation.cuh"
#include "rows.cuh"

struct window {
    int height, width, out_height, out_width, channels, kernel, stride, padding;
};

#define WINDOW int height, int width, int out_height, int out_width, int channels, int kernel, int stride, int padding
#define WINDOW_OF window{height, width, out_height, out_width, channels, kernel, stride, padding}
#define SOURCE const element *values, const float *scale, const float *shift, int activation, int pixels

// The derived values of `V` channels from `c` of one pixel.
template <int V>
static __device__ __forceinline__ pack<V> derived(SOURCE, long long pixel, int c, int channels) {
    pack<V> y = load_pack<V>(values + pixel * channels + c);
    if (scale) {
        long long at = pixels ? (pixel / pixels) * channels + c : c;
#pragma unroll
        for (int i = 0; i < V; i++) {
            y.at[i] = scale[at + i] * y.at[i] + shift[at + i];
        }
    }
    if (activation != IDENTITY) {
#pragma unroll
        for (int i = 0; i < V; i++) {
            y.at[i] = activate(activation, y.at[i]);
        }
    }
    return y;
}

// Largest value of each window, and which tap it was (the first, on a tie); or the mean over the whole window.
template <int V, bool MAX>
static __device__ __forceinline__ void pool(SOURCE, element *out, unsigned char *choices, int images, window w) {
    int packs = w.channels / V;
    long long count = (long long)images * w.out_height * w.out_width * packs;
    long long step = (long long)gridDim.x * blockDim.x;
    float share = 1.0f / (float)(w.kernel * w.kernel);
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int c = (int)(i % packs) * V;
        long long pixel = i / packs;
        int x = (int)(pixel % w.out_width) * w.stride - w.padding;
        int y = (int)(pixel / w.out_width % w.out_height) * w.stride - w.padding;
        long long image = pixel / ((long long)w.out_width * w.out_height);
        pack<V> best = filled<V>(0.0f);
        int taps[V];
        bool first = true;
#pragma unroll
        for (int k = 0; k < V; k++) {
            taps[k] = 0;
        }
        for (int ky = 0; ky < w.kernel; ky++) {
            for (int kx = 0; kx < w.kernel; kx++) {
                if (y + ky < 0 || y + ky >= w.height || x + kx < 0 || x + kx >= w.width) {
                    continue;
                }
                long long from = (image * w.height + y + ky) * w.width + x + kx;
                pack<V> z = derived<V>(values, scale, shift, activation, pixels, from, c, w.channels);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    if (!MAX) {
                        best.at[k] += z.at[k];
                    } else if (first || z.at[k] > best.at[k] || z.at[k] != z.at[k]) {
                        best.at[k] = z.at[k];
                        taps[k] = ky * w.kernel + kx;
                    }
                }
                first = false;
            }
        }
        if (!MAX) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                best.at[k] *= share;
            }
        } else if (choices) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                choices[pixel * w.channels + c + k] = (unsigned char)taps[k];
            }
        }
        store_pack<V>(out + pixel * w.channels + c, best);
    }
}

extern "C" __global__ void max_pool_wide(SOURCE, element *out, unsigned char *choices, int images, WINDOW) {
    pool<8, true>(values, scale, shift, activation, pixels, out, choices, images, WINDOW_OF);
}

extern "C" __global__ void max_pool_narrow(SOURCE, element *out, unsigned char *choices, int images, WINDOW) {
    pool<1, true>(values, scale, shift, activation, pixels, out, choices, images, WINDOW_OF);
}

extern "C" __global__ void avg_pool_wide(SOURCE, element *out, unsigned char *choices, int images, WINDOW) {
    pool<8, false>(values, scale, shift, activation, pixels, out, choices, images, WINDOW_OF);
}

extern "C" __global__ void avg_pool_narrow(SOURCE, element *out, unsigned char *choices, int images, WINDOW) {
    pool<1, false>(values, scale, shift, activation, pixels, out, choices, images, WINDOW_OF);
}

// Every pixel gathers from the windows it lies in; `choices` is null for a mean.
template <int V>
static __device__ __forceinline__ void pool_back(const element *gradient, const unsigned char *choices, element *out, int add, int images,
                                                 window w) {
    int packs = w.channels / V;
    long long count = (long long)images * w.height * w.width * packs;
    long long step = (long long)gridDim.x * blockDim.x;
    float share = 1.0f / (float)(w.kernel * w.kernel);
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int c = (int)(i % packs) * V;
        long long pixel = i / packs;
        int x = (int)(pixel % w.width) + w.padding;
        int y = (int)(pixel / w.width % w.height) + w.padding;
        long long image = pixel / ((long long)w.width * w.height);
        pack<V> sum = filled<V>(0.0f);
        int first_y = y < w.kernel ? 0 : (y - w.kernel) / w.stride + 1;
        int first_x = x < w.kernel ? 0 : (x - w.kernel) / w.stride + 1;
        for (int oy = first_y; oy < w.out_height && oy * w.stride <= y; oy++) {
            for (int ox = first_x; ox < w.out_width && ox * w.stride <= x; ox++) {
                long long at = ((image * w.out_height + oy) * w.out_width + ox) * w.channels + c;
                int tap = (y - oy * w.stride) * w.kernel + x - ox * w.stride;
                pack<V> g = load_pack<V>(gradient + at);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    if (!choices) {
                        sum.at[k] += g.at[k] * share;
                    } else if (choices[at + k] == tap) {
                        sum.at[k] += g.at[k];
                    }
                }
            }
        }
        long long to = pixel * w.channels + c;
        if (add) {
            pack<V> before = load_pack<V>(out + to);
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum.at[k] += before.at[k];
            }
        }
        store_pack<V>(out + to, sum);
    }
}

extern "C" __global__ void pool_back_wide(const element *gradient, const unsigned char *choices, element *out, int add, int images, WINDOW) {
    pool_back<8>(gradient, choices, out, add, images, WINDOW_OF);
}

extern "C" __global__ void pool_back_narrow(const element *gradient, const unsigned char *choices, element *out, int add, int images, WINDOW) {
    pool_back<1>(gradient, choices, out, add, images, WINDOW_OF);
}

// Mean over the pixels of image `blockIdx.x`: threads along x own channels, threads along y take turns with the pixels.
template <int V>
static __device__ __forceinline__ void global_mean(SOURCE, element *out, int size, int channels) {
    extern __shared__ float shared[];
    int c = own_channel<V>();
    pack<V> sum = filled<V>(0.0f);
    if (c < channels) {
        for (int p = threadIdx.y; p < size; p += blockDim.y) {
            long long pixel = (long long)blockIdx.x * size + p;
            pack<V> z = derived<V>(values, scale, shift, activation, pixels, pixel, c, channels);
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum.at[k] += z.at[k];
            }
        }
    }
    int width = blockDim.x * V;
#pragma unroll
    for (int k = 0; k < V; k++) {
        shared[threadIdx.y * width + threadIdx.x * V + k] = sum.at[k];
    }
    __syncthreads();
    float share = 1.0f / (float)size;
    for (int k = threadIdx.y * blockDim.x + threadIdx.x; k < width; k += blockDim.x * blockDim.y) {
        int channel = blockIdx.y * width + k;
        if (channel >= channels) {
            break;
        }
        float all = 0.0f;
        for (int y = 0; y < blockDim.y; y++) {
            all += shared[y * width + k];
        }
        store(out + (long long)blockIdx.x * channels + channel, all * share);
    }
}

extern "C" __global__ void global_mean_wide(SOURCE, element *out, int size, int channels) {
    global_mean<8>(values, scale, shift, activation, pixels, out, size, channels);
}

extern "C" __global__ void global_mean_narrow(SOURCE, element *out, int size, int channels) {
    global_mean<1>(values, scale, shift, activation, pixels, out, size, channels);
}

// Every pixel's share of the mean's gradient.
template <int V>
static __device__ __forceinline__ void global_mean_back(const element *gradient, element *out, int add, int size, int rows, int channels) {
    int c = own_channel<V>();
    if (c >= channels) {
        return;
    }
    float share = 1.0f / (float)size;
    for (int row = first_row(); row < rows; row += row_step()) {
        pack<V> g = load_pack<V>(gradient + (long long)(row / size) * channels + c);
        long long at = (long long)row * channels + c;
        pack<V> before = add ? load_pack<V>(out + at) : filled<V>(0.0f);
#pragma unroll
        for (int k = 0; k < V; k++) {
            g.at[k] = g.at[k] * share + before.at[k];
        }
        store_pack<V>(out + at, g);
    }
}

extern "C" __global__ void global_mean_back_wide(const element *gradient, element *out, int add, int size, int rows, int channels) {
    global_mean_back<8>(gradient, out, add, size, rows, channels);
}

extern "C" __global__ void global_mean_back_narrow(const element *gradient, element *out, int add, int size, int rows, int channels) {
    global_mean_back<1>(gradient, out, add, size, rows, channels);
}
