// Copies, conversions and sums of whole buffers.
#include "element.cuh"

// to[i] = from[i], or to[i] += from[i].
extern "C" __global__ void accumulate(const element *from, element *to, int add, long long count) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        store(to + i, add ? load(to + i) + load(from + i) : load(from + i));
    }
}

// 32-bit floats to elements.
extern "C" __global__ void narrow(const float *from, element *to, long long count) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        store(to + i, from[i]);
    }
}

// Elements to 32-bit floats.
extern "C" __global__ void widen(const element *from, float *to, long long count) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        to[i] = load(from + i);
    }
}

// Images of floats as the first convolution reads them: `block` by `block` pixels to one with all their channels, blocks of
// zeros before and after, zeros behind the channels.
extern "C" __global__ void spread_input(const float *from, element *to, int images, int height, int width, int channels, int block,
                                        int rows, int columns, int padded, int top, int left) {
    long long count = (long long)images * rows * columns * padded;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned p = (unsigned)(i % padded), pixel = (unsigned)(i / padded);
        int q = (int)(pixel % columns), r = (int)(pixel / columns % rows), image = (int)(pixel / columns / rows);
        int c = (int)(p % channels), inner = (int)(p / channels);
        int y = (r - top) * block + inner / block, x = (q - left) * block + inner % block;
        bool inside = inner < block * block && y >= 0 && y < height && x >= 0 && x < width;
        store(to + i, inside ? from[((long long)(image * height + y) * width + x) * channels + c] : 0.0f);
    }
}
