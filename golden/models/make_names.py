"""Writes names.json, every tensor a published network's state dict holds, with its extents, in order; and manifest.json.

Needs torch, torchvision, timm and efficientnet_pytorch; no weights are fetched. Run it from this folder:

    python make_names.py
"""

import hashlib
import json
import pathlib

import timm
import torch
import torchvision
from efficientnet_pytorch import EfficientNet
from torch import nn

TORCHVISION = [
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "wide_resnet50_2",
    "mobilenet_v2",
]
TIMM = [
    "resnet50",
    "resnet50_gn",
    "mobilenetv2_100",
    "efficientnet_lite0",
    "efficientnet_lite1",
    "efficientnet_lite2",
    "tf_efficientnet_lite0",
]


def conv(inputs, outputs, kernel):
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)


class Unit(nn.Module):
    """The parameters of a pre-activation unit, in the order in which checkpoints of wide ResNets list them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        if inputs != outputs:
            self.convShortcut = conv(inputs, outputs, 1)


class WideResNet(nn.Module):
    """Names only: the three blocks are never run."""

    def __init__(self, depth, widen, classes=10):
        super().__init__()
        units = (depth - 4) // 6
        self.conv1 = conv(3, 16, 3)
        width = 16
        for block in (1, 2, 3):
            outputs = 16 * widen * 2 ** (block - 1)
            widths = [width] + [outputs] * units
            holder = nn.Module()
            holder.layer = nn.Sequential(*(Unit(a, b) for a, b in zip(widths, widths[1:])))
            setattr(self, f"block{block}", holder)
            width = outputs
        self.bn1 = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, classes)


def describe(source, network):
    tensors = [
        f"{name} {'x'.join(map(str, tensor.shape))}"
        for name, tensor in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    ]
    return {
        "source": source,
        "parameters": sum(p.numel() for p in network.parameters()),
        "tensors": tensors,
    }


def main():
    entries = {}
    with torch.device("meta"):
        for name in TORCHVISION:
            source = f"torchvision {torchvision.__version__.split('+')[0]}"
            entries[f"torchvision/{name}"] = describe(source, torchvision.models.get_model(name, weights=None))
        for name in TIMM:
            entries[f"timm/{name}"] = describe(f"timm {timm.__version__}", timm.create_model(name, pretrained=False))
        # TensorFlow's network under names of its own.
        entries["lukemelas/tf_efficientnet_b0"] = describe("efficientnet_pytorch 0.7.1", EfficientNet.from_name("efficientnet-b0"))
        for depth, widen in [(40, 2), (28, 10)]:
            entries[f"wrn/wrn_{depth}_{widen}"] = describe("this script", WideResNet(depth, widen))
    folder = pathlib.Path(__file__).parent
    text = json.dumps(entries, indent=0) + "\n"
    (folder / "names.json").write_text(text)
    manifest = {
        "made_with": {"torch": torch.__version__, "torchvision": torchvision.__version__, "timm": timm.__version__},
        "files": {"names.json": {"networks": len(entries), "sha256": hashlib.sha256(text.encode()).hexdigest()}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
