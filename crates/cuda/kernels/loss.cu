// Losses without labels and their gradients with respect to the logits, in 64-bit floats as on the host.
//
// Two launches make a step: `loss_rows` finds what an image's prediction says of itself, and `loss_gradient`, which knows how
// many images were kept, writes the gradient and moves the average prediction. Nothing is read back in between. With a NaN or an
// infinity among the logits no image is kept, so that nothing moves.
#include "element.cuh"
#include "step.cuh"
#include "warp.cuh"

// Numbered as the host passes them.
enum Method : int { ENTROPY = 0, SELECTED_ENTROPY = 1, ROBUST = 2, CONJUGATE = 3 };

// What is known of an image after `loss_rows`.
struct Row {
    double largest, log_sum, entropy;
    // 0 left out, 1 reliable but redundant, 2 kept.
    long long verdict;
};

// Share of the class average that a batch leaves in place.
constexpr double MEMORY = 0.9;

static __device__ __forceinline__ double log_prob(const Row &row, float logit) {
    return ((double)logit - row.largest) - row.log_sum;
}

// One block per image. `average` is compared with once `state[0]` says that there is one; that it was there goes to
// `state[1]`. A negative `cosine_margin` lets every image pass.
extern "C" __global__ void __launch_bounds__(256)
loss_rows(const float *logits, int classes, int method, double entropy_margin, double cosine_margin, const double *average,
          int *state, Row *rows) {
    __shared__ double sums[8];
    __shared__ float tops[8];
    const float *z = logits + (long long)blockIdx.x * classes;
    float top = __uint_as_float(0xff800000u);
    for (int k = threadIdx.x; k < classes; k += blockDim.x) top = fmaxf(top, z[k]);
    Row row;
    row.largest = block_max(top, tops);
    double sum = 0.0;
    for (int k = threadIdx.x; k < classes; k += blockDim.x) sum += exp((double)z[k] - row.largest);
    row.log_sum = log(block_sum(sum, sums));
    bool compare = method == SELECTED_ENTROPY && cosine_margin >= 0.0 && state[0] != 0;
    double entropy = 0.0, dot = 0.0, of_average = 0.0, of_probs = 0.0;
    for (int k = threadIdx.x; k < classes; k += blockDim.x) {
        double log_p = log_prob(row, z[k]), p = exp(log_p);
        entropy -= p * log_p;
        if (compare) {
            dot += average[k] * p;
            of_average += average[k] * average[k];
            of_probs += p * p;
        }
    }
    row.entropy = block_sum(entropy, sums);
    row.verdict = 2;
    if (method == SELECTED_ENTROPY) {
        if (compare) {
            dot = block_sum(dot, sums);
            of_average = block_sum(of_average, sums);
            of_probs = block_sum(of_probs, sums);
            double cosine = dot / sqrt(of_average * of_probs);
            row.verdict = fabs(cosine) < cosine_margin ? 2 : 1;
        }
        if (!(row.entropy < entropy_margin)) row.verdict = 0;
    }
    if (threadIdx.x == 0) {
        rows[blockIdx.x] = row;
        if (blockIdx.x == 0) state[1] = state[0];
    }
}

// The gradient of the conjugate loss of the PolyLoss: with `a_k = s_k / (1 + eps s_k)`, the label is `y = a / sum a`.
static __device__ __forceinline__ void conjugate(const float *z, const Row &row, element *gradient, int classes, int images,
                                                 double epsilon, double *sums) {
    double sum = 0.0, y_u = 0.0, y_s = 0.0, g_s = 0.0;
    for (int k = threadIdx.x; k < classes; k += blockDim.x) {
        double s = exp(log_prob(row, z[k]));
        sum += s / (1.0 + epsilon * s);
    }
    double total = block_sum(sum, sums);
    for (int k = threadIdx.x; k < classes; k += blockDim.x) {
        double log_s = log_prob(row, z[k]), s = exp(log_s), y = s / (1.0 + epsilon * s) / total;
        y_u += y * (log_s - epsilon * (1.0 - s));
        y_s += y * s;
    }
    y_u = block_sum(y_u, sums);
    y_s = block_sum(y_s, sums);
    for (int turn = 0; turn < 2; turn++) {
        for (int k = threadIdx.x; k < classes; k += blockDim.x) {
            double log_s = log_prob(row, z[k]), s = exp(log_s), root = 1.0 + epsilon * s, y = s / root / total;
            double g = (log_s - epsilon * (1.0 - s) - y_u) / (root * root * total);
            if (turn == 0) {
                g_s += g * s;
            } else {
                double slope = s - y - epsilon * s * (y - y_s) - s * (g - g_s);
                store(gradient + k, (float)(slope / images));
            }
        }
        if (turn == 0) g_s = block_sum(g_s, sums);
    }
}

// The first `images` blocks write a row of the gradient each, and the first of them what the step came to; the others move the
// average of 256 classes each. `setting` is the entropy margin, the power of the robust loss, or the weight of the conjugate
// loss's linear term. `steps` counts the optimiser's steps: it goes up unless no image was kept.
extern "C" __global__ void __launch_bounds__(256)
loss_gradient(const float *logits, const Row *rows, int images, int classes, int method, double setting, double *average,
              int *state, element *gradient, StepResult *result, int *steps) {
    __shared__ double sums[8];
    __shared__ int counts[8];
    int kept = 0, reliable = 0, finite = 0;
    for (int i = threadIdx.x; i < images; i += blockDim.x) {
        kept += rows[i].verdict == 2;
        reliable += rows[i].verdict >= 1;
        // A NaN equals nothing, and an entropy is a NaN if any logit of its row is no number.
        finite += rows[i].entropy == rows[i].entropy;
    }
    kept = block_sum(kept, counts);
    reliable = block_sum(reliable, counts);
    if (block_sum(finite, counts) < images) kept = 0;
    if ((int)blockIdx.x >= images) {
        int k = (blockIdx.x - images) * blockDim.x + threadIdx.x;
        if (k >= classes || kept == 0) return;
        double mean = 0.0;
        for (int i = 0; i < images; i++) {
            if (rows[i].verdict == 2) mean += exp(log_prob(rows[i], logits[(long long)i * classes + k])) / kept;
        }
        average[k] = state[1] != 0 ? MEMORY * average[k] + (1.0 - MEMORY) * mean : mean;
        return;
    }
    if (blockIdx.x == 0) {
        double entropy = 0.0;
        for (int i = threadIdx.x; i < images; i += blockDim.x) entropy += rows[i].entropy;
        entropy = block_sum(entropy, sums);
        if (threadIdx.x == 0) {
            *result = {entropy / images, (unsigned)reliable, (unsigned)kept, 0u, 0u};
            if (kept > 0) {
                *steps += 1;
                if (method == SELECTED_ENTROPY) state[0] = 1;
            }
        }
    }
    Row row = rows[blockIdx.x];
    const float *z = logits + (long long)blockIdx.x * classes;
    element *to = gradient + (long long)blockIdx.x * classes;
    if (method == CONJUGATE) {
        conjugate(z, row, to, classes, images, setting, sums);
        return;
    }
    if (method == ROBUST) {
        // The first of the most probable classes.
        int first = classes;
        for (int k = threadIdx.x; k < classes; k += blockDim.x) {
            if (z[k] == row.largest && k < first) first = k;
        }
        int label = -block_max(-first, counts);
        double power = exp(setting * -row.log_sum);
        for (int k = threadIdx.x; k < classes; k += blockDim.x) {
            double p = exp(log_prob(row, z[k]));
            store(to + k, (float)(power * (p - (k == label ? 1.0 : 0.0)) / images));
        }
        return;
    }
    double weight = method == ENTROPY ? 1.0 / images : row.verdict == 2 ? exp(setting - row.entropy) / kept : 0.0;
    for (int k = threadIdx.x; k < classes; k += blockDim.x) {
        double log_p = log_prob(row, z[k]);
        // An image left out has no gradient at all, not a product with zero.
        store(to + k, weight == 0.0 ? 0.0f : (float)(-weight * exp(log_p) * (log_p + row.entropy)));
    }
}
