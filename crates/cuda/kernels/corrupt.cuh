// What corruptions share: bytes to samples and back, and random draws.
//
// Sums and products are rounded one by one, as the host's are; divisions, roots, floors and conversions always are. Other
// functions may differ from the host's in the last bits: an image in which that could tell is marked as doubtful.
#pragma once

typedef unsigned char byte;
typedef unsigned long long word;

static __device__ __forceinline__ double add(double a, double b) {
    return __dadd_rn(a, b);
}

static __device__ __forceinline__ double mul(double a, double b) {
    return __dmul_rn(a, b);
}

static __device__ __forceinline__ double unit(byte level) {
    return (double)level / 255.0;
}

static __device__ __forceinline__ double clip(double x) {
    return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x;
}

static __device__ __forceinline__ byte finish(double x) {
    return (byte)(int)mul(clip(x), 255.0);
}

struct words4 {
    word at[4];
};

// Philox 4 x 64, 7 rounds.
static __device__ words4 philox(word block, word number, word key0, word key1) {
    word a = block, b = number, c = 0, d = 0;
    for (int round = 0; round < 7; round++) {
        word high1 = __umul64hi(a, 0xd2e7470ee14c6c93ull), low1 = a * 0xd2e7470ee14c6c93ull;
        word high2 = __umul64hi(c, 0xca5a826395121157ull), low2 = c * 0xca5a826395121157ull;
        a = high2 ^ b ^ key0;
        b = low2;
        c = high1 ^ d ^ key1;
        d = low1;
        key0 += 0x9e3779b97f4a7c15ull;
        key1 += 0xbb67ae8584caa73bull;
    }
    return {{a, b, c, d}};
}

// The upper 53 bits as a fraction.
static __device__ __forceinline__ double fraction(word bits) {
    return (double)(bits >> 11) * (1.0 / 9007199254740992.0);
}
