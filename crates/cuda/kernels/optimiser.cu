// Optimisers of the adapted vector, as PyTorch defines them. Rounding follows the host step by step: no product is fused with
// a sum.
//
// `mask` is null, or has zeros where nothing may change. `steps` already counts the step that is made. When the loss used no
// image, or the gradient is broken, parameters and memory stay as they are.
#include "step.cuh"

// Notes a NaN or an infinity in the gradient, then adds the pull to the source, `pull * (params - source)`, unless it is null.
extern "C" __global__ void __launch_bounds__(256)
settle_gradient(const float *params, const float *source, const double *pull, float *gradient, StepResult *result, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float g = gradient[i];
        if ((__float_as_uint(g) & 0x7f800000u) == 0x7f800000u) result->broken = 1u;
        if (pull != nullptr) gradient[i] = (float)__dadd_rn((double)g, __dmul_rn(pull[i], (double)params[i] - (double)source[i]));
    }
}

// `v <- momentum * v + g` (first step `v = g`), then `p <- p - lr * v`, or with `nesterov` `p <- p - lr * (g + momentum * v)`.
extern "C" __global__ void __launch_bounds__(256)
sgd(float *params, const float *gradient, const float *mask, float *velocity, const int *steps, const StepResult *result,
    int count, float lr, float momentum, int nesterov) {
    if (result->used == 0 || result->broken != 0) return;
    bool opening = *steps == 1;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float g = mask != nullptr && mask[i] == 0.0f ? 0.0f : gradient[i];
        float v = opening ? g : __fadd_rn(__fmul_rn(momentum, velocity[i]), g);
        velocity[i] = v;
        float along = nesterov ? __fadd_rn(g, __fmul_rn(momentum, v)) : v;
        params[i] = __fsub_rn(params[i], __fmul_rn(lr, along));
    }
}

// `beta^steps` by repeated squaring.
static __device__ __forceinline__ double power(double beta, int steps) {
    double result = 1.0;
    for (; steps > 0; steps /= 2) {
        if (steps % 2 == 1) result = __dmul_rn(result, beta);
        beta = __dmul_rn(beta, beta);
    }
    return result;
}

// Adam with bias correction and no weight decay.
extern "C" __global__ void __launch_bounds__(256)
adam(float *params, const float *gradient, const float *mask, float *mean, float *square, const int *steps,
     const StepResult *result, int count, float lr, float beta1, float beta2, float eps) {
    if (result->used == 0 || result->broken != 0) return;
    __shared__ double corrections[2];
    if (threadIdx.x == 0) {
        corrections[0] = (double)lr / (1.0 - power((double)beta1, *steps));
        corrections[1] = sqrt(1.0 - power((double)beta2, *steps));
    }
    __syncthreads();
    double step = corrections[0], root = corrections[1];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float g = mask != nullptr && mask[i] == 0.0f ? 0.0f : gradient[i];
        float m = __fadd_rn(mean[i], __fmul_rn(__fsub_rn(1.0f, beta1), __fsub_rn(g, mean[i])));
        float squared = __fmul_rn(__fmul_rn(__fsub_rn(1.0f, beta2), g), g);
        float v = __fadd_rn(__fmul_rn(beta2, square[i]), squared);
        mean[i] = m;
        square[i] = v;
        double scale = __dadd_rn((double)sqrtf(v) / root, (double)eps);
        params[i] = __fsub_rn(params[i], (float)(__dmul_rn(step, (double)m) / scale));
    }
}
