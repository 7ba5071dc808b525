"""One step of Tent: flipcast from Python beside PyTorch, and an imported network beside the built-in one, in turns.

    python bench/python/steps.py [--steps-only] [ROUNDS] [NETWORK ...]

Processor seconds of the whole process (two threads each), so that other work on the machine shows less; the median of the rounds. Prints one JSON object per network.
`--steps-only` leaves the built-in network out. Needs torch, torchvision and the flipcast wheel.
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

THREADS = 2
BATCH = 16


def tent(model):
    """Tent as its authors wrote it: batch statistics, SGD on scales and shifts of the entropy's gradient."""
    model.train()
    model.requires_grad_(False)
    parameters = []
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.requires_grad_(True)
            module.track_running_stats, module.running_mean, module.running_var = False, None, None
            parameters += [module.weight, module.bias]
        if isinstance(module, torch.nn.Dropout):
            module.eval()
    optimizer = torch.optim.SGD(parameters, lr=0.00025, momentum=0.9)

    def step(batch):
        logits = model(batch)
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
        entropy.backward()
        optimizer.step()
        optimizer.zero_grad()
        return logits.detach()

    return step


def timed(step, *arguments):
    wall, processor = time.perf_counter(), time.process_time()
    step(*arguments)
    return time.process_time() - processor, time.perf_counter() - wall


def bench(model, size):
    """A step by `flipcast bench`: its milliseconds and the processor seconds of the process."""
    command = [sys.executable, "-m", "flipcast", "bench", "--model", model, "--classes", "1000", "--batch", str(BATCH), "--size", str(size)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    told = subprocess.run([*command, "--threads", str(THREADS), "--warmup", "1", "--repeat", "3", "--json"], capture_output=True, text=True, check=True)
    return min(json.loads(told.stdout)["step_ms"]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    words = [word for word in sys.argv[1:] if word != "--steps-only"]
    steps_only = len(words) < len(sys.argv) - 1
    rounds, names = int(words[0]) if words else 5, words[1:] or ["resnet50", "mobilenet_v2"]
    torch.set_num_threads(THREADS)
    for name in names:
        torch.manual_seed(0)
        network = torchvision.models.get_model(name, weights=None)
        images = torch.randn(BATCH, 3, 224, 224, generator=torch.Generator().manual_seed(1))
        batch = images.numpy()
        told = {"network": name, "batch": BATCH, "threads": THREADS, "rounds": rounds}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"{name}.pt2")
            program = torch.export.export(network.eval(), (images[:2],), dynamic_shapes=({0: torch.export.Dim("n")},))
            torch.export.save(program, path)
            model = flipcast.Model.from_torch(network, images[:2], mean=0.5, std=0.5, crop=224)
            adapter = flipcast.Adapter(model, "tent", batch_size=BATCH, threads=THREADS)
            step = tent(network)
            first, second = adapter(batch), step(images).numpy()
            told["logits_differ"] = float(np.linalg.norm(first - second) / np.linalg.norm(second))
            found = {"flipcast": [], "pytorch": []}
            for _ in range(rounds):
                found["flipcast"].append(timed(adapter, batch))
                found["pytorch"].append(timed(step, images))
            for key, times in found.items():
                told[key] = {"processor_s": statistics.median(t[0] for t in times), "wall_s": statistics.median(t[1] for t in times)}
            told["speedup"] = statistics.median(other[1] / own[1] for own, other in zip(found["flipcast"], found["pytorch"]))
            if steps_only:
                print(json.dumps(told), flush=True)
                continue
            benches = {"imported": [], "built_in": []}
            for _ in range(3):
                benches["imported"].append(bench(path, 224))
                benches["built_in"].append(bench(name, 224))
            for key, times in benches.items():
                told[key] = {"step_ms": [t[0] for t in times], "processor_s": statistics.median(t[1] for t in times)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
