// Images of a set, by their positions.

// `to` gets the images at `positions`, `len` floats each. One row of blocks per image.
extern "C" __global__ void __launch_bounds__(256)
gather_images(const float *set, const int *positions, float *to, int len) {
    const float *from = set + (long long)positions[blockIdx.y] * len;
    to += (long long)blockIdx.y * len;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < len; i += gridDim.x * blockDim.x) to[i] = from[i];
}
