#!/usr/bin/env python3
"""Trains the small ResNet of `flipcast demo` on Fashion-MNIST and writes its weights, card and test images.

    python3 tools/train_demo_model.py --data FOLDER --out crates/cli/assets/demo

FOLDER holds the four idx files of Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017; MIT licence), for example
/usr/share/datasets/fashion-mnist of Debian's package dataset-fashion-mnist. Needs PyTorch; a GPU takes a minute or two,
two CPU cores about an hour.

The test set is cut in two by index. Images 0 to 4,999 are for `flipcast calibrate`; of the rest, the first `--images`
are written beside the weights for the demo. No test image takes part in training, and none chooses anything.
"""

import argparse
import gzip
import hashlib
import json
import math
import pathlib
import struct
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]
MEAN, STD = 0.2860, 0.3530
WIDTHS, BLOCKS = (16, 32, 64), 3
CALIBRATION_IMAGES = 5000


def read_idx(path):
    """The array of an idx file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        data = file.read()
    dims = data[3]
    shape = struct.unpack(f">{dims}I", data[4:4 + 4 * dims])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dims).reshape(shape).copy()


def find(folder, stem):
    for name in (stem, stem + ".gz"):
        if (folder / name).exists():
            return read_idx(folder / name)
    raise SystemExit(f"{folder} has neither {stem} nor {stem}.gz")


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, with torchvision's parameter names."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or before != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """The CIFAR ResNet of depth 20."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        before = WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            blocks = []
            for block in range(BLOCKS):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(Block(before, width, stride))
                before = width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, len(CLASSES))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def batch_of(pixels, device):
    """Bytes [n, 28, 28] to normalised floats [n, 3, 28, 28]: grey in every channel, as an RGB reader gives it."""
    x = torch.as_tensor(pixels, device=device, dtype=torch.float32) / 255
    return ((x - MEAN) / STD)[:, None].expand(-1, 3, -1, -1)


def augmented(pixels):
    """Random shifts by up to two pixels and horizontal flips, one for each image."""
    n = len(pixels)
    padded = F.pad(pixels, (2, 2, 2, 2))
    dy, dx = torch.randint(0, 5, (2, n, 1, 1), device=pixels.device)
    rows = torch.arange(28, device=pixels.device)
    y, x = rows.view(1, -1, 1) + dy, rows.view(1, 1, -1) + dx
    out = padded[torch.arange(n, device=pixels.device).view(-1, 1, 1), y, x]
    flip = torch.rand(n, device=pixels.device) < 0.5
    out[flip] = out[flip].flip(-1)
    return out


@torch.no_grad()
def accuracy(model, pixels, labels, device):
    model.eval()
    right = 0
    for start in range(0, len(pixels), 500):
        logits = model(batch_of(pixels[start:start + 500], device))
        right += (logits.argmax(1).cpu().numpy() == labels[start:start + 500]).sum()
    return right / len(pixels)


def train(model, pixels, labels, args, device):
    pixels = torch.as_tensor(pixels.copy(), device=device)
    labels = torch.as_tensor(labels.astype(np.int64), device=device)
    optimiser = torch.optim.SGD(model.parameters(), args.lr, 0.9, weight_decay=5e-4, nesterov=True)
    steps = args.epochs * (len(pixels) // args.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda s: min(1, s / (0.1 * steps)) * 0.5 * (1 + math.cos(math.pi * s / steps)))
    for epoch in range(args.epochs):
        model.train()
        order = torch.randperm(len(pixels), device=device)
        for start in range(0, len(pixels) - args.batch + 1, args.batch):
            index = order[start:start + args.batch]
            logits = model(batch_of(augmented(pixels[index]), device))
            loss = F.cross_entropy(logits, labels[index], label_smoothing=0.1)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {epoch + 1} of {args.epochs}: loss {loss.item():.4f}", flush=True)


def write_safetensors(path, tensors):
    header, offset, chunks = {}, 0, []
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().float().numpy().tobytes()
        header[name] = {
            "dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        chunks.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def write_idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    # A fixed time stamp, so that the same images give the same file.
    path.write_bytes(gzip.compress(head + array.tobytes(), 9, mtime=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train_x, train_y = find(args.data, "train-images-idx3-ubyte"), find(args.data, "train-labels-idx1-ubyte")
    test_x, test_y = find(args.data, "t10k-images-idx3-ubyte"), find(args.data, "t10k-labels-idx1-ubyte")
    model = ResNet().to(device)
    began = time.time()
    train(model, train_x, train_y, args, device)
    seconds = time.time() - began
    top1 = accuracy(model, test_x, test_y, device)
    print(f"test accuracy {top1:.4f}, {seconds:.0f} s on {device}")

    args.out.mkdir(parents=True, exist_ok=True)
    weights = args.out / "resnet20.fashion_mnist.safetensors"
    state = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    write_safetensors(weights, state)
    card = {
        "flipcast_model": 1,
        "name": "resnet20.fashion_mnist",
        "architecture": "cifar_resnet20",
        "classes": CLASSES,
        "mean": [MEAN] * 3,
        "std": [STD] * 3,
        "resize": "none",
        "input_size": 28,
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
    }
    weights.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    shown = slice(CALIBRATION_IMAGES, CALIBRATION_IMAGES + args.images)
    write_idx(args.out / "t10k-images-idx3-ubyte.gz", test_x[shown])
    write_idx(args.out / "t10k-labels-idx1-ubyte.gz", test_y[shown])
    (args.out / "training.json").write_text(json.dumps({
        "data": "Fashion-MNIST training images, 60,000",
        "epochs": args.epochs, "batch": args.batch, "peak_lr": args.lr, "seed": args.seed,
        "optimiser": "SGD, Nesterov, momentum 0.9, weight decay 5e-4, 10% warm-up, cosine",
        "loss": "cross-entropy, label smoothing 0.1",
        "augmentation": "shift by up to 2 pixels, horizontal flip",
        "test_accuracy": round(float(top1), 4),
        "test_accuracy_calibration_half": round(float(accuracy(model, test_x[:5000], test_y[:5000], device)), 4),
        "torch": torch.__version__, "device": device, "seconds": round(seconds),
    }, indent=2) + "\n")


if __name__ == "__main__":
    main()
