"""Trains a ResNet on the photos of PACS, or on photos and art paintings, from Tiny-ImageNet's weights, and writes it as a safetensors file with a model card.

    python3 studies/natural/train.py --start resnet18.xz --images FOLDER --parts photo_train,art_train --out pacs/resnet18.pacs_photo_art.safetensors

`--images` is what `pack.py` packed, unpacked. Nothing is chosen by any accuracy: the last weights are written, tensors of two or more dimensions in half precision. Needs PyTorch, NumPy and a JPEG decoder
(Pillow or torchvision)."""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import tensors
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = ["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"]
SIZE = 128
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
STAGES = {"resnet18": (1, (2, 2, 2, 2)), "resnet50": (4, (3, 4, 6, 3))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True, help="weights that `pack.py` made small; the file's name begins with the architecture")
    parser.add_argument("--images", required=True)
    parser.add_argument("--parts", required=True, help="folders below --images, parted by commas")
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--limit", type=int, help="use so many images, to try it out")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    begun = time.time()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(arguments.seed)
    torch.backends.cudnn.deterministic = True
    architecture = pathlib.Path(arguments.start).name.split(".")[0]
    network = load_start(architecture, arguments.start).to(device, memory_format=torch.channels_last)
    images, labels = load_images(pathlib.Path(arguments.images), arguments.parts.split(","), arguments.limit)
    images, labels = torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device)
    read = time.time()
    train(network, images, labels, arguments.epochs)
    out = pathlib.Path(arguments.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    write(network, out, architecture)
    print(
        f"{out.stem}: {len(labels)} images, {arguments.epochs} epochs on {device}, seed {arguments.seed}; "
        f"{read - begun:.1f} s to read, {time.time() - read:.1f} s to train"
    )


class Block(nn.Module):
    """A residual block under torchvision's names: two convolutions, or three with a waist."""

    def __init__(self, inputs, width, stride, expansion):
        super().__init__()
        outputs = width * expansion
        shapes = [(inputs, width, 3, stride), (width, width, 3, 1)]
        if expansion > 1:
            shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        self.count = len(shapes)
        for index, (from_, to, kernel, step) in enumerate(shapes, 1):
            setattr(self, f"conv{index}", nn.Conv2d(from_, to, kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{index}", nn.BatchNorm2d(to))
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for index in range(1, self.count + 1):
            y = getattr(self, f"bn{index}")(getattr(self, f"conv{index}")(y))
            if index < self.count:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """torchvision's ResNet."""

    def __init__(self, expansion, depths):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inputs = 64
        for stage, depth in enumerate(depths):
            blocks = []
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Block(inputs, 64 << stage, stride, expansion))
                inputs = (64 << stage) * expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, len(CLASSES))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def load_start(architecture, path):
    """The network with all weights of the file, and a head of zeros."""
    network = ResNet(*STAGES[architecture])
    weights = {name: torch.from_numpy(values.copy()) for name, values in tensors.grow(pathlib.Path(path).read_bytes()).items()}
    missing, unexpected = network.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.startswith("fc.") and not name.endswith("num_batches_tracked")]
    assert not missing and not unexpected, f"missing {missing}, unexpected {unexpected}"
    nn.init.zeros_(network.fc.weight)
    nn.init.zeros_(network.fc.bias)
    return network


def decoder():
    """A function from a file to its pixels, [height, width, 3] bytes."""
    try:
        from PIL import Image

        return lambda path: np.asarray(Image.open(path).convert("RGB"))
    except ImportError:
        from torchvision.io import ImageReadMode, read_image

        return lambda path: read_image(str(path), ImageReadMode.RGB).permute(1, 2, 0).numpy()


def load_images(folder, parts, limit):
    """All images of the parts and their classes; every k-th where there is a limit."""
    paths = sorted(path for part in parts for path in (folder / part).glob("*/*.jpg"))
    assert paths, f"no images in {parts} below {folder}"
    if limit and limit < len(paths):
        paths = [paths[index * len(paths) // limit] for index in range(limit)]
    decode = decoder()
    images = np.stack([decode(path) for path in paths])
    assert images.shape[1:] == (SIZE, SIZE, 3), images.shape
    return images, np.array([CLASSES.index(path.parent.name) for path in paths])


def train(network, images, labels, epochs):
    """SGD with momentum, a cosine after a warm-up, label smoothing."""
    device = images.device
    batch = 64
    decayed = [p for p in network.parameters() if p.ndim > 1]
    plain = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 5e-4}, {"params": plain, "weight_decay": 0.0}], lr=0.02, momentum=0.9, nesterov=True
    )
    steps = epochs * (len(labels) // batch)
    assert steps, f"{len(labels)} images are too few for a batch of {batch}"
    warm_up = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, 0.5 + 0.5 * math.cos(math.pi * min(step / steps, 1.0)))
    )
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(labels), device=device)
        for begin in range(0, len(labels) - batch + 1, batch):
            chosen = order[begin : begin + batch]
            inputs = augment(images[chosen])
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = F.cross_entropy(network(inputs).float(), labels[chosen], label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()


def augment(images):
    """Random crops of 35 to 100% of the area with sides between 3:4 and 4:3, mirrored half the time, with other brightness, contrast and saturation."""
    count, device = len(images), images.device
    draw = lambda low, high, *shape: torch.empty(count, *shape, device=device).uniform_(low, high)
    x = images.permute(0, 3, 1, 2).float() / 255
    area, ratio = draw(0.35, 1.0), torch.exp(draw(math.log(3 / 4), math.log(4 / 3)))
    width, height = (area * ratio).sqrt().clamp(max=1.0), (area / ratio).sqrt().clamp(max=1.0)
    mirror = torch.where(draw(0, 1) < 0.5, -1.0, 1.0)
    theta = torch.zeros(count, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 1, 1] = width * mirror, height
    theta[:, 0, 2], theta[:, 1, 2] = draw(-1, 1) * (1 - width), draw(-1, 1) * (1 - height)
    x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False, padding_mode="border")
    x = x * draw(0.8, 1.2, 1, 1, 1)
    x = (x - x.mean((1, 2, 3), keepdim=True)) * draw(0.8, 1.2, 1, 1, 1) + x.mean((1, 2, 3), keepdim=True)
    grey = x.mean(1, keepdim=True)
    x = ((x - grey) * draw(0.8, 1.2, 1, 1, 1) + grey).clamp(0, 1)
    mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
    std = torch.tensor(STD, device=device).view(1, 3, 1, 1)
    return ((x - mean) / std).contiguous(memory_format=torch.channels_last)


def write(network, out, architecture):
    """The weights, and the card that flipcast finds beside them."""
    values = {}
    for name, tensor in network.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        array = tensor.detach().float().cpu().contiguous().numpy()
        values[name] = array.astype(np.float16) if array.ndim > 1 else array
    out.write_bytes(tensors.write_tensors(values))
    card = {
        "flipcast_model": 1,
        "name": out.stem,
        "architecture": architecture,
        "classes": CLASSES,
        "mean": MEAN,
        "std": STD,
        "resize": {"exact": {"width": SIZE, "height": SIZE}},
        "interpolation": "bilinear",
    }
    out.with_suffix(".json").write_text(json.dumps(card, indent=1))


if __name__ == "__main__":
    main()
