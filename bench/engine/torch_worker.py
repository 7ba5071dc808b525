"""Times one network in PyTorch: a forward pass and an entropy-minimisation step, weights frozen, batch statistics.

Prints one JSON object. Run by bench.py, once per row, layout and round.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from torch_networks import adapted, build  # noqa: E402: the folder above is not on the path before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="as flipcast names it: resnet50, cifar_resnet26_w64, wrn_40_2")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--layout", choices=["nchw", "channels_last"], required=True)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = build(args.model, args.classes)
    parameters = adapted(model)
    # Without running statistics a batch norm uses those of the batch in evaluation too; dropout and stochastic depth are off.
    model.eval()
    images = torch.randn(args.batch, 3, args.size, args.size)
    if args.layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(parameters, lr=2.5e-4, momentum=0.9)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def step():
        log_probs = model(images).log_softmax(1)
        loss = -(log_probs.exp() * log_probs).sum(1).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    forward_ms, step_ms = [], []
    for i in range(args.warmup + args.repeat):
        start = time.perf_counter()
        with torch.no_grad():
            model(images)
        middle = time.perf_counter()
        step()
        end = time.perf_counter()
        if i >= args.warmup:
            forward_ms.append((middle - start) * 1e3)
            step_ms.append((end - middle) * 1e3)
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "forward_ms": forward_ms,
                "step_ms": step_ms,
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "rss_before_bytes": before,
            }
        )
    )


if __name__ == "__main__":
    main()
