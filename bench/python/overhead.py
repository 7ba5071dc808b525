"""What `adapter(batch)` from NumPy costs over the same step in Rust: ResNet-50, 16 x 3 x 224 x 224, Tent.

    python bench/python/overhead.py [PAIRS]

Two measures, in processor seconds, so that other work on the machine shows less; medians of pairs taken in turns.
- `door_share`: what Python adds (reading NumPy's floats, bringing them into the engine's order, writing the logits back) over the rest of the call. Reading and reordering is timed by calls that are refused
  right after it; writing by an array of the logits' size.
- `over_bench`: a whole call over a step of `flipcast bench`, which is the Rust library alone: two of its processes that differ by four steps.

Needs torch, torchvision (the network, random weights) and the flipcast wheel. One thread each.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import flipcast
import numpy as np
import torch
import torchvision

BATCH, STEPS = 16, 4


def processor(work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def bench(model: str, repeat: int) -> float:
    """Processor seconds of a `flipcast bench` with so many steps."""
    command = [sys.executable, "-m", "flipcast", "bench", "--model", model, "--classes", "1000", "--batch", str(BATCH), "--size", "224"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--threads", "1", "--warmup", "1", "--repeat", str(repeat), "--json"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.manual_seed(0)
    network = torchvision.models.resnet50(weights=None).eval()
    batch = np.random.default_rng(0).normal(size=(BATCH, 3, 224, 224)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "resnet50.pt2")
        program = torch.export.export(network, (torch.zeros(2, 3, 224, 224),), dynamic_shapes=({0: torch.export.Dim("n")},))
        torch.export.save(program, path)
        model = flipcast.Model.load(path, mean=0.5, std=0.5, crop=224)
        adapter = flipcast.Adapter(model, "tent", batch_size=BATCH, threads=1)
        refusing = flipcast.Adapter(model, "tent", batch_size=BATCH // 2, threads=1)

        def refused():
            try:
                refusing(batch)
            except flipcast.FlipcastError as error:
                assert "batch_size" in str(error), error

        adapter(batch)
        refused()
        for pair in range(pairs):
            logits = np.zeros((BATCH, 1000), np.float32)
            door = statistics.median(processor(refused) for _ in range(9)) + processor(logits.copy)
            call = processor(lambda: [adapter(batch) for _ in range(STEPS)]) / STEPS
            step = (bench(path, 1 + STEPS) - bench(path, 1)) / STEPS
            told = dict(pair=pair, door_s=door, call_s=call, bench_step_s=step, door_share=door / (call - door), over_bench=call / step - 1)
            print(json.dumps({**told, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
