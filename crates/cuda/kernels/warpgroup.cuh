// Products of a warpgroup (four warps) on Hopper's tensor cores: 64 rows from registers with 64 columns from shared memory.
//
// A panel holds the weights of 64 columns for 128 bytes of the summed axis: 64 rows of 128 bytes, 8 KiB on a multiple of 1024
// bytes, whose 16-byte pieces are exchanged such that piece `i` of row `n` lies at place `i ^ (n % 8)`. A product takes 32 bytes
// of it, one of four steps. With `g = lane / 4` and `t = lane % 4`, words of 32 bits:
//
//   rows     a[0]: row g, word t of the step; a[1]: row g + 8; a[2], a[3]: word t + 4
//   result   d[4 j], d[4 j + 1]: row g, columns 8 j + 2 t, 8 j + 2 t + 1; d[4 j + 2], d[4 j + 3]: row g + 8
//
// where every warp has 16 rows of its own.
#pragma once
#include "mma.cuh"

// Words of 16 bytes in a panel.
#define PANEL 512

#if defined(__CUDA_ARCH__)

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Everything that threads wrote to shared memory before is seen by the products after this and a barrier.
static __device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

static __device__ __forceinline__ void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Waits for all products.
static __device__ __forceinline__ void close_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#if FLIPCAST_BF16
#define PRODUCT "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
#define SIGNS "p, 1, 1, 0;"
#else
#define PRODUCT "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
#define SIGNS "p, 1, 1;"
#endif
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

// d += rows * panel, for one step. Neither may be touched until the products are closed.
static __device__ __forceinline__ void multiply_panel(float (&d)[32], const unsigned (&a)[4], const words *panel, int step) {
    unsigned long long at = __cvta_generic_to_shared(panel) >> 4;
    // Eight rows are 1024 bytes; pieces are exchanged within 128 bytes.
    unsigned long long columns = (at + 2 * step) | (1ull << 16) | (64ull << 32) | (1ull << 62);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n" PRODUCT
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, " SIGNS "\n}"
                 : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns));
}

// Keeps a result in its registers around products.
static __device__ __forceinline__ void keep_result(float (&d)[32]) {
    asm volatile("" : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)::"memory");
}

// Keeps rows in their registers until here.
static __device__ __forceinline__ void keep_rows(const unsigned (&a)[4]) {
    asm volatile("" ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]) : "memory");
}

#else

// Other GPUs are never asked to.
static __device__ __forceinline__ void show_to_products() {}
static __device__ __forceinline__ void open_products() {}
static __device__ __forceinline__ void close_products() {}
static __device__ __forceinline__ void multiply_panel(float (&)[32], const unsigned (&)[4], const words *, int) { asm("trap;"); }
static __device__ __forceinline__ void keep_result(float (&)[32]) {}
static __device__ __forceinline__ void keep_rows(const unsigned (&)[4]) {}

#endif

#else

static inline void show_to_products() {}
static inline void open_products() {}
static inline void close_products() {}
static inline void keep_result(float (&)[32]) {}
static inline void keep_rows(const unsigned (&)[4]) {}

struct Rows {
    unsigned a[4];
};

static inline void multiply_panel(float (&d)[32], const unsigned (&a)[4], const words *panel, int step) {
    emulator::show(Rows{{a[0], a[1], a[2], a[3]}});
    for (unsigned i = 0; i < 32; i++) {
        unsigned row = emulator::lane() / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + emulator::lane() % 4 * 2 + i % 2;
        for (unsigned w = 0; w < 8; w++) {
            unsigned of_a = emulator::shown<Rows>(row % 8 * 4 + w % 4).a[row / 8 + w / 4 * 2];
            unsigned of_b = panel[n * 8 + ((2 * step + w / 4) ^ (n % 8))].at[w % 4];
#if FLIPCAST_BF16
            d[i] += from_brain(of_a & 0xffffu) * from_brain(of_b & 0xffffu);
            d[i] += from_brain(of_a >> 16) * from_brain(of_b >> 16);
#else
            // The units read the upper 19 bits.
            d[i] += __uint_as_float(of_a & 0xffffe000u) * __uint_as_float(of_b & 0xffffe000u);
#endif
        }
    }
}

#endif
