"""Numbers of a seed, the same in Python and in `crates/cuda/examples/networks.rs`.

Value i of seed s is `center + width * u`, in float32, where u is the upper 24 bits of SplitMix64's draw i of s, as a number in
[-1, 1). So a file of random weights can travel without them: `blank` writes zeros in their place and says where they were.
"""

import numpy as np

STEP = np.uint64(0x9E3779B97F4A7C15)


def seed_of(text):
    """FNV-1a."""
    seed = 0xCBF29CE484222325
    for byte in text.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    return seed


def draw(seed, count, center, width):
    with np.errstate(over="ignore"):
        value = np.uint64(seed) + STEP * np.arange(1, count + 1, dtype=np.uint64)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(31)
    unit = (value >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return np.float32(center) + np.float32(width) * unit


def blank(data, drawn):
    """Zeros in place of the arrays of `drawn` (name to [seed, count, center, width]) in `data`, wherever they are; and the list of
    [offset, seed, count, center, width] that gives them back."""
    data, places = bytearray(data), []
    for seed, count, center, width in drawn.values():
        raw = draw(seed, count, center, width).tobytes()
        at = data.find(raw)
        while at >= 0:
            data[at : at + len(raw)] = bytes(len(raw))
            places.append([at, seed, count, center, width])
            at = data.find(raw, at + len(raw))
    return bytes(data), places
