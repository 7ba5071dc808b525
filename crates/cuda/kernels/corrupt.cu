// Corruptions of whole sets of byte images, byte for byte those of the host: noises, contrast and colours.
#include "corrupt.cuh"

// Salt and pepper. One row of blocks per image, four samples per thread.
extern "C" __global__ void __launch_bounds__(256)
corrupt_impulse(const byte *from, byte *to, const word *numbers, int count, int len, word key0, word key1, word limit) {
    for (int image = blockIdx.y; image < count; image += gridDim.y) {
        long long start = (long long)image * len;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (len + 3) / 4; i += gridDim.x * blockDim.x) {
            words4 draws = philox(i, numbers[image], key0, key1);
            for (int j = 0; j < 4 && 4 * i + j < len; j++) {
                long long at = start + 4 * i + j;
                byte impulse = draws.at[j] & 0x80000000ull ? 0 : 255;
                to[at] = (draws.at[j] >> 32) <= limit ? impulse : from[at];
            }
        }
    }
}

// Draws from a distribution per byte: the first entry whose cumulative share exceeds the draw, or the last.
extern "C" __global__ void __launch_bounds__(256)
corrupt_quantiles(const byte *from, byte *to, const word *numbers, int count, int len, word key0, word key1, const int *starts,
                  const double *cumulative, const byte *results) {
    for (int image = blockIdx.y; image < count; image += gridDim.y) {
        long long start = (long long)image * len;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (len + 3) / 4; i += gridDim.x * blockDim.x) {
            words4 draws = philox(i, numbers[image], key0, key1);
            for (int j = 0; j < 4 && 4 * i + j < len; j++) {
                long long at = start + 4 * i + j;
                double draw = fraction(draws.at[j]);
                int low = starts[from[at]], high = starts[from[at] + 1] - 1;
                while (low < high) {
                    int middle = low + (high - low) / 2;
                    if (cumulative[middle] <= draw) {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                to[at] = results[low];
            }
        }
    }
}

// Hue, saturation and value of every pixel: `saturation * factor + offset` and `value + added`, both clipped, each only if asked for.
extern "C" __global__ void __launch_bounds__(256)
corrupt_colour(const byte *from, byte *to, long long pixels, int saturate, double factor, double offset, double added) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < pixels; i += step) {
        double r = unit(from[3 * i]), g = unit(from[3 * i + 1]), b = unit(from[3 * i + 2]);
        double value = fmax(fmax(r, g), b), spread = add(value, -fmin(fmin(r, g), b));
        double hue = 0.0, saturation = 0.0;
        if (spread != 0.0) {
            double sixths;
            if (b == value) {
                sixths = add(4.0, add(r, -g) / spread);
            } else if (g == value) {
                sixths = add(2.0, add(b, -r) / spread);
            } else {
                sixths = add(g, -b) / spread;
            }
            double turn = sixths / 6.0;
            hue = turn < 0.0 ? add(turn, 1.0) : turn;
            saturation = spread / value;
        }
        if (saturate) {
            saturation = clip(add(mul(saturation, factor), offset));
        } else {
            value = clip(add(value, added));
        }
        double sixths = mul(hue, 6.0), sextant = floor(sixths), part = add(sixths, -sextant);
        double low = mul(value, add(1.0, -saturation));
        double falling = mul(value, add(1.0, -mul(part, saturation)));
        double rising = mul(value, add(1.0, -mul(add(1.0, -part), saturation)));
        int which = (int)sextant;
        r = which == 1 ? falling : which == 2 || which == 3 ? low : which == 4 ? rising : value;
        g = which == 1 || which == 2 ? value : which == 3 ? falling : which == 4 || which == 5 ? low : rising;
        b = which == 1 ? low : which == 2 ? rising : which == 3 || which == 4 ? value : which == 5 ? falling : low;
        to[3 * i] = finish(r);
        to[3 * i + 1] = finish(g);
        to[3 * i + 2] = finish(b);
    }
}

// Towards the mean of the image's channel. One block per image.
extern "C" __global__ void __launch_bounds__(256)
corrupt_contrast(const byte *from, byte *to, int len, double factor) {
    __shared__ word sums[3][256];
    __shared__ byte table[3][256];
    from += (long long)blockIdx.x * len;
    to += (long long)blockIdx.x * len;
    int pixels = len / 3;
    for (int c = 0; c < 3; c++) {
        word sum = 0;
        for (int i = threadIdx.x; i < pixels; i += 256) sum += from[3 * i + c];
        sums[c][threadIdx.x] = sum;
    }
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            for (int c = 0; c < 3; c++) sums[c][threadIdx.x] += sums[c][threadIdx.x + half];
        }
        __syncthreads();
    }
    for (int c = 0; c < 3; c++) {
        double mean = (double)sums[c][0] / 255.0 / (double)pixels;
        table[c][threadIdx.x] = finish(add(mul(add(unit((byte)threadIdx.x), -mean), factor), mean));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < len; i += 256) to[i] = table[i % 3][from[i]];
}

#define TAIL_START 3.654152885361009
// Words that a block of threads looks at together.
#define CHUNK 1024

// Words of an image's stream, of which those from `first` on lie in `chunk`.
struct stream {
    const word *chunk;
    word first, number, key0, key1;
};

static __device__ double fraction_at(const stream &from, word i) {
    word bits = i - from.first < CHUNK ? from.chunk[i - from.first] : philox(i / 4, from.number, from.key0, from.key1).at[i % 4];
    return fraction(bits);
}

// An attempt at a normal draw: the words it takes, whether it gives a value, and whether rounding may have decided.
struct attempt {
    double value;
    int taken;
    bool gives, in_tail, doubtful;
};

// Whether two numbers are so near that the last bits of a function may tell which is larger.
static __device__ __forceinline__ bool near(double a, double b, double slack) {
    return fabs(a - b) <= slack * (fabs(a) + fabs(b));
}

// The attempt that starts at word `i`, which does not settle it: `x` lies outside of what is certain of its layer.
static __device__ attempt attempt_outside(const stream &from, word i, int layer, double x, const double *density, double slack) {
    attempt made = {x, 2, false, layer == 0, false};
    if (layer != 0) {
        double low = density[layer], high = density[layer + 1];
        double height = add(low, mul(add(high, -low), fraction_at(from, i + 1)));
        double curve = exp(mul(mul(-0.5, x), x));
        made.gives = height < curve;
        made.doubtful = near(height, curve, slack);
        return made;
    }
    for (made.taken = 1; !made.gives; made.taken += 2) {
        double beyond = -log(1.0 - fraction_at(from, i + made.taken)) / TAIL_START;
        double height = -log(1.0 - fraction_at(from, i + made.taken + 1));
        double twice = mul(2.0, height), square = mul(beyond, beyond);
        made.gives = twice >= square;
        made.doubtful |= near(twice, square, slack);
        made.value = copysign(add(TAIL_START, beyond), x);
    }
    return made;
}

static __device__ __forceinline__ byte noisy(byte level, double normal, double std, int in_proportion) {
    double x = unit(level), noise = mul(std, normal);
    return finish(add(x, in_proportion ? mul(x, noise) : noise));
}

// Clears the bits from `from` to `to`.
static __device__ void clear(unsigned *bits, int from, int to) {
    for (int i = from; i < to && i < CHUNK; i++) bits[i / 32] &= ~(1u << i % 32);
}

// Normal noise. One block of 256 threads per image. How many words a draw takes depends on the words, so all threads look at a
// chunk of words as if an attempt started at each; then one of them goes from start to start, where only the few attempts
// that take more than one word stop it; then all write the values of those that did start.
extern "C" __global__ void __launch_bounds__(256)
corrupt_normal(const byte *from, byte *to, const word *numbers, int len, word key0, word key1, double std, int in_proportion,
               const double *ziggurat, double slack, int *doubtful) {
    __shared__ word chunk[CHUNK];
    __shared__ double edge[2 * 257];
    __shared__ int taken[CHUNK], before[CHUNK / 32], progress[2];
    __shared__ unsigned longer[CHUNK / 32], starts[CHUNK / 32], gives[CHUNK / 32];
    int image = blockIdx.x, lane = threadIdx.x % 32, group = threadIdx.x / 32 * 4;
    from += (long long)image * len;
    to += (long long)image * len;
    for (int i = threadIdx.x; i < 2 * 257; i += 256) edge[i] = ziggurat[i];
    // Words of the chunk that an attempt before it took, and values given so far.
    if (threadIdx.x < 2) progress[threadIdx.x] = 0;
    stream words = {chunk, 0, numbers[image], key0, key1};
    __syncthreads();
    for (; progress[1] < len; words.first += CHUNK) {
        words4 draws = philox(words.first / 4 + threadIdx.x, words.number, key0, key1);
        for (int j = 0; j < 4; j++) chunk[4 * threadIdx.x + j] = draws.at[j];
        __syncthreads();
        attempt made[4];
        for (int j = 0; j < 4; j++) {
            int i = 32 * (group + j) + lane, layer = (int)(chunk[i] & 255);
            double x = mul(add(mul((double)(chunk[i] >> 11), 2.0 / 9007199254740992.0), -1.0), edge[layer]);
            made[j] = {x, 1, true, false, false};
            if (!(fabs(x) < edge[layer + 1])) {
                made[j] = attempt_outside(words, words.first + i, layer, x, edge + 257, slack);
                taken[i] = made[j].taken;
            }
            unsigned is_longer = __ballot_sync(~0u, made[j].taken > 1), is_given = __ballot_sync(~0u, made[j].gives);
            if (lane == 0) {
                longer[group + j] = is_longer;
                gives[group + j] = is_given;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 0; i < CHUNK / 32; i++) starts[i] = ~0u;
            int next = progress[0];
            clear(starts, 0, next);
            while (next < CHUNK) {
                int i = next / 32;
                unsigned rest = longer[i] & (~0u << next % 32);
                while (!rest && ++i < CHUNK / 32) rest = longer[i];
                if (!rest) {
                    next = CHUNK;
                    break;
                }
                int at = 32 * i + __ffs(rest) - 1;
                next = at + taken[at];
                clear(starts, at + 1, next);
            }
            progress[0] = next - CHUNK;
            for (int i = 0; i < CHUNK / 32; i++) {
                before[i] = progress[1];
                progress[1] += __popc(starts[i] & gives[i]);
            }
        }
        __syncthreads();
        for (int j = 0; j < 4; j++) {
            unsigned given = starts[group + j] & gives[group + j];
            int i = before[group + j] + __popc(given & ((1u << lane) - 1));
            bool started = starts[group + j] >> lane & 1, doubt = started && made[j].doubtful;
            if ((given >> lane & 1) && i < len) {
                double normal = made[j].value;
                to[i] = noisy(from[i], normal, std, in_proportion);
                // A value of the tail may be off by as much as its logarithm.
                doubt |= made[j].in_tail && noisy(from[i], normal * (1.0 - slack), std, in_proportion) !=
                                                noisy(from[i], normal * (1.0 + slack), std, in_proportion);
            }
            if (doubt) doubtful[image] = 1;
        }
        __syncthreads();
    }
}
