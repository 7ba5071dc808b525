"""Times one network in PyTorch: a forward pass and an entropy-minimisation step, weights frozen, batch statistics.

Prints one JSON object. Run by bench.py, once per row, layout and round.
"""

import argparse
import json
import resource
import time

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; a strided 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += shortcut
        return F.relu(y, inplace=True)


class CifarResNet(nn.Module):
    """A CIFAR ResNet of 6n + 2 layers."""

    def __init__(self, depth, width, classes):
        super().__init__()
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        layers, inputs = [], width
        for stage in range(3):
            for block in range(blocks):
                outputs = width << stage
                layers.append(BasicBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.layers(F.relu(self.bn1(self.conv1(x)), inplace=True))
        return self.fc(x.mean((2, 3)))


class WideBlock(nn.Module):
    """The pre-activation block of wide residual networks."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x):
        y = F.relu(self.bn1(x), inplace=True)
        shortcut = x if self.shortcut is None else self.shortcut(y)
        y = self.conv2(F.relu(self.bn2(self.conv1(y)), inplace=True))
        return y + shortcut


class WideResNet(nn.Module):
    """WRN-depth-width."""

    def __init__(self, depth, width, classes):
        super().__init__()
        blocks = (depth - 4) // 6
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        layers, inputs = [], 16
        for stage in range(3):
            for block in range(blocks):
                outputs = (16 << stage) * width
                layers.append(WideBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.bn1 = nn.BatchNorm2d(inputs)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.layers(self.conv1(x))), inplace=True)
        return self.fc(x.mean((2, 3)))


NETWORKS = {
    "cifar_resnet26": lambda classes: CifarResNet(26, 16, classes),
    "cifar_resnet26_w64": lambda classes: CifarResNet(26, 64, classes),
    "wrn_40_2": lambda classes: WideResNet(40, 2, classes),
    "resnet18": lambda classes: torchvision.models.resnet18(num_classes=classes),
    "resnet50": lambda classes: torchvision.models.resnet50(num_classes=classes),
    "mobilenet_v2": lambda classes: torchvision.models.mobilenet_v2(num_classes=classes, dropout=0.0),
    "vit_b_16": lambda classes: torchvision.models.vit_b_16(num_classes=classes),
    "maxvit_t": lambda classes: torchvision.models.maxvit_t(num_classes=classes),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(NETWORKS), required=True)
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
    model = NETWORKS[args.model](args.classes)
    model.requires_grad_(False)
    norms = [module for module in model.modules() if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm))]
    for norm in norms:
        if isinstance(norm, nn.BatchNorm2d):
            norm.track_running_stats = False
            norm.running_mean = norm.running_var = None
        norm.requires_grad_(True)
    # Without running statistics a batch norm uses those of the batch in evaluation too; dropout and stochastic depth are off.
    model.eval()
    images = torch.randn(args.batch, 3, args.size, args.size)
    if args.layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    parameters = [parameter for norm in norms for parameter in (norm.weight, norm.bias)]
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
