"""Makes the weight files in this folder and `manifest.json`, which holds what a reader must find in them.

Run with torch, numpy and safetensors installed:  python make_weights.py
The same versions give the same values; storage keys of the legacy format and archive ids may differ.
"""

import argparse
import hashlib
import json
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy
import safetensors
import safetensors.torch
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
FORMATS = {"zip": "torch (zip)", "legacy": "torch (legacy)"}

manifest = {}


def describe(tensor):
    """Element type, shape and the values as `f32`, which a Python float holds exactly."""
    dtype = {
        torch.float16: "f16",
        torch.bfloat16: "bf16",
        torch.float32: "f32",
        torch.float64: "f64",
        torch.uint8: "u8",
        torch.int8: "i8",
        torch.int16: "i16",
        torch.int32: "i32",
        torch.int64: "i64",
        torch.bool: "bool",
    }[tensor.dtype]
    values = tensor.detach().to(torch.float32).reshape(-1).tolist()
    return {"dtype": dtype, "shape": list(tensor.shape), "values": values}


def expect(file, format, tensors, nesting=(), prefix="", skipped=(), metadata=None):
    manifest[file] = {
        "format": format,
        "nesting": list(nesting),
        "prefix": prefix,
        "skipped": list(skipped),
        "metadata": metadata or {},
        "tensors": {name: describe(tensor) for name, tensor in tensors.items()},
    }


def save_torch(stem, obj, tensors, protocol=2, **expected):
    """Saves `obj` in both torch formats."""
    for kind, format in FORMATS.items():
        file = f"{stem}.{kind}.pth"
        is_zip = kind == "zip"
        torch.save(obj, HERE / file, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
        expect(file, format, tensors, **expected)


def values(generator, *shape, dtype=torch.float32):
    """Irregular values, no two alike."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def small_net(generator):
    """A convolution, a norm and a head, with every parameter and buffer away from its default."""
    net = nn.Sequential(OrderedDict(conv=nn.Conv2d(2, 3, (3, 1), bias=False), bn=nn.BatchNorm2d(3), fc=nn.Linear(3, 2)))
    with torch.no_grad():
        for tensor in [*net.parameters(), net.bn.running_mean, net.bn.running_var]:
            tensor.copy_(values(generator, *tensor.shape))
        net.bn.num_batches_tracked.fill_(7)
    return net


def main():
    generator = torch.Generator().manual_seed(20240724)
    net = small_net(generator)
    state = net.state_dict()
    counter = "bn.num_batches_tracked"
    weights = {name: tensor for name, tensor in state.items() if name != counter}

    for dtype, name in [(torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16"), (torch.float64, "f64")]:
        tensors = {"conv.weight": values(generator, 2, 3, 1, dtype=dtype), "scale": values(generator, dtype=dtype)}
        metadata = {"format": "pt", "architecture": "größe"}
        safetensors.torch.save_file(tensors, HERE / f"{name}.safetensors", metadata)
        expect(f"{name}.safetensors", "safetensors", tensors, metadata=metadata)
        save_torch(name, tensors, tensors)

    integers = {
        "u8": torch.tensor([0, 7, 255], dtype=torch.uint8),
        "i8": torch.tensor([[-128], [127]], dtype=torch.int8),
        "i16": torch.tensor([-32768, 3], dtype=torch.int16),
        "i32": torch.tensor([-70000, 70000], dtype=torch.int32),
        "i64": torch.tensor([-5, 1 << 40], dtype=torch.int64),
        "bool": torch.tensor([True, False, True]),
        "empty": torch.zeros(0, 3),
    }
    safetensors.torch.save_file(integers, HERE / "integers.safetensors")
    expect("integers.safetensors", "safetensors", integers)
    save_torch("integers", integers, integers)

    safetensors.torch.save_file({f"module.{n}": t for n, t in state.items()}, HERE / "module_prefix.safetensors")
    expect("module_prefix.safetensors", "safetensors", weights, prefix="module.", skipped=[f"module.{counter}"])

    save_torch("state_dict", state, weights, skipped=[counter])
    save_torch("data_parallel", nn.DataParallel(net).state_dict(), weights, prefix="module.", skipped=[f"module.{counter}"])
    save_torch("parameters", OrderedDict(net.named_parameters()), dict(net.named_parameters()))

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    checkpoint = {
        "epoch": 3,
        "arch": "small_net",
        "state_dict": {f"module.model.{n}": t for n, t in state.items()},
        "best_acc": torch.tensor(71.5),
        "best_score": numpy.float64(0.25),
        "optimizer": optimizer.state_dict(),
        "args": argparse.Namespace(lr=0.1, gpu=None, milestones=[30, 60]),
        "shape": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "dtype": torch.float32,
        "tags": {"clean"},
        "big": 1 << 80,
        "blob": b"\xff\x00",
    }
    save_torch("checkpoint", checkpoint, weights, nesting=["state_dict"], prefix="module.model.", skipped=[f"module.model.{counter}"])
    for wrapper in ["model", "net"]:
        nested = {wrapper: {"state_dict": state}}
        save_torch(f"nested_{wrapper}", nested, weights, nesting=[wrapper, "state_dict"], skipped=[counter])

    base = values(generator, 4, 5)
    views = {
        "transposed": base.t(),
        "column": base[:, 2],
        "row": base[3],
        "stepped": base[1::2, ::3],
        "whole": base,
        "again": base,
        "channels_last": values(generator, 2, 3, 2, 2).to(memory_format=torch.channels_last),
    }
    save_torch("views", views, views)

    for protocol in [3, 4, 5]:
        save_torch(f"protocol{protocol}", {"model": state, "epoch": 70000}, weights, protocol=protocol, nesting=["model"], skipped=[counter])

    # Refused by design; the tests name the error each one must give.
    torch.save({"state_dict": state, "ema": weights}, HERE / "ambiguous.pth")
    torch.save({"w": torch.ones(1).expand(4, 1)}, HERE / "expanded.pth")
    torch.save({"w": torch.ones(2, dtype=torch.complex64)}, HERE / "complex.pth")
    torch.save(net, HERE / "whole_model.pth")
    (HERE / "plain.pickle").write_bytes(pickle.dumps({"w": [1.0, 2.0]}, protocol=2))

    for file, expected in manifest.items():
        expected["sha256"] = hashlib.sha256((HERE / file).read_bytes()).hexdigest()
    made_with = {"torch": torch.__version__, "safetensors": safetensors.__version__}
    lines = [f"  {json.dumps(file)}: {json.dumps(expected, ensure_ascii=False)}" for file, expected in manifest.items()]
    text = f'{{"made_with": {json.dumps(made_with)}, "files": {{\n' + ",\n".join(lines) + "\n}}\n"
    (HERE / "manifest.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
