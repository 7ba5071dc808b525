"""Safetensors files with nothing but NumPy, and a small form of weights to start training from."""

import json
import lzma

import numpy as np

DTYPES = {"F16": np.float16, "F32": np.float32, "I8": np.int8, "I64": np.int64}


def read_tensors(data):
    """The tensors of a safetensors file's bytes, by name."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], DTYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_tensors(tensors):
    """The bytes of a safetensors file."""
    header, chunks, offset = {}, [], 0
    names = {np.dtype(kind): name for name, kind in DTYPES.items()}
    for name in sorted(tensors):
        values = np.ascontiguousarray(tensors[name]).reshape(np.shape(tensors[name]))
        header[name] = {
            "dtype": names[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [offset, offset + values.nbytes],
        }
        chunks.append(values.tobytes())
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(chunks)


def shrink(tensors, levels):
    """Filters as whole numbers of at most `levels` either way, each output channel with a scale of its own; the head is left out."""
    small = {}
    for name, values in tensors.items():
        if name.startswith("fc.") or name.endswith("num_batches_tracked"):
            continue
        if values.ndim < 2:
            small[name] = values.astype(np.float32)
            continue
        values = values.astype(np.float32)
        axes = tuple(range(1, values.ndim))
        scale = np.maximum(np.abs(values).max(axis=axes), 1e-12) / levels
        steps = np.rint(values / scale.reshape(-1, *[1] * (values.ndim - 1)))
        small[name] = steps.astype(np.int8)
        small[name + ".scale"] = scale.astype(np.float32)
    # Neighbouring filter values say nothing about each other: contexts of single bytes, no positions.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]
    return lzma.compress(write_tensors(small), filters=filters)


def grow(data):
    """The weights that `shrink` made small, in single precision."""
    small = read_tensors(lzma.decompress(data))
    tensors = {}
    for name, values in small.items():
        if name.endswith(".scale"):
            continue
        if values.dtype == np.int8:
            scale = small[name + ".scale"].reshape(-1, *[1] * (values.ndim - 1))
            values = values.astype(np.float32) * scale
        tensors[name] = values
    return tensors
