"""What `adapter(batch)` from NumPy costs over the same step in Rust: ResNet-50, 16 x 3 x 224 x 224, Tent, two threads.

    python bench/python/overhead.py [ROUNDS] [STEPS]

In turns, round by round: STEPS calls of an adapter, and STEPS steps of `flipcast bench`, the Rust library alone on the same exported network.
- `door`: a call over the engine's own step within it (`adapter.step_seconds`), call by call: what reading NumPy's floats, reordering them, the guard and writing the logits add.
- `over_bench`: the median call over the median step of `flipcast bench` beside it.

Needs torch, torchvision (the network, random weights) and the flipcast wheel.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import flipcast
import numpy as np
import torch
import torchvision

BATCH, THREADS = 16, 2


def bench(path, steps):
    """Milliseconds of so many steps of `flipcast bench`."""
    command = [sys.executable, "-m", "flipcast", "bench", "--model", path, "--classes", "1000", "--batch", str(BATCH), "--size", "224"]
    command += ["--threads", str(THREADS), "--warmup", "1", "--repeat", str(steps), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["step_ms"]


def main():
    rounds, steps = (int(word) for word in [*sys.argv[1:], "4", "5"][:2])
    torch.manual_seed(0)
    network = torchvision.models.resnet50(weights=None).eval()
    batch = np.random.default_rng(0).normal(size=(BATCH, 3, 224, 224)).astype(np.float32)
    calls, doors, benches = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "resnet50.pt2")
        program = torch.export.export(network, (torch.zeros(2, 3, 224, 224),), dynamic_shapes=({0: torch.export.Dim("n")},))
        torch.export.save(program, path)
        adapter = flipcast.Adapter(flipcast.Model.load(path, mean=0.5, std=0.5, crop=224), "tent", batch_size=BATCH, threads=THREADS)
        adapter(batch)
        for number in range(rounds):
            for _ in range(steps):
                started = time.perf_counter()
                adapter(batch)
                took = time.perf_counter() - started
                calls.append(1e3 * took)
                doors.append(took / adapter.step_seconds - 1)
            benches += bench(path, steps)
            print(json.dumps(dict(round=number, call_ms=calls[-steps:], door=doors[-steps:], bench_ms=benches[-steps:], load=os.getloadavg()[0])), flush=True)
    told = dict(calls=len(calls), call_ms=statistics.median(calls), bench_ms=statistics.median(benches), door=statistics.median(doors), door_worst=max(doors))
    print(json.dumps({**told, "over_bench": told["call_ms"] / told["bench_ms"] - 1}))


if __name__ == "__main__":
    main()
