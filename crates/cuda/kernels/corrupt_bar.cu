// Corruptions of the C-bar sets that act on every pixel alone, byte for byte those of the host.
#include "corrupt.cuh"

#define PI 3.141592653589793
#define TAU 6.283185307179586

static __device__ __forceinline__ double between(double low, double high, word bits) {
    return add(low, mul(add(high, -low), fraction(bits)));
}

// Clipped and truncated.
static __device__ __forceinline__ byte to_byte(double x) {
    return x <= 0.0 ? 0 : x >= 255.0 ? 255 : (byte)(int)x;
}

// The draw of a whole number below 2^bits.
static __device__ __forceinline__ int below(word draw, int bits) {
    return (int)((draw & 0xffffffffull) >> (32 - bits));
}

// Adds what lies between `low` and `high` to all channels; it is doubtful if that makes a difference.
static __device__ bool add_to_pixel(const byte *from, byte *to, double low, double added, double high) {
    bool doubt = false;
    for (int c = 0; c < 3; c++) {
        double level = (double)from[c];
        to[c] = to_byte(add(level, added));
        doubt |= to_byte(level + low) != to_byte(level + high);
    }
    return doubt;
}

// A plane wave. One row of blocks per image.
extern "C" __global__ void __launch_bounds__(256)
corrupt_wave(const byte *from, byte *to, const word *numbers, int count, int height, int width, word key0, word key1, double strength,
             double slack, int *doubtful) {
    for (int image = blockIdx.y; image < count; image += gridDim.y) {
        words4 draws = philox(0, numbers[image], key0, key1);
        double larger = between(-PI, PI, draws.at[0]), smaller = between(-fabs(larger), fabs(larger), draws.at[1]);
        bool swapped = below(draws.at[2], 1);
        double across = swapped ? smaller : larger, down = swapped ? larger : smaller, phase = between(0.0, TAU, draws.at[3]);
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < height * width; i += gridDim.x * blockDim.x) {
            long long at = 3 * ((long long)image * height * width + i);
            double angle = add(add(mul((double)(i % width), across), mul((double)(i / width), down)), phase);
            double added = mul(strength, sin(angle)), off = strength * slack;
            if (add_to_pixel(from + at, to + at, added - off, added, added + off)) doubtful[image] = 1;
        }
    }
}

static __device__ double saw(double radius, double ring) {
    double rest = fmod(radius, ring);
    if (rest < 0.0) rest = add(rest, ring);
    return add(rest / ring, -0.5);
}

// Bent rings. One row of blocks per image.
extern "C" __global__ void __launch_bounds__(256)
corrupt_rings(const byte *from, byte *to, const word *numbers, int count, int height, int width, word key0, word key1, double strength,
              double slack, int *doubtful) {
    double tenth = (double)min(height, width) / 10.0;
    for (int image = blockIdx.y; image < count; image += gridDim.y) {
        words4 draws = philox(0, numbers[image], key0, key1);
        double centre_x = between(0.0, (double)width, draws.at[0]), centre_y = between(0.0, (double)height, draws.at[1]);
        double frequency = between(0.0, 10.0, draws.at[2]), amplitude = between(0.0, tenth, draws.at[3]);
        double ring = between(0.0, tenth, philox(1, numbers[image], key0, key1).at[0]);
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < height * width; i += gridDim.x * blockDim.x) {
            long long at = 3 * ((long long)image * height * width + i);
            double dx = add((double)(i % width), -centre_x), dy = add((double)(i / width), -centre_y);
            double bend = mul(sin(mul(atan2(dx, dy), frequency)), amplitude);
            double radius = add(sqrt(add(mul(dx, dx), mul(dy, dy))), bend);
            // An angle of up to ten half turns carries the last bits of its own into the sine.
            double off = slack * (4.0 * amplitude + fabs(radius));
            double low = strength * saw(radius - off, ring), high = strength * saw(radius + off, ring);
            if (add_to_pixel(from + at, to + at, low, mul(strength, saw(radius, ring)), high)) doubtful[image] = 1;
        }
    }
}

static __device__ double even_rest(double x) {
    double rest = fmod(x, 2.0);
    return rest < 0.0 ? add(rest, 2.0) : rest;
}

static __device__ long long cell(double x, long long cells) {
    long long rest = (long long)x % cells;
    return rest < 0 ? rest + cells : rest;
}

// Grey cells of a turned checkerboard, those whose draw is below `open`. One row of blocks per image.
extern "C" __global__ void __launch_bounds__(256)
corrupt_board(const byte *from, byte *to, const word *numbers, int count, int height, int width, word key0, word key1, double open,
              double slack, int *doubtful) {
    for (int image = blockIdx.y; image < count; image += gridDim.y) {
        words4 draws = philox(0, numbers[image], key0, key1);
        double angle = between(0.0, TAU, draws.at[0]);
        double scale = fmax(mul(between(0.1, 0.25, draws.at[1]), (double)min(height, width)), 1.0);
        long long cells = (long long)(mul(4.0, (double)max(height, width)) / scale);
        double s = sin(angle), c = cos(angle);
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < height * width; i += gridDim.x * blockDim.x) {
            long long at = 3 * ((long long)image * height * width + i);
            double y = (double)(i / width), x = (double)(i % width);
            double u = add(mul(c, y), mul(s, x)) / scale, v = add(mul(-s, y), mul(c, x)) / scale;
            double off = slack * (x + y) / scale;
            if (i > 0 && (fabs(u - rint(u)) <= off || fabs(v - rint(v)) <= off)) doubtful[image] = 1;
            bool grey = false;
            if ((int)even_rest(u) == (int)even_rest(v)) {
                word draw = 2 + (word)(cell(u, cells) * cells + cell(v, cells));
                grey = fraction(philox(draw / 4, numbers[image], key0, key1).at[draw % 4]) < open;
            }
            for (int channel = 0; channel < 3; channel++) to[at + channel] = grey ? 128 : from[at + channel];
        }
    }
}

// Gradient noise at a point.
static __device__ double noise(const int *order, const double (*gradients)[2], double down, double across) {
    down = add(down, 4096.0);
    across = add(across, 4096.0);
    int row = (int)((long long)down % 256), column = (int)((long long)across % 256), next = (column + 1) % 256;
    double fy = add(down, -trunc(down)), fx = add(across, -trunc(across));
    int upper = order[row], lower = order[(row + 1) % 256];
    auto dot = [&](int at, double u, double v) {
        const double *gradient = gradients[order[at % 256]];
        return add(mul(u, gradient[0]), mul(v, gradient[1]));
    };
    auto mix = [](double first, double second, double share) { return add(first, mul(share, add(second, -first))); };
    auto ease = [](double t) { return mul(mul(t, t), add(3.0, -mul(2.0, t))); };
    double left = mix(dot(upper + column, fy, fx), dot(lower + column, add(fy, -1.0), fx), ease(fy));
    double right = mix(dot(upper + next, fy, add(fx, -1.0)), dot(lower + next, add(fy, -1.0), add(fx, -1.0)), ease(fy));
    return mul(1.5, mix(left, right, ease(fx)));
}

// Haze of gradient noise, `share` of the result. One block of 256 threads per image. The few images whose gradients have to be
// drawn again are in doubt.
extern "C" __global__ void __launch_bounds__(256)
corrupt_haze(const byte *from, byte *to, const word *numbers, int count, int height, int width, word key0, word key1, double share,
             double slack, int *doubtful) {
    __shared__ double gradients[256][2];
    __shared__ int order[256], partner[256];
    int image = blockIdx.x, own = threadIdx.x;
    words4 draws = philox(own / 2, numbers[image], key0, key1);
    double a = (double)(below(draws.at[own % 2 * 2], 9) - 256) / 256.0, b = (double)(below(draws.at[own % 2 * 2 + 1], 9) - 256) / 256.0;
    double length = sqrt(add(mul(a, a), mul(b, b)));
    if (length == 0.0) doubtful[image] = 1;
    gradients[own][0] = a / length;
    gradients[own][1] = b / length;
    order[own] = own;
    partner[own] = below(philox(128 + own / 4, numbers[image], key0, key1).at[own % 4], 8);
    __syncthreads();
    if (own == 0) {
        for (int i = 255; i >= 0; i--) {
            // The first draw goes to the last place.
            int other = partner[255 - i], held = order[i];
            order[i] = order[other];
            order[other] = held;
        }
    }
    __syncthreads();
    double scale = mul(32.0, (double)min(height, width)) / 224.0;
    float keep = (float)add(1.0, -share);
    for (int i = own; i < height * width; i += 256) {
        long long at = 3 * ((long long)image * height * width + i);
        double down = (double)(i / width) / scale, across = (double)(i % width) / scale, turbulence = 0.0;
        for (double f = 1.0; f <= 16.0; f *= 2.0) {
            turbulence = add(turbulence, fabs(noise(order, gradients, mul(f, down), mul(f, across))) / f);
        }
        double haze = clip(add(mul(0.5, turbulence), 0.5));
        for (int c = 0; c < 3; c++) {
            double kept = (double)__fmul_rn(keep, (float)from[at + c]);
            to[at + c] = to_byte(add(kept, mul(mul(255.0, share), haze)));
        }
    }
}
