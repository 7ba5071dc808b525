"""Measures what a GPU can do at most: bytes copied and read per second, and operations per second of large matrix products.

    python3 bench/cuda/ceilings.py --out bench/runs/<date>-cuda-<gpu>/ceilings.json

Every figure is that of the fastest of several runs, on random numbers: products of zeros run faster.
"""

import argparse
import json
from pathlib import Path

import torch

RUNS = 10


def fastest(run):
    """Seconds of the fastest of `RUNS` runs, after two to warm up."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for turn in range(RUNS + 2):
        start.record()
        run()
        end.record()
        end.synchronize()
        if turn >= 2:
            best = min(best, start.elapsed_time(end) * 1e-3)
    return best


def copy_bytes_per_second(size=4 << 30):
    """Bytes read and written by a copy."""
    source = torch.empty(size // 4, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * size / fastest(lambda: target.copy_(source))


def read_bytes_per_second(size=4 << 30):
    """Bytes read by a sum."""
    source = torch.empty(size // 4, device="cuda").normal_()
    return size / fastest(lambda: source.sum())


def product_flops_per_second(dtype, size=8192):
    """Multiplications and additions of a square product."""
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    return 2 * size**3 / fastest(lambda: a @ b)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    args = parser.parse_args()
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "copy_bytes_per_s": copy_bytes_per_second(),
        "read_bytes_per_s": read_bytes_per_second(),
        "bf16_flops_per_s": product_flops_per_second(torch.bfloat16),
    }
    torch.backends.cuda.matmul.allow_tf32 = False
    found["f32_flops_per_s"] = product_flops_per_second(torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = True
    found["tf32_flops_per_s"] = product_flops_per_second(torch.float32)
    text = json.dumps(found, indent=2)
    print(text)
    args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
