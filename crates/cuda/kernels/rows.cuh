// How kernels over rows of channels share their work.
//
// A buffer is `rows` pixels of `channels` values. Threads along x own packs of V channels and keep them; threads along y
// and blocks along x walk the rows. V is 8 where the channels are a multiple of it, so that loads are 16 bytes, else 1.
#pragma once
#include "element.cuh"
#include "shared.cuh"
#include "warp.cuh"

template <int V> struct pack {
    float at[V];
};

// Rows that a thread has on their way at a time: as many bytes for either element. They are kept as they are stored until
// they are needed, and all loads come before the first store, since the compiler must assume that they overlap.
#if FLIPCAST_BF16
#define ROWS 4
#else
#define ROWS 2
#endif

template <int V> struct stored {
    words at[V / WIDTH];

    __device__ __forceinline__ void take(const element *from) {
#pragma unroll
        for (int part = 0; part < V / WIDTH; part++) {
            at[part] = *reinterpret_cast<const words *>(from + part * WIDTH);
        }
    }

    __device__ __forceinline__ pack<V> wide() const {
        pack<V> out;
#pragma unroll
        for (int part = 0; part < V / WIDTH; part++) {
            lanes values = unpack(at[part]);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                out.at[part * WIDTH + i] = values.at[i];
            }
        }
        return out;
    }
};

template <> struct stored<1> {
    float at;

    __device__ __forceinline__ void take(const element *from) {
        at = load(from);
    }

    __device__ __forceinline__ pack<1> wide() const {
        pack<1> out;
        out.at[0] = at;
        return out;
    }
};

template <int V> static __device__ __forceinline__ pack<V> load_pack(const element *from) {
    pack<V> out;
    if (V == 1) {
        out.at[0] = load(from);
        return out;
    }
#pragma unroll
    for (int part = 0; part < V / WIDTH; part++) {
        lanes values = load_lanes(from + part * WIDTH);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            out.at[part * WIDTH + i] = values.at[i];
        }
    }
    return out;
}

template <int V> static __device__ __forceinline__ void store_pack(element *to, const pack<V> &x) {
    if (V == 1) {
        store(to, x.at[0]);
        return;
    }
#pragma unroll
    for (int part = 0; part < V / WIDTH; part++) {
        lanes values;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            values.at[i] = x.at[part * WIDTH + i];
        }
        store_lanes(to + part * WIDTH, values);
    }
}

template <int V> static __device__ __forceinline__ pack<V> load_floats(const float *from) {
    pack<V> out;
#pragma unroll
    for (int i = 0; i < V; i++) {
        out.at[i] = from[i];
    }
    return out;
}

template <int V> static __device__ __forceinline__ pack<V> filled(float value) {
    pack<V> out;
#pragma unroll
    for (int i = 0; i < V; i++) {
        out.at[i] = value;
    }
    return out;
}

// The first channel of this thread, or a value past the last one.
template <int V> static __device__ __forceinline__ int own_channel() {
    return (blockIdx.y * blockDim.x + threadIdx.x) * V;
}

static __device__ __forceinline__ int first_row() {
    return blockIdx.x * blockDim.y + threadIdx.y;
}

static __device__ __forceinline__ int row_step() {
    return gridDim.x * blockDim.y;
}

// What blocks left is merged by blocks of MERGED channels (x, 32 bytes) by SLICES slices of the parts (y). A thread has PARTS of them
// on their way at a time: since such a kernel only waits for memory, it should do so once.
#define MERGED 8
#define SLICES 128
#define PARTS 8

// The warp of this thread, one of 32, and its lane.
static __device__ __forceinline__ int merging_warp() {
    return (threadIdx.y * MERGED + threadIdx.x) / 32;
}

static __device__ __forceinline__ int merging_lane() {
    return (threadIdx.y * MERGED + threadIdx.x) % 32;
}

// Adds up what the slices found, in a fixed order. The first MERGED warps get the sums of one channel each, in every lane; `room`
// has MERGED * 32 places per value.
template <int N> static __device__ __forceinline__ void over_slices(double (&values)[N], double *room) {
    int lane = merging_lane(), warp = merging_warp();
#pragma unroll
    for (int i = 0; i < N; i++) {
        values[i] += __shfl_xor_sync(ALL_LANES, values[i], MERGED);
        values[i] += __shfl_xor_sync(ALL_LANES, values[i], 2 * MERGED);
        if (lane < MERGED) {
            room[(i * MERGED + lane) * 32 + warp] = values[i];
        }
    }
    __syncthreads();
    if (warp < MERGED) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            values[i] = warp_sum(room[(i * MERGED + warp) * 32 + lane]);
        }
    }
}

// Sums of this block's threads, per channel and over y, into slot `which` of the block's partial sums.
template <int V>
static __device__ __forceinline__ void put_sums(const pack<V> &sum, float *partial, int which, int channels) {
    DYNAMIC_SHARED(float, shared);
    int width = blockDim.x * V;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; i++) {
        shared[threadIdx.y * width + threadIdx.x * V + i] = sum.at[i];
    }
    __syncthreads();
    long long parts = (long long)gridDim.z * gridDim.x;
    long long slot = (long long)blockIdx.z * gridDim.x + blockIdx.x;
    float *out = partial + ((long long)which * parts + slot) * channels;
    int threads = blockDim.x * blockDim.y;
    for (int k = threadIdx.y * blockDim.x + threadIdx.x; k < width; k += threads) {
        int channel = blockIdx.y * width + k;
        if (channel >= channels) {
            break;
        }
        float all = 0.0f;
        for (int y = 0; y < blockDim.y; y++) {
            all += shared[y * width + k];
        }
        out[channel] = all;
    }
}
