// Batches as the first layer reads them: gathered, normalised and laid out in one go.
#include "element.cuh"

// Where a batch lies. It is read on the device, so that what was recorded once serves every batch.
struct batch_source {
    // Floats, or bytes if there is a scale; null for images of zeros.
    const void *pixels;
    // 256 values per channel.
    const float *scale;
    // Where the images stand among those of `pixels`; null for the first ones.
    const int *positions;
    // Elements from one image, row, column and channel to the next.
    long long image, row, column, channel;
};

// `block` by `block` pixels to one with all their channels, blocks of zeros before and after, zeros behind the channels. One
// row of blocks per image; `wide` if the channels are taken 16 bytes at a time.
extern "C" __global__ void __launch_bounds__(256)
spread_input(const batch_source *from, element *to, int images, int height, int width, int channels, int block, int rows, int columns,
             int padded, int top, int left, int wide) {
    extern __shared__ float scale[];
    batch_source source = *from;
    if (source.scale) {
        for (int i = threadIdx.x; i < 256 * channels; i += blockDim.x) scale[i] = source.scale[i];
        __syncthreads();
    }
    int group = wide ? WIDTH : 1, groups = padded / group, count = rows * columns * groups;
    for (int image = blockIdx.y; image < images; image += gridDim.y) {
        long long start = (source.positions ? source.positions[image] : image) * source.image;
        element *out = to + (long long)image * rows * columns * padded;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
            int pixel = i / groups, first = i % groups * group;
            int r = pixel / columns, q = pixel % columns;
            lanes values;
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                int inner = (first + j) / channels, c = (first + j) % channels;
                int y = (r - top) * block + inner / block, x = (q - left) * block + inner % block;
                bool inside = j < group && inner < block * block && y >= 0 && y < height && x >= 0 && x < width && source.pixels;
                long long at = start + y * source.row + x * source.column + c * source.channel;
                float value = 0.0f;
                if (inside) {
                    value = source.scale ? scale[256 * c + ((const unsigned char *)source.pixels)[at]] : ((const float *)source.pixels)[at];
                }
                values.at[j] = value;
            }
            if (wide) {
                store_lanes(out + (long long)i * WIDTH, values);
            } else {
                store(out + i, values.at[0]);
            }
        }
    }
}

// Sets `bad[image]` for every image of floats that holds a NaN or an infinity. One row of blocks per image; all that write a word write the same.
extern "C" __global__ void __launch_bounds__(256)
find_non_finite(const batch_source *from, int *bad, int images, int height, int width, int channels) {
    batch_source source = *from;
    int count = height * width * channels;
    for (int image = blockIdx.y; image < images; image += gridDim.y) {
        long long start = (source.positions ? source.positions[image] : image) * source.image;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
            int c = i % channels, x = i / channels % width, y = i / channels / width;
            float value = ((const float *)source.pixels)[start + y * source.row + x * source.column + c * source.channel];
            if (!(fabsf(value) <= 3.402823466e38f)) bad[image] = 1;
        }
    }
}
