// Runs CUDA kernels on the host, one block after the other: the threads of a block are fibers of one host thread that hand
// over at barriers and warp exchanges. Enough of the language for the kernels of this crate, and slow; what it shows is that
// indices, barriers, fragment layouts and arithmetic are right, not that memory accesses are fast or free of races.
//
// A wrapper file includes this header and a `.cu` file, and names the kernels with `EMULATE(name)`.
#pragma once

#include <csetjmp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// Blocks follow each other on one host thread, so a block's own memory is that thread's.
#define __shared__ static thread_local
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(emulator::now().shared.data())

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
typedef dim3 uint3;
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulator {

constexpr unsigned LANES = 32;
constexpr std::size_t STACK = 64 << 10;
constexpr std::size_t EXCHANGE = 64;

enum class Wait { Nothing, Warp, Block, Done };

struct Fiber {
    std::unique_ptr<char[]> stack{new char[STACK]};
    ucontext_t start;
    jmp_buf resume;
    bool started = false;
    Wait wait = Wait::Done;
    int vote = 0;
    // Written by this lane, read by others after the next hand-over; two in turn, so that one hand-over per exchange is enough.
    alignas(16) unsigned char exchange[2][EXCHANGE];
    unsigned turn = 0;
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<unsigned char> shared;
    ucontext_t home;
    jmp_buf back;
    unsigned current = 0, threads = 0;
    dim3 thread, block, block_dim, grid_dim;
    void (*body)(void*) = nullptr;
    void* argument = nullptr;
};

inline Block& now() {
    static thread_local Block block;
    return block;
}

inline void place(Block& block, unsigned index) {
    block.current = index;
    block.thread.x = index % block.block_dim.x;
    block.thread.y = index / block.block_dim.x % block.block_dim.y;
    block.thread.z = index / block.block_dim.x / block.block_dim.y;
}

inline void fiber_main() {
    Block& block = now();
    block.body(block.argument);
    block.fibers[block.current].wait = Wait::Done;
    _longjmp(block.back, 1);
}

// Runs one fiber until it waits or is done.
inline void advance(Block& block, unsigned index) {
    Fiber& fiber = block.fibers[index];
    place(block, index);
    fiber.wait = Wait::Nothing;
    if (_setjmp(block.back)) return;
    if (fiber.started) _longjmp(fiber.resume, 1);
    fiber.started = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = STACK;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, reinterpret_cast<void (*)()>(fiber_main), 0);
    setcontext(&fiber.start);
}

inline void hand_over(Wait wait) {
    Block& block = now();
    Fiber& fiber = block.fibers[block.current];
    fiber.wait = wait;
    if (!_setjmp(fiber.resume)) _longjmp(block.back, 1);
}

// Whether the threads from `first` to `last` that are not done all wait at `wait`, and at least one does.
inline bool all_wait(const Block& block, unsigned first, unsigned last, Wait wait) {
    bool any = false;
    for (unsigned i = first; i < last; ++i) {
        if (block.fibers[i].wait == Wait::Done) continue;
        if (block.fibers[i].wait != wait) return false;
        any = true;
    }
    return any;
}

// 0, or 1 when threads wait for each other for ever.
inline int run_block(Block& block) {
    for (unsigned i = 0; i < block.threads; ++i) {
        Fiber& fiber = block.fibers[i];
        fiber.started = false;
        fiber.turn = 0;
        fiber.wait = Wait::Nothing;
        std::memset(fiber.exchange, 0xff, sizeof fiber.exchange);
    }
    for (unsigned i = 0; i < block.threads; ++i) advance(block, i);
    for (;;) {
        bool moved = false;
        for (unsigned first = 0; first < block.threads; first += LANES) {
            unsigned last = first + LANES < block.threads ? first + LANES : block.threads;
            while (all_wait(block, first, last, Wait::Warp)) {
                moved = true;
                for (unsigned i = first; i < last; ++i)
                    if (block.fibers[i].wait == Wait::Warp) advance(block, i);
            }
        }
        if (all_wait(block, 0, block.threads, Wait::Block)) {
            moved = true;
            for (unsigned i = 0; i < block.threads; ++i)
                if (block.fibers[i].wait == Wait::Block) advance(block, i);
        }
        if (!moved) break;
    }
    for (unsigned i = 0; i < block.threads; ++i)
        if (block.fibers[i].wait != Wait::Done) return 1;
    return 0;
}

template <typename... Args, std::size_t... I>
void call(void (*kernel)(Args...), void** args, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<Args>*>(args[I])...);
}

template <typename... Args>
struct Launch {
    void (*kernel)(Args...);
    void** args;
    static void body(void* self) {
        auto launch = static_cast<Launch*>(self);
        call(launch->kernel, launch->args, std::index_sequence_for<Args...>{});
    }
};

// 0; 1 for threads that wait for each other; 2 for another number of arguments than the kernel has.
template <typename... Args>
int launch(void (*kernel)(Args...), const unsigned* grid, const unsigned* dim, unsigned shared, void** args, unsigned count) {
    if (count != sizeof...(Args)) return 2;
    Block& block = now();
    Launch<Args...> work{kernel, args};
    block.body = Launch<Args...>::body;
    block.argument = &work;
    block.block_dim = {dim[0], dim[1], dim[2]};
    block.grid_dim = {grid[0], grid[1], grid[2]};
    block.threads = dim[0] * dim[1] * dim[2];
    while (block.fibers.size() < block.threads) block.fibers.emplace_back();
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x) {
                block.block = {x, y, z};
                // All bits set is a NaN in every float type, so what a kernel forgot to write shows.
                block.shared.assign(shared + 16, 0xff);
                if (run_block(block)) return 1;
            }
    return 0;
}

inline unsigned lane() { return now().current % LANES; }

// Shows `value` to the other lanes of the warp; the fibers' bytes may be read until the next exchange.
template <typename T>
const unsigned char (*show(const T& value))[2][EXCHANGE] {
    static_assert(sizeof(T) <= EXCHANGE);
    Block& block = now();
    Fiber& fiber = block.fibers[block.current];
    std::memcpy(fiber.exchange[fiber.turn % 2], &value, sizeof value);
    hand_over(Wait::Warp);
    ++fiber.turn;
    return &fiber.exchange;
}

// What `from` showed in the exchange that just ended.
template <typename T>
T shown(unsigned from) {
    Block& block = now();
    unsigned turn = block.fibers[block.current].turn - 1;
    T value;
    std::memcpy(&value, block.fibers[block.current / LANES * LANES + from].exchange[turn % 2], sizeof value);
    return value;
}

}  // namespace emulator

#define threadIdx (emulator::now().thread)
#define blockIdx (emulator::now().block)
#define blockDim (emulator::now().block_dim)
#define gridDim (emulator::now().grid_dim)

inline void __syncthreads() { emulator::hand_over(emulator::Wait::Block); }
inline void __syncwarp(unsigned = ~0u) { emulator::hand_over(emulator::Wait::Warp); }
inline void __threadfence() {}

template <typename T>
T __shfl_sync(unsigned, T value, int from, int = 32) {
    emulator::show(value);
    return emulator::shown<T>(static_cast<unsigned>(from) % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
    emulator::show(value);
    return emulator::shown<T>(emulator::lane() ^ static_cast<unsigned>(mask));
}
template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned by, int = 32) {
    emulator::show(value);
    unsigned from = emulator::lane() + by;
    return emulator::shown<T>(from < 32 ? from : emulator::lane());
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by, int = 32) {
    emulator::show(value);
    return emulator::shown<T>(emulator::lane() >= by ? emulator::lane() - by : emulator::lane());
}
inline unsigned __ballot_sync(unsigned, int condition) {
    emulator::show(condition);
    unsigned all = 0;
    for (unsigned i = 0; i < 32; ++i) all |= static_cast<unsigned>(emulator::shown<int>(i) == 1 || emulator::shown<int>(i) > 0) << i;
    return all;
}
inline int __any_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition != 0) != 0; }
inline int __all_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition == 0) == 0; }

inline unsigned __float_as_uint(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
inline int __float_as_int(float x) { return static_cast<int>(__float_as_uint(x)); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(x) * y) >> 64);
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }
template <typename T>
T __ldg(const T* from) { return *from; }
template <typename T>
T __ldcs(const T* from) { return *from; }
template <typename T>
void __stcs(T* to, T value) { *to = value; }
template <typename T>
T min(T a, T b) { return b < a ? b : a; }
template <typename T>
T max(T a, T b) { return a < b ? b : a; }
inline unsigned atomicAdd(unsigned* at, unsigned by) { return (*at += by) - by; }
inline int atomicAdd(int* at, int by) { return (*at += by) - by; }

#define EMULATE(name)                                                                                                   \
    extern "C" int emulate_##name(const unsigned* grid, const unsigned* block, unsigned shared, void** args, unsigned count) { \
        return emulator::launch(name, grid, block, shared, args, count);                                                \
    }
