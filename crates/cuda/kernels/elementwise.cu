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
