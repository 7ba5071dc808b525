// Tiles of pointwise convolutions on tensor cores: what both directions share.
//
// A block of 256 threads makes `BM` rows of `BN` columns, `BK` of the summed axis at a time. Warps are four down by two along. Factors of
// `tf32` are rounded before they come to shared memory. The result passes through shared memory, so that its rows are read and
// written 16 bytes at a time.
#pragma once
#include "activation.cuh"
#include "mma.cuh"
#include "rows.cuh"
#include "tables.cuh"

#define BM 128
#define BLOCK 256
// A slice is 128 bytes wide. Elements from row to row in shared memory are such that the lanes of a warp meet different banks.
#if FLIPCAST_BF16
#define BK 64
#define A_STRIDE (BK + 8)
#else
#define BK 32
#define A_STRIDE (BK + 4)
#endif
#define B_STRIDE (BN + 8)
// Pieces of 16 bytes that a thread carries of a slice.
#define A_GROUPS (BK / WIDTH)
#define A_STEP (BLOCK / A_GROUPS)
#define A_PIECES (BM / A_STEP)

// The part of a factor that a thread multiplies: two blocks of 16 rows, from rows of `A_STRIDE`.
static __device__ __forceinline__ void load_rows(const element *a, int k, unsigned (&rows)[2][4]) {
    int lane = threadIdx.x % 32, top = threadIdx.x / 32 % 4 * 32;
    constexpr int STRIDE = A_STRIDE * sizeof(element) / 4;
    const unsigned *of = reinterpret_cast<const unsigned *>(a) + (top + lane / 4) * STRIDE + k * sizeof(element) / 4 + lane % 4;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const unsigned *at = of + m * 16 * STRIDE;
        rows[m][0] = at[0];
        rows[m][1] = at[8 * STRIDE];
        rows[m][2] = at[4];
        rows[m][3] = at[8 * STRIDE + 4];
    }
}

// Puts what the threads summed into a tile of 32-bit floats, in rows of `B_STRIDE`.
template <int BN> static __device__ __forceinline__ void put_tile(const float (&sum)[2][BN / 16][4], float *tile) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int n = 0; n < BN / 16; n++) {
            float *at = tile + (warp % 4 * 32 + m * 16 + lane / 4) * B_STRIDE + warp / 4 * (BN / 2) + n * 8 + lane % 4 * 2;
            at[0] = sum[m][n][0];
            at[1] = sum[m][n][1];
            at[8 * B_STRIDE] = sum[m][n][2];
            at[8 * B_STRIDE + 1] = sum[m][n][3];
        }
    }
    __syncthreads();
}

// Eight floats on a multiple of 16 bytes.
static __device__ __forceinline__ pack<8> load_tile(const float *from) {
    pack<8> out;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        words raw = reinterpret_cast<const words *>(from)[part];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out.at[part * 4 + i] = __uint_as_float(raw.at[i]);
        }
    }
    return out;
}

// Sums per column of all threads of that column, for the first `BN` threads; `room` has eight floats per thread.
template <int BN> static __device__ __forceinline__ float over_rows(const pack<8> &sum, float *room) {
    constexpr int PACKS = BN / 8;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        room[threadIdx.x / PACKS * BN + threadIdx.x % PACKS * 8 + i] = sum.at[i];
    }
    __syncthreads();
    float all = 0.0f;
    if (threadIdx.x < BN) {
        for (int y = 0; y < BLOCK / PACKS; y++) {
            all += room[y * BN + threadIdx.x];
        }
    }
    return all;
}
