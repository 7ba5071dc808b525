// What activations and weights are stored as, read and written as float.
//
// FLIPCAST_BF16 is 1 for brain floats and 0 for 32-bit floats. `WIDTH` elements are 16 bytes; `lanes` holds them as float.
#pragma once

#if FLIPCAST_BF16
struct element {
    unsigned short bits;
};
#define WIDTH 8
#else
typedef float element;
#define WIDTH 4
#endif

struct lanes {
    float at[WIDTH];
};

struct alignas(16) words {
    unsigned at[4];
};

static __device__ __forceinline__ float from_brain(unsigned bits) {
    return __uint_as_float(bits << 16);
}

// The nearest brain float, ties to even; a NaN stays one.
static __device__ __forceinline__ unsigned to_brain(float x) {
#if defined(__CUDA_ARCH__)
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    unsigned bits = __float_as_uint(x);
    if (x != x) {
        return (bits >> 16) | 0x40u;
    }
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#endif
}

static __device__ __forceinline__ float load(const element *from) {
#if FLIPCAST_BF16
    return from_brain(from->bits);
#else
    return *from;
#endif
}

static __device__ __forceinline__ void store(element *to, float x) {
#if FLIPCAST_BF16
    to->bits = (unsigned short)to_brain(x);
#else
    *to = x;
#endif
}

static __device__ __forceinline__ lanes unpack(const words &raw) {
    lanes out;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if FLIPCAST_BF16
        out.at[2 * i] = from_brain(raw.at[i] & 0xffffu);
        out.at[2 * i + 1] = __uint_as_float(raw.at[i] & 0xffff0000u);
#else
        out.at[i] = __uint_as_float(raw.at[i]);
#endif
    }
    return out;
}

// `from` and `to` lie on multiples of 16 bytes.
static __device__ __forceinline__ lanes load_lanes(const element *from) {
    return unpack(*reinterpret_cast<const words *>(from));
}

static __device__ __forceinline__ words pack_lanes(const lanes &x) {
    words raw;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if FLIPCAST_BF16
        raw.at[i] = to_brain(x.at[2 * i]) | (to_brain(x.at[2 * i + 1]) << 16);
#else
        raw.at[i] = __float_as_uint(x.at[i]);
#endif
    }
    return raw;
}

static __device__ __forceinline__ void store_lanes(element *to, const lanes &x) {
    *reinterpret_cast<words *>(to) = pack_lanes(x);
}

// The same to global memory, in one instruction whatever surrounds it: compilers split the other one where they cannot order it.
static __device__ __forceinline__ void store_lanes_global(element *to, const lanes &x) {
    words raw = pack_lanes(x);
#if defined(__CUDA_ARCH__)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(raw.at[0]), "r"(raw.at[1]), "r"(raw.at[2]), "r"(raw.at[3])
                 : "memory");
#else
    *reinterpret_cast<words *>(to) = raw;
#endif
}
