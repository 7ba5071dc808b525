// The tables of a norm: nine rows of `len` floats in one block. Batch norms have one entry per channel, group norms one per image
// and channel. A derived value is `activate(scale * y + shift)`, and a gradient `slope * g + pull * y + constant`.
#pragma once

#define CENTRE 0
#define VARIANCE 1
#define INVERSE 2
#define SCALE 3
#define SHIFT 4
#define SLOPE 5
#define PULL 6
#define CONSTANT 7
#define BATCH_MEAN 8

static __device__ __forceinline__ void set_tables(float *tables, int len, int at, double mean, double variance, float scale, float shift, float eps) {
    double inverse = 1.0 / sqrt(variance + (double)eps);
    float factor = (float)((double)scale * inverse);
    tables[CENTRE * len + at] = (float)mean;
    tables[VARIANCE * len + at] = (float)variance;
    tables[INVERSE * len + at] = (float)inverse;
    tables[SCALE * len + at] = factor;
    // From the rounded factor, so that a value at the mean lands on the shift.
    tables[SHIFT * len + at] = (float)((double)shift - mean * (double)factor);
}

// What statistics of the batch and running ones come to.
struct statistics {
    double mean, variance;
};

// Of the statistics, `source_weight` are the running ones; `unbiased` asks for the batch's variance over count - 1.
static __device__ __forceinline__ statistics mix_statistics(statistics batch, double count, int unbiased, float source_weight,
                                                            const float *running_mean, const float *running_variance, int c) {
    if (unbiased) {
        batch.variance *= count / (count - 1.0);
    }
    if (source_weight != 0.0f) {
        double w = (double)source_weight;
        batch.mean = w * (double)running_mean[c] + (1.0 - w) * batch.mean;
        batch.variance = w * (double)running_variance[c] + (1.0 - w) * batch.variance;
    }
    return batch;
}
