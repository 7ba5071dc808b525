"""Takes the weights out of a folded ONNX file, and puts them back from the weights that it was exported from.

    python tools/models/refold.py pack WEIGHTS.safetensors NET.onnx NET.packed
    python tools/models/refold.py fill WEIGHTS.safetensors NET.packed NET.onnx

so that a file of `tools/export_onnx.py` can be brought to a machine that has the weights without PyTorch's exporter there. `fill` folds the
batch norms as the exporter did, bit for bit: it ends with an error where the SHA-256 of the result is not that of the packed file. Knows
ResNets under torchvision's names. Needs numpy.
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

DTYPES = {"F16": np.float16, "F32": np.float32, "I64": np.int64}
EPS = np.float32(1e-5)


def load(path):
    """The tensors of a safetensors file in single precision."""
    data = Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[first:last], DTYPES[entry["dtype"]]).reshape(entry["shape"]).astype(np.float32)
    return tensors


def fold(tensors):
    """Arrays of the ONNX file by name: filters and biases of convolutions with the norm behind them folded in, and the classifier."""
    arrays = {}
    for name, weight in tensors.items():
        if name.startswith("fc."):
            arrays[name] = weight
        if weight.ndim != 4:
            continue
        layer = name.removesuffix(".weight")
        if layer.endswith("downsample.0"):
            norm = layer.removesuffix("0") + "1"
        else:
            path, dot, last = layer.rpartition(".")
            norm = path + dot + last.replace("conv", "bn")
        scale, shift, mean, variance = (tensors[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        factor = scale / np.sqrt(variance + EPS)
        arrays[name] = weight * factor.reshape(-1, 1, 1, 1)
        arrays[f"{name}_bias"] = (0 - mean) * factor + shift
    return {name: np.ascontiguousarray(array, np.float32).tobytes() for name, array in arrays.items()}


def pack(weights, net, out):
    data = bytearray(Path(net).read_bytes())
    digest, places = hashlib.sha256(data).hexdigest(), []
    for name, raw in fold(load(weights)).items():
        at = data.find(raw)
        if at < 0:
            sys.exit(f"`{net}` does not hold `{name}` as folded here")
        data[at : at + len(raw)] = bytes(len(raw))
        places.append([name, at])
    head = json.dumps({"sha256": digest, "places": places}).encode()
    Path(out).write_bytes(gzip.compress(len(head).to_bytes(8, "little") + head + bytes(data), 9))


def fill(weights, packed, out):
    data = gzip.decompress(Path(packed).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    head, data = json.loads(data[8:start]), bytearray(data[start:])
    arrays = fold(load(weights))
    for name, at in head["places"]:
        data[at : at + len(arrays[name])] = arrays[name]
    found = hashlib.sha256(data).hexdigest()
    if found != head["sha256"]:
        sys.exit(f"the file filled from `{weights}` has the SHA-256 {found}, expected {head['sha256']}")
    Path(out).write_bytes(data)


if __name__ == "__main__":
    {"pack": pack, "fill": fill}[sys.argv[1]](*sys.argv[2:])
