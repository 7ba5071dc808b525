"""The torchvision side of bench_loader.py: `torchvision_worker.py FOLDER IMAGES WORKERS`.

Fills FOLDER with JPEGs, prints its versions, and then one rate in images per second for every line it reads.
"""
import os
import sys
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


def make_loader(root, workers):
    """A DataLoader whose workers stay alive, so that starting them is not part of the time."""
    steps = transforms.Compose([
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    return torch.utils.data.DataLoader(
        datasets.ImageFolder(root, steps), batch_size=64, num_workers=workers, persistent_workers=True)


def rate(loader):
    start, images = time.perf_counter(), 0
    for batch, _ in loader:
        images += batch.shape[0]
    return images / (time.perf_counter() - start)


def main():
    root, images, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    make_images(root, images)
    loader = make_loader(root, workers)
    rate(loader)
    print("Python %s, torch %s, torchvision %s, Pillow %s" % (
        sys.version.split()[0], torch.__version__, torchvision.__version__, PIL.__version__), flush=True)
    for _ in sys.stdin:
        print(rate(loader), flush=True)


if __name__ == "__main__":
    main()
