// Element-wise functions and their slopes. The numbers are those of `launch::activation_code`.
#pragma once

#define IDENTITY 0
#define RELU 1
#define RELU6 2
#define SILU 3
#define GELU 4
#define GELU_TANH 5
#define TANH 6
#define SIGMOID 7
#define HARD_SWISH 8
#define HARD_SIGMOID 9
#define INVERSE_SQRT 10

static __device__ __forceinline__ float sigmoid(float z) {
    return 1.0f / (1.0f + __expf(-z));
}

// The normal distribution function, from exp(-z^2 / 2): one polynomial of Abramowitz and Stegun (7.1.26), whose error is below
// 1e-7 everywhere.
static __device__ __forceinline__ float normal_distribution(float z, float decay) {
    float t = __fdividef(1.0f, 1.0f + 0.3275911f * 0.70710678118654752f * fabsf(z));
    float tail = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    tail *= 0.5f * decay;
    return z > 0.0f ? 1.0f - tail : tail;
}

// sigmoid(2 sqrt(2 / pi) (z + 0.044715 z^3)) = (1 + tanh(...)) / 2
static __device__ __forceinline__ float gelu_gate(float z) {
    return sigmoid(1.5957691216057308f * (z + 0.044715f * z * z * z));
}

// The function at `z`. A NaN stays one.
static __device__ __forceinline__ float activate(int activation, float z) {
    switch (activation) {
    case RELU:
        return z < 0.0f ? 0.0f : z;
    case RELU6:
        return z < 0.0f ? 0.0f : (z > 6.0f ? 6.0f : z);
    case SILU:
        return z * sigmoid(z);
    case GELU:
        return z * normal_distribution(z, __expf(-0.5f * z * z));
    case GELU_TANH:
        return z * gelu_gate(z);
    case TANH:
        return tanhf(z);
    case SIGMOID:
        return sigmoid(z);
    case INVERSE_SQRT:
        return z > 0.0f ? 1.0f / sqrtf(z) : 0.0f;
    case HARD_SIGMOID: {
        float gate = z + 3.0f;
        return (gate < 0.0f ? 0.0f : (gate > 6.0f ? 6.0f : gate)) * (1.0f / 6.0f);
    }
    case HARD_SWISH: {
        float gate = z + 3.0f;
        gate = gate < 0.0f ? 0.0f : (gate > 6.0f ? 6.0f : gate);
        return z * gate * (1.0f / 6.0f);
    }
    default:
        return z;
    }
}

// The slope at `z`. At a kink of a piecewise linear function it is that of the left side, as on the CPU.
static __device__ __forceinline__ float slope_at(int activation, float z) {
    switch (activation) {
    case RELU:
        return z > 0.0f ? 1.0f : 0.0f;
    case RELU6:
        return z > 0.0f && z < 6.0f ? 1.0f : 0.0f;
    case SILU: {
        float s = sigmoid(z);
        return s * (z * (1.0f - s) + 1.0f);
    }
    case GELU: {
        float decay = __expf(-0.5f * z * z);
        return normal_distribution(z, decay) + z * 0.39894228040143268f * decay;
    }
    case GELU_TANH: {
        float s = gelu_gate(z);
        float inner = 1.5957691216057308f + 0.21406444f * z * z;
        return s * (z * inner * (1.0f - s) + 1.0f);
    }
    case TANH: {
        float t = tanhf(z);
        return 1.0f - t * t;
    }
    case SIGMOID: {
        float s = sigmoid(z);
        return s * (1.0f - s);
    }
    case INVERSE_SQRT: {
        float r = z > 0.0f ? 1.0f / sqrtf(z) : 0.0f;
        return -0.5f * r * r * r;
    }
    case HARD_SIGMOID:
        return z > -3.0f && z < 3.0f ? 1.0f / 6.0f : 0.0f;
    case HARD_SWISH:
        return z > -3.0f ? (z > 3.0f ? 1.0f : z * (1.0f / 3.0f) + 0.5f) : 0.0f;
    default:
        return 1.0f;
    }
}

// What kernels are compiled for: no activation, one that is a clamp, GELU, or any.
#define LINEAR 0
#define CLAMPED 1
#define GELUS 2
#define CURVED 3

static __device__ __forceinline__ int kind_of(int activation) {
    return activation == IDENTITY ? LINEAR : activation <= RELU6 ? CLAMPED : activation == GELU ? GELUS : CURVED;
}

// Bounds of the piecewise linear activations.
static __device__ __forceinline__ float lower_bound(int activation) {
    return activation == IDENTITY ? -__int_as_float(0x7f800000) : 0.0f;
}

static __device__ __forceinline__ float upper_bound(int activation) {
    return activation == RELU6 ? 6.0f : __int_as_float(0x7f800000);
}

// A NaN stays one.
static __device__ __forceinline__ float clamp(float z, float low, float high) {
#if defined(__CUDA_ARCH__)
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(z) : "f"(low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(z) : "f"(high));
    return z;
#else
    return z < low ? low : (z > high ? high : z);
#endif
}

// The activation at `z`, and the gradient below it, by kind.
template <int KIND>
static __device__ __forceinline__ float activate_as(int activation, float z, float low, float high) {
    return KIND == LINEAR ? z : KIND == CLAMPED ? clamp(z, low, high) : activate(KIND == GELUS ? GELU : activation, z);
}

template <int KIND>
static __device__ __forceinline__ float below_as(int activation, float gradient, float z, float low, float high) {
    if (KIND == LINEAR) {
        return gradient;
    }
    if (KIND == CLAMPED) {
        return z > low && z < high ? gradient : 0.0f;
    }
    return gradient * slope_at(KIND == GELUS ? GELU : activation, z);
}

// Calls `f` with the kind of `activation` for its template argument.
#define BY_KIND(f, kind, ...)                                                                                              \
    switch (kind) {                                                                                                        \
    case LINEAR:                                                                                                           \
        f<LINEAR>(__VA_ARGS__);                                                                                            \
        break;                                                                                                             \
    case CLAMPED:                                                                                                          \
        f<CLAMPED>(__VA_ARGS__);                                                                                           \
        break;                                                                                                             \
    case GELUS:                                                                                                            \
        f<GELUS>(__VA_ARGS__);                                                                                             \
        break;                                                                                                             \
    default:                                                                                                               \
        f<CURVED>(__VA_ARGS__);                                                                                            \
    }
