"""Times an RDumb step of one network in PyTorch on a GPU: forward, selected entropy, backward to the norms' scales and shifts,
SGD; weights frozen, batch statistics, channels-last, the batch on the device.

`torch_worker.py MODEL CLASSES BATCH SIZE PRECISION MODE` gets the network ready, then reads counts from its standard input, one per
line, and answers each with one line of JSON: the milliseconds of so many steps, each waited for. MODE is `eager`,
`compile` or `reduce-overhead` (compiled, and replayed as a CUDA graph).
"""

import json
import math
import sys
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
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        layers, inputs = [], width
        for stage in range(3):
            for block in range((depth - 2) // 6):
                outputs = width << stage
                layers.append(BasicBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.layers(F.relu(self.bn1(self.conv1(x)), inplace=True))
        return self.fc(x.mean((2, 3)))


def build(name, classes):
    """The network that flipcast calls `name`."""
    if name.startswith("cifar_resnet"):
        depth, _, width = name.removeprefix("cifar_resnet").partition("_w")
        return CifarResNet(int(depth), int(width or 16), classes)
    return getattr(torchvision.models, name)(num_classes=classes)


def adapted(net):
    """Freezes everything but the norms' scales and shifts; batch norms use the batch's statistics."""
    net.requires_grad_(False)
    parameters = []
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            module.requires_grad_(True)
            parameters += [module.weight, module.bias]
        if isinstance(module, nn.BatchNorm2d):
            module.track_running_stats = False
            module.running_mean = module.running_var = None
    return parameters


def main():
    name, classes, batch, size, precision, mode = sys.argv[1:7]
    classes, batch, size = int(classes), int(batch), int(size)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    net = build(name, classes).cuda().to(memory_format=torch.channels_last).train()
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    parameters = adapted(net)
    optimiser = torch.optim.SGD(parameters, lr=2.5e-4, momentum=0.9)
    x = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    compiled = {"eager": lambda: net, "compile": lambda: torch.compile(net)}
    run = compiled.get(mode, lambda: torch.compile(net, mode=mode))()
    # Every image counts, so that every step does all of its work.
    margin = math.log(classes) + 0.1

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            logits = run(x)
        logits = logits.float()
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
        kept = entropy < margin
        weight = torch.exp(margin - entropy.detach()[kept])
        loss = (entropy[kept] * weight).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return logits

    print("ready", file=sys.stderr, flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps({"ms": times}), flush=True)


if __name__ == "__main__":
    main()
