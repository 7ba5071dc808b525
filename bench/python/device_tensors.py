"""Tensors on a GPU: read where they lie, the same numbers as from the host, and refused where they are wrong.

    python bench/python/device_tensors.py [--side 224] [--batch 64] [--device cuda]

Needs torch with CUDA and the flipcast wheel. Prints one line per check, numbers as JSON at the end, and ends with 1 if a check failed. `--device cpu` runs what needs no GPU.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time

import flipcast
import numpy as np
import torch
from torch import nn


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, ins, width, stride):
        super().__init__()
        outs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(ins, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outs, 1, bias=False), nn.BatchNorm2d(outs)
        self.shortcut = None
        if stride != 1 or ins != outs:
            self.shortcut = nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + (x if self.shortcut is None else self.shortcut(x)))


def resnet(blocks, classes=1000):
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    ins, body = 64, []
    for stage, count in enumerate(blocks):
        for block in range(count):
            body.append(Bottleneck(ins, 64 << stage, 2 if stage > 0 and block == 0 else 1))
            ins = 256 << stage
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ins, classes))


@contextlib.contextmanager
def copies(told):
    """Bytes that everything in the process copies to and on the GPU meanwhile, as the profiler of the driver sees them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        yield
        torch.cuda.synchronize()
    path = f"/tmp/flipcast-trace-{os.getpid()}.json"
    seen.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    os.remove(path)
    for kind in ("HtoD", "DtoD"):
        told[kind] = sum(e.get("args", {}).get("bytes", 0) for e in events if f"Memcpy {kind}" in e.get("name", ""))
    told["kernels"] = sum(e.get("cat") == "kernel" for e in events)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--side", type=int, default=224)
    arguments.add_argument("--batch", type=int, default=64)
    arguments.add_argument("--blocks", default="3,4,6,3")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--precisions", default="bf16,tf32,f32")
    args = arguments.parse_args()
    torch.manual_seed(0)
    begun, failed, numbers = time.time(), [], {"torch": torch.__version__, "numpy": np.__version__, "batch": args.batch, "side": args.side}
    if args.device == "cuda":
        numbers["gpu"] = torch.cuda.get_device_name()

    def check(what, holds, more=""):
        print(f"{time.time() - begun:6.1f} s  {'ok' if holds else 'FAILED'}  {what} {more}", flush=True)
        if not holds:
            failed.append(what)

    net = resnet([int(count) for count in args.blocks.split(",")]).eval()
    with torch.no_grad():
        # Running statistics that are not 0 and 1.
        net.train()(torch.randn(8, 3, args.side, args.side))
        net.eval()
    settings = dict(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), crop=args.side)
    model = flipcast.Model.from_torch(net, torch.zeros(2, 3, args.side, args.side), **settings)
    check("a network of PyTorch is imported", True, repr(model))
    if args.device == "cuda":
        small = resnet([1, 1, 1, 1], 10).cuda()
        there = flipcast.Model.from_torch(small, torch.zeros(2, 3, 64, 64, device="cuda"), mean=0.5, std=0.25, crop=64)
        given = torch.randn(4, 3, 64, 64)
        with torch.no_grad():
            expected = small.eval()(given.cuda()).cpu().numpy()
        found = flipcast.Adapter(there, "source", batch_size=4)(given)
        check("so is one that lies on the GPU", np.allclose(found, expected, rtol=2e-2, atol=2e-2))

    shape = (args.batch, 3, args.side, args.side)
    batches = [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    place = lambda tensor: tensor.to(args.device)
    wide = torch.zeros(args.batch, 3, args.side + 5, args.side + 9)

    def strided(tensor):
        inner = place(wide.clone())[:, :, 2 : 2 + args.side, 4 : 4 + args.side]
        inner.copy_(tensor)
        return inner

    layouts = {
        "channels first": place,
        "channels last": lambda tensor: place(tensor).contiguous(memory_format=torch.channels_last),
        "a window of a larger tensor": strided,
    }
    for precision in args.precisions.split(","):
        make = lambda: flipcast.Adapter(model, "tent", batch_size=args.batch, device=args.device, precision=precision)
        host = make()
        expected = [host(batch.numpy()) for batch in batches]
        state = host.state
        for name, lay in layouts.items():
            adapter = make()
            found = [adapter(lay(batch)) for batch in batches]
            same = all(np.array_equal(one, other) for one, other in zip(found, expected))
            check(f"{precision}, {name}: logits of three steps and the state are those from NumPy, bit for bit", same and np.array_equal(adapter.state, state))
        adapter = make()
        bad = place(batches[0].clone())
        before = adapter.state
        bad[args.batch // 2, 1, 3, 5] = float("nan")
        try:
            adapter(bad)
            check(f"{precision}, a NaN is refused", False)
        except flipcast.FlipcastError as error:
            check(f"{precision}, a NaN is refused, and nothing has changed", np.array_equal(adapter.state, before), str(error).splitlines()[0])
        pictures = torch.randint(0, 256, (args.batch, args.side, args.side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
        of_host = make()(pictures.numpy())
        check(f"{precision}, bytes, channels last", np.array_equal(make()(place(pictures)), of_host))
        check(f"{precision}, bytes, channels first", np.array_equal(make()(place(pictures.permute(0, 3, 1, 2).contiguous())), of_host))
        check(f"{precision}, half floats are copied and widened", np.array_equal(make()(place(batches[0].half())), make()(batches[0].half().float().numpy())))
    logits = torch.randn(200, 10)
    labels = torch.randint(0, 10, (200,))
    calibration = flipcast.Calibration.fit(place(logits), place(labels))
    check("logits and labels are taken from there", flipcast.estimate(place(logits), calibration).to_dict() == flipcast.estimate(logits.numpy(), calibration).to_dict())
    check("images too", np.array_equal(model.predict(place(pictures[:4])), model.predict(pictures[:4].numpy())))

    if args.device == "cuda":
        precision = args.precisions.split(",")[0]
        adapter = flipcast.Adapter(model, "tent", batch_size=args.batch, device="cuda", precision=precision)
        fed, given = [place(batch) for batch in batches], [batch.numpy() for batch in batches]
        size = fed[0].nbytes
        for _ in range(3):
            adapter(fed[0])
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        for tensor in fed:
            adapter(tensor)
        taken_there = free - torch.cuda.mem_get_info()[0]
        seen_there, seen_host = {}, {}
        with copies(seen_there):
            adapter(fed[0])
        free = torch.cuda.mem_get_info()[0]
        adapter(given[0])
        taken_host = free - torch.cuda.mem_get_info()[0]
        with copies(seen_host):
            adapter(given[0])
        numbers.update(batch_bytes=size, memory_taken_for_tensors=taken_there, memory_taken_for_arrays=taken_host, copied_for_a_tensor=seen_there, copied_for_an_array=seen_host)
        check("the profiler sees the kernels of both", seen_there["kernels"] > 0 and seen_host["kernels"] > 0, json.dumps([seen_there, seen_host]))
        check("a tensor is not copied: to the GPU and on it go less than a hundredth of its bytes", seen_there["HtoD"] + seen_there["DtoD"] < size / 100)
        check("an array is sent: to the GPU go at least its bytes", seen_host["HtoD"] >= size)
        check("no memory is taken for tensors, some for arrays", taken_there == 0 and taken_host >= size, f"{taken_there} and {taken_host} bytes")
        # Work of another stream is waited for.
        fresh = flipcast.Adapter(model, "tent", batch_size=args.batch, device="cuda", precision=precision)
        other = flipcast.Adapter(model, "tent", batch_size=args.batch, device="cuda", precision=precision)
        expected = other(given[1])
        stream, target, large = torch.cuda.Stream(), torch.zeros_like(fed[1]), torch.randn(8192, 8192, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(30):
                large = large @ large * 1e-4
            target.copy_(fed[1])
            found = fresh(target)
        check("work of another stream is waited for", np.array_equal(found, expected))
        times = {"tensor": [], "array": []}
        for turn in range(30):
            for name, one in (("tensor", fed[turn % 3]), ("array", given[turn % 3])):
                started = time.perf_counter()
                adapter(one)
                times[name].append(1e3 * (time.perf_counter() - started))
        numbers["ms_per_call"] = {name: statistics.median(times[name]) for name in times}
        check("calls in turns", True, json.dumps(numbers["ms_per_call"]))
    numbers["failed"] = failed
    print(json.dumps(numbers))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
