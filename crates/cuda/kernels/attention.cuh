// What the attention kernels share: where the numbers of a unit lie, and what is added to its scores.
//
// A unit is one head of one group of one image. `values` is `[image, token, 3 * channels]` with `[q | k | v]` in the channels
// and the heads of each one after the other; `order` names the tokens of an image group after group, or is null when there
// is one group of all of them. Scores are kept in units of log 2, so that the softmax needs no conversion.
#pragma once

#include "element.cuh"

constexpr float LOG2_E = 1.44269504f;
// Added to the score of two tokens of different regions, as published.
constexpr float MASK = -100.0f;
#define MINUS_INFINITY __uint_as_float(0xff800000u)

enum Part : int { QUERY = 0, KEY = 1, VALUE = 2 };

struct Layer {
    const unsigned *order;
    // `[head][query][key]`, or null.
    const float *bias;
    // One per entry of `order`, or null.
    const unsigned char *regions;
    int tokens, group, groups, heads, head_channels;
    float scale;
};

struct Unit {
    Layer layer;
    int image, group, head;

    __device__ __forceinline__ Unit(const Layer &layer, int index) : layer(layer) {
        head = index % layer.heads;
        group = index / layer.heads % layer.groups;
        image = index / layer.heads / layer.groups;
    }

    // The place of the `i`-th token of the group in the batch.
    __device__ __forceinline__ long long token(int i) const {
        long long within = layer.order == nullptr ? i : layer.order[group * layer.group + i];
        return (long long)image * layer.tokens + within;
    }

    // Where a part of a token begins in `[q | k | v]`.
    __device__ __forceinline__ long long part(int part, int i) const {
        long long channels = layer.heads * layer.head_channels;
        return (token(i) * 3 + part) * channels + head * layer.head_channels;
    }

    // Where a token begins in a result of a third of the channels.
    __device__ __forceinline__ long long result(int i) const {
        return (token(i) * layer.heads + head) * layer.head_channels;
    }

    // What is added to the score of two tokens of the group, in units of log 2.
    __device__ __forceinline__ float extra(int query, int key) const {
        float sum = 0.0f;
        if (layer.bias != nullptr) {
            sum = layer.bias[((long long)head * layer.group + query) * layer.group + key];
        }
        if (layer.regions != nullptr) {
            const unsigned char *regions = layer.regions + group * layer.group;
            sum += regions[query] == regions[key] ? 0.0f : MASK;
        }
        return sum * LOG2_E;
    }
};
