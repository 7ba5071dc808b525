"""Exports a trained ResNet to ONNX the way most people do: with batch norms folded into the convolutions.

    python tools/export_onnx.py WEIGHTS.safetensors OUT.onnx

The model card beside the weights tells the layers, and is copied beside the result. Knows torchvision's ResNets and those for CIFAR
with the same names. Needs torch, torchvision, safetensors, onnx and onnxscript.
"""

import json
import sys
import warnings
from pathlib import Path

import torch
import torchvision
from safetensors.torch import load_file
from torch import nn
from torchvision.models.resnet import BasicBlock


class CifarResNet(nn.Module):
    """A ResNet for small images, under torchvision's names."""

    def __init__(self, layers, widths, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        for stage, (count, width) in enumerate(zip(layers, widths), 1):
            blocks = []
            for block in range(count):
                stride = 2 if stage > 1 and block == 0 else 1
                shortcut = None
                if stride != 1 or inputs != width:
                    shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))
                blocks.append(BasicBlock(inputs, width, stride, shortcut))
                inputs = width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.stages = len(layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for stage in range(1, self.stages + 1):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def main():
    weights, out = Path(sys.argv[1]), Path(sys.argv[2])
    card = json.loads(weights.with_suffix(".json").read_text())
    classes = card["num_classes"]
    if card["architecture"] == "cifar_resnet":
        model = CifarResNet(card["config"]["layers"], card["config"]["widths"], classes)
    else:
        model = torchvision.models.get_model(card["architecture"], weights=None, num_classes=classes)
    model.load_state_dict({name: tensor.float() for name, tensor in load_file(weights).items() if tensor.is_floating_point()}, strict=False)
    model.eval()
    warnings.filterwarnings("ignore")
    images = torch.zeros(2, *card["input_size"])
    torch.onnx.export(model, (images,), str(out), dynamo=True, dynamic_shapes=({0: torch.export.Dim("n")},), external_data=False, verbose=False)
    # The hash is that of the weights.
    card.pop("file", None)
    out.with_suffix(".json").write_text(json.dumps(card))


if __name__ == "__main__":
    main()
