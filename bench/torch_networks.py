"""Networks in PyTorch as flipcast names them, and what entropy minimisation adapts of them. Imported by the workers of engine/ and cuda/."""

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


def build(name, classes):
    """The network that flipcast calls `name`."""
    if name.startswith("cifar_resnet"):
        depth, _, width = name.removeprefix("cifar_resnet").partition("_w")
        return CifarResNet(int(depth), int(width or 16), classes)
    if name.startswith("wrn_"):
        depth, width = name.removeprefix("wrn_").split("_")
        return WideResNet(int(depth), int(width), classes)
    return getattr(torchvision.models, name)(num_classes=classes)


def adapted(net):
    """Freezes everything but the norms' scales and shifts, which it gives; batch norms use the batch's statistics."""
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
