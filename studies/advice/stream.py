"""A stream that changes, from the 10,000 test images of Fashion-MNIST, and what was right in each stretch.

    python3 studies/advice/stream.py make FASHION_MNIST stream        # stream/stream.npy, stream/labels.npy
    flipcast adapt --method auto --calibration C --model M --data stream --order stored --out auto.csv
    python3 studies/advice/stream.py judge stream auto.csv ...

Needs NumPy. The first 5,000 images are left to the calibration.
"""

import csv
import gzip
import pathlib
import sys

import numpy as np


def make(folder, out):
    images = np.frombuffer(gzip.open(f"{folder}/t10k-images-idx3-ubyte.gz").read(), np.uint8, offset=16)
    labels = np.frombuffer(gzip.open(f"{folder}/t10k-labels-idx1-ubyte.gz").read(), np.uint8, offset=8)
    images = images.reshape(-1, 28, 28)
    random = np.random.default_rng(0)
    test = 5000 + random.permutation(5000)
    noisy = lambda x: np.clip(x + random.normal(0, 60, x.shape), 0, 255).astype(np.uint8)
    flat = lambda x: (0.35 * x + 20).astype(np.uint8)
    same = lambda x: x
    few = np.array([i for i in test[3840:] if labels[i] in (0, 1, 2)])
    parts = [(test[:1024], same), (test[1024:2048], noisy), (test[2048:3072], same), (test[3072:3840], flat), (few, same)]
    pathlib.Path(out).mkdir(exist_ok=True)
    pixels = np.concatenate([change(images[indices]) for indices, change in parts])
    np.save(f"{out}/stream.npy", np.repeat(pixels[..., None], 3, 3))
    np.save(f"{out}/labels.npy", np.concatenate([labels[indices] for indices, _ in parts]).astype(np.int64))


def judge(folder, files):
    labels = np.load(f"{folder}/labels.npy")
    stretches = [("clean", 1024), ("noise", 1024), ("clean", 1024), ("low contrast", 768), ("three classes", len(labels) - 3840)]
    for file in files:
        right = np.array([int(row["class"]) for row in csv.DictReader(open(file))]) == labels
        told, start = [f"{100 * right.mean():.1f}"], 0
        for name, count in stretches:
            told.append(f"{name} {100 * right[start : start + count].mean():.1f}")
            start += count
        print(file, " | ".join(told))


if sys.argv[1] == "make":
    make(*sys.argv[2:])
else:
    judge(sys.argv[2], sys.argv[3:])
