// Pools, forward and backward. What they read may be derived: `activate(scale * y + shift)`.
#include "activation.cuh"
#include "rows.cuh"
#include "tables.cuh"

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

// The larger of two. A NaN stays one.
static __device__ __forceinline__ float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
#else
    return a > b || a != a ? a : b;
#endif
}

// The largest value of every channel in one row of a window, and its tap counted from the row's start (the first, on a tie).
template <int V> struct peak {
    pack<V> value;
    int tap[V];
};

// What all pixels share. No value counts for less than `low`, which is zero for a ReLU and leaves nothing more to apply.
template <int V> struct affine_floor {
    pack<V> scale, shift;
    float low;
};

// `from` holds the pixels that are `inside`. Padding is at most half a window, so that of the first two columns one is inside, and
// likewise for rows: a row that is not `there` stands for the first pixel of the one below and never wins.
template <int V, int K>
static __device__ __forceinline__ peak<V> row_peak(const stored<V> (&from)[K], const bool (&inside)[K], bool there,
                                                   const affine_floor<V> &of) {
    peak<V> out;
    int first = inside[0] ? 0 : 1;
#pragma unroll
    for (int i = 0; i < V; i++) {
        out.value.at[i] = of.low;
        out.tap[i] = there ? first : K + first;
    }
    if (!there) {
        return out;
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (!inside[k]) {
            continue;
        }
        pack<V> z = from[k].wide();
#pragma unroll
        for (int i = 0; i < V; i++) {
            z.at[i] = of.scale.at[i] * z.at[i] + of.shift.at[i];
            if (k > 0) {
                out.tap[i] = z.at[i] > out.value.at[i] ? k : out.tap[i];
            }
            out.value.at[i] = larger(out.value.at[i], z.at[i]);
        }
    }
    return out;
}

template <int V> struct alignas(V) taps_of {
    unsigned at[V / 4];
};

// Max pools of windows of K by K pixels, S apart, below a ReLU or no activation. A thread takes V channels of one output column and
// walks down `rows` outputs, so that rows which windows share are looked at once.
template <int V, int K, int S>
static __device__ __forceinline__ void max_pool_strip(SOURCE, element *out, unsigned char *choices, int images, int rows, window w) {
    int packs = w.channels / V, strips = (w.out_height + rows - 1) / rows;
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    int c = item % packs * V;
    item /= packs;
    int column = item % w.out_width;
    item /= w.out_width;
    int strip = item % strips, image = item / strips;
    if (image >= images) {
        return;
    }
    affine_floor<V> of = {filled<V>(1.0f), filled<V>(0.0f), lower_bound(activation)};
    if (scale) {
        int at = pixels ? image * w.channels + c : c;
        of.scale = load_floats<V>(scale + at);
        of.shift = load_floats<V>(shift + at);
    }
    int x = column * S - w.padding, row = strip * rows, y = row * S - w.padding;
    int last = row + rows < w.out_height ? row + rows : w.out_height;
    bool inside[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        inside[k] = x + k >= 0 && x + k < w.width;
    }
    long long line = (long long)w.width * w.channels;
    long long from = ((long long)image * w.height + y) * line + (long long)x * w.channels + c;
    long long to = (((long long)image * w.out_height + row) * w.out_width + column) * w.channels + c;
    peak<V> peaks[K];
    // The rows that the first window has before its last S.
#pragma unroll
    for (int r = 0; r < K - S; r++, y++, from += line) {
        stored<V> taken[K];
        bool there = y >= 0 && y < w.height;
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (there && inside[k]) {
                taken[k].take(values + from + k * w.channels);
            }
        }
        peaks[r] = row_peak<V, K>(taken, inside, there, of);
    }
    for (; row < last; row++, y += S, from += S * line, to += (long long)w.out_width * w.channels) {
        stored<V> taken[S][K];
#pragma unroll
        for (int r = 0; r < S; r++) {
#pragma unroll
            for (int k = 0; k < K; k++) {
                if (y + r >= 0 && y + r < w.height && inside[k]) {
                    taken[r][k].take(values + from + r * line + k * w.channels);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < S; r++) {
            peaks[K - S + r] = row_peak<V, K>(taken[r], inside, y + r >= 0 && y + r < w.height, of);
        }
        peak<V> best = peaks[0];
#pragma unroll
        for (int r = 1; r < K; r++) {
#pragma unroll
            for (int i = 0; i < V; i++) {
                best.tap[i] = peaks[r].value.at[i] > best.value.at[i] ? r * K + peaks[r].tap[i] : best.tap[i];
                best.value.at[i] = larger(best.value.at[i], peaks[r].value.at[i]);
            }
        }
        store_pack<V>(out + to, best.value);
        taps_of<V> chosen;
#pragma unroll
        for (int i = 0; i < V / 4; i++) {
            const int *tap = best.tap + 4 * i;
            chosen.at[i] = (unsigned)(tap[0] | tap[1] << 8 | tap[2] << 16 | tap[3] << 24);
        }
        *reinterpret_cast<taps_of<V> *>(choices + to) = chosen;
#pragma unroll
        for (int r = 0; r < K - S; r++) {
            peaks[r] = peaks[r + S];
        }
    }
}

// Blocks per multiprocessor for which registers are kept free.
#define STRIP_BLOCKS (FLIPCAST_BF16 ? 2 : 3)
#define STRIPS SOURCE, element *out, unsigned char *choices, int images, int rows, WINDOW
#define STRIPS_ARGUMENTS values, scale, shift, activation, pixels, out, choices, images, rows, WINDOW_OF

extern "C" __global__ void __launch_bounds__(256, STRIP_BLOCKS) max_pool_2_2(STRIPS) {
    max_pool_strip<WIDTH, 2, 2>(STRIPS_ARGUMENTS);
}

extern "C" __global__ void __launch_bounds__(256, STRIP_BLOCKS) max_pool_3_1(STRIPS) {
    max_pool_strip<WIDTH, 3, 1>(STRIPS_ARGUMENTS);
}

extern "C" __global__ void __launch_bounds__(256, STRIP_BLOCKS) max_pool_3_2(STRIPS) {
    max_pool_strip<WIDTH, 3, 2>(STRIPS_ARGUMENTS);
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

// Windows that a thread has on their way at a time.
#define PICKS 4

// Sums over the gradient that a max pool hands down, for the norm below it, and of its products with the centred values. Only what
// was chosen has a gradient, so it is enough to walk the windows and to fetch what was normalised there. Threads along x own
// channels, threads along y take turns with the windows of a row, and blocks with the rows. `offsets` has a place per tap.
template <int KIND>
static __device__ __forceinline__ void gather_pool_sums(const element *gradient, const unsigned char *choices, const element *values,
                                                        const float *tables, int activation, float *partial, int images, window w,
                                                        int *offsets) {
    int threads = blockDim.x * blockDim.y;
    for (int tap = threadIdx.y * blockDim.x + threadIdx.x; tap < w.kernel * w.kernel; tap += threads) {
        offsets[tap] = (tap / w.kernel * w.width + tap % w.kernel) * w.channels;
    }
    __syncthreads();
    int c = own_channel<1>();
    float low = lower_bound(activation), high = upper_bound(activation);
    pack<1> sum = filled<1>(0.0f), product = filled<1>(0.0f);
    if (c < w.channels) {
        float scale = tables[SCALE * w.channels + c], shift = tables[SHIFT * w.channels + c], centre = tables[CENTRE * w.channels + c];
        for (int row = blockIdx.x; row < images * w.out_height; row += gridDim.x) {
            int y = row % w.out_height * w.stride - w.padding;
            long long line = (long long)(row / w.out_height) * w.height + y;
            const element *given = gradient + (long long)row * w.out_width * w.channels + c;
            const unsigned char *chosen = choices + (long long)row * w.out_width * w.channels + c;
            long long corner = (line * w.width - w.padding) * w.channels + c;
            for (int first = threadIdx.y; first < w.out_width; first += PICKS * blockDim.y) {
                float g[PICKS], x[PICKS];
                int tap[PICKS];
#pragma unroll
                for (int i = 0; i < PICKS; i++) {
                    int column = first + i * blockDim.y;
                    bool there = column < w.out_width;
                    g[i] = there ? load(given + column * w.channels) : 0.0f;
                    tap[i] = there ? chosen[column * w.channels] : 0;
                }
#pragma unroll
                for (int i = 0; i < PICKS; i++) {
                    int column = first + i * blockDim.y;
                    bool there = column < w.out_width;
                    x[i] = there ? load(values + corner + column * w.stride * w.channels + offsets[tap[i]]) : centre;
                }
#pragma unroll
                for (int i = 0; i < PICKS; i++) {
                    float d = below_as<KIND>(activation, g[i], scale * x[i] + shift, low, high);
                    sum.at[0] += d;
                    product.at[0] += d * (x[i] - centre);
                }
            }
        }
    }
    put_sums<1>(sum, partial, 0, w.channels);
    put_sums<1>(product, partial, 1, w.channels);
}

extern "C" __global__ void __launch_bounds__(256, 4) max_pool_sums(const element *gradient, const unsigned char *choices,
                                                                   const element *values, const float *tables, int activation,
                                                                   float *partial, int images, WINDOW) {
    // Windows have up to 15 by 15 taps, so that one fits a byte.
    __shared__ int offsets[15 * 15];
    BY_KIND(gather_pool_sums, kind_of(activation), gradient, choices, values, tables, activation, partial, images, WINDOW_OF, offsets)
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
