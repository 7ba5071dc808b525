// Sums over the lanes of a warp and over the threads of a block, in a fixed order.
#pragma once

constexpr unsigned ALL_LANES = 0xffffffffu;

// The sum over all lanes, in every lane.
template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

template <typename T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        T other = __shfl_xor_sync(ALL_LANES, x, step);
        x = other > x ? other : x;
    }
    return x;
}

// The sum over a block of whole warps, in every thread. `partials` is shared and has a place per warp.
template <typename T>
__device__ __forceinline__ T block_sum(T x, T* partials) {
    x = warp_sum(x);
    int warps = blockDim.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = x;
    __syncthreads();
    T sum = partials[0];
    for (int warp = 1; warp < warps; ++warp) sum += partials[warp];
    return sum;
}

template <typename T>
__device__ __forceinline__ T block_max(T x, T* partials) {
    x = warp_max(x);
    int warps = blockDim.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = x;
    __syncthreads();
    T largest = partials[0];
    for (int warp = 1; warp < warps; ++warp) largest = partials[warp] > largest ? partials[warp] : largest;
    return largest;
}
