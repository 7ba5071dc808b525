"""Times an RDumb step of one network in PyTorch on a GPU: forward, selected entropy, backward to the norms' scales and shifts,
SGD; weights frozen, batch statistics, channels-last, the batch on the device.

`torch_worker.py MODEL CLASSES BATCH SIZE PRECISION MODE` gets the network ready, then reads counts from its standard input, one per
line, and answers each with one line of JSON: the milliseconds of so many steps, each waited for. MODE is `eager`,
`compile` or `reduce-overhead` (compiled, and replayed as a CUDA graph).
"""

import json
import math
import sys
import time
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from torch_networks import adapted, build  # noqa: E402: the folder above is not on the path before


def main():
    name, classes, batch, size, precision, mode = sys.argv[1:7]
    classes, batch, size = int(classes), int(batch), int(size)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    net = build(name, classes).cuda().to(memory_format=torch.channels_last).train()
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    parameters = adapted(net)
    optimiser = torch.optim.SGD(parameters, lr=2.5e-4, momentum=0.9)
    x = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    compiled = {"eager": lambda: net, "compile": lambda: torch.compile(net)}
    run = compiled.get(mode, lambda: torch.compile(net, mode=mode))()
    # Every image counts, so that every step does all of its work.
    margin = math.log(classes) + 0.1

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            logits = run(x)
        logits = logits.float()
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
        kept = entropy < margin
        weight = torch.exp(margin - entropy.detach()[kept])
        loss = (entropy[kept] * weight).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return logits

    print("ready", file=sys.stderr, flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps({"ms": times}), flush=True)


if __name__ == "__main__":
    main()
