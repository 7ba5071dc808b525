#!/usr/bin/env python3
"""Loading speed next to torchvision on the same cores in one run.

Makes 500 x 375 JPEGs, then alternates the `load_bench` example with a torchvision DataLoader (ImageFolder, Resize 256,
CenterCrop 224, ToTensor, Normalize, batches of 64) with as many worker processes as the example has threads, and prints
the median rates and their ratio.

Usage: python bench_loader.py --example PATH/TO/load_bench [--threads 2] [--images 512] [--rounds 5]
Build the example with: cargo build --release -p flipcast-images --example load_bench
Needs: torch, torchvision, Pillow, numpy in the interpreter that runs this.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import datasets, transforms


def make_images(root, count):
    """Photograph-like: smooth blobs, edges and a little noise, so that file sizes are ordinary (about 60 KB)."""
    rng = np.random.default_rng(0)
    for i in range(count):
        coarse = rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)
        pic = np.asarray(Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)).astype(np.int16)
        for _ in range(12):
            x, y = rng.integers(0, 450), rng.integers(0, 325)
            pic[y:y + rng.integers(10, 120), x:x + rng.integers(10, 150)] += rng.integers(-80, 80, 3).astype(np.int16)
        pic = pic + rng.normal(0, 9, pic.shape)
        folder = os.path.join(root, "class_%d" % (i % 4))
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(pic.clip(0, 255).astype(np.uint8)).save(os.path.join(folder, "%05d.jpg" % i), quality=90)


class Reference:
    """A DataLoader whose workers stay alive, so that starting them is not part of the time."""

    def __init__(self, root, workers):
        steps = transforms.Compose([
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ])
        self.loader = torch.utils.data.DataLoader(
            datasets.ImageFolder(root, steps), batch_size=64, num_workers=workers, persistent_workers=True)
        self.run()

    def run(self):
        start, images = time.perf_counter(), 0
        for batch, _ in self.loader:
            images += batch.shape[0]
        return images / (time.perf_counter() - start)


def example(path, root, threads):
    """The second of two passes, so that both sides have the files cached and the workers running."""
    out = subprocess.run([path, root, str(threads), "2"], check=True, capture_output=True, text=True).stdout
    return float(out.splitlines()[-1].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        make_images(root, options.images)
        size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(root) for f in fs)
        print("%d JPEGs of 500 x 375, %.1f KB each; Pillow %s, torch %s, torchvision %s" % (
            options.images, size / options.images / 1e3, PIL.__version__, torch.__version__, torchvision.__version__))
        reference = Reference(root, options.threads)
        ours, theirs = [], []
        for i in range(options.rounds):
            ours.append(example(options.example, root, options.threads))
            theirs.append(reference.run())
            print("round %d: flipcast %.1f images/s, torchvision %.1f images/s" % (i + 1, ours[-1], theirs[-1]))
    ratios = [a / b for a, b in zip(ours, theirs)]
    print("median over %d rounds with %d threads: flipcast %.1f, torchvision %.1f images/s, ratio %.2f (%.2f to %.2f)" % (
        options.rounds, options.threads, statistics.median(ours), statistics.median(theirs),
        statistics.median(ratios), min(ratios), max(ratios)))


main()
