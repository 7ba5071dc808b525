"""Makes golden/programs: small networks exported by PyTorch, and what they compute.

    python tools/make_program_goldens.py golden/programs

Needs torch, torchvision, timm and safetensors. See golden/programs/README.md.
"""

import hashlib
import json
import sys
from functools import partial
from pathlib import Path

import timm
import torch
import torchvision
from export_networks import enliven, export, measure
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torchvision.models import convnext, densenet, mobilenetv3, shufflenetv2, swin_transformer, vision_transformer


class Block(nn.Module):
    """A basic unit of a ResNet."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class CifarResNet(nn.Module):
    """`cifar_resnet8_w4`: the same layers and names as the built-in network."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Block(4, 4, 1))
        self.layer2 = nn.Sequential(Block(4, 8, 2))
        self.layer3 = nn.Sequential(Block(8, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Plain(nn.Module):
    """Padding of its own, a window without padding, a flattened map, biases, and a head that is no linear layer."""

    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, (3, 5), stride=2, bias=True)
        self.norm = nn.GroupNorm(3, 6)
        self.wide = nn.Conv2d(6, 6, 3, padding="same", dilation=2, groups=3)
        self.bn = nn.BatchNorm2d(6, eps=1e-3)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.inner = nn.Linear(6 * 5 * 4, 12)
        self.bn1 = nn.BatchNorm1d(12)
        self.out = nn.Conv2d(12, classes, 1)

    def forward(self, x):
        x = nn.functional.pad(x, (1, 2, 0, 1))
        x = nn.functional.relu6(self.norm(self.conv(x)))
        x = nn.functional.gelu(self.bn(self.wide(x)), approximate="tanh") * 0.5 + x
        x = self.pool(x).flatten(1)
        x = torch.tanh(self.bn1(self.inner(x)))
        return self.out(x[:, :, None, None]).mean((2, 3))


class Standardized(nn.Module):
    """A filter whose weights are standardised, as in BiT and NFNets, and what hangs on constants alone."""

    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.gain = nn.Parameter(torch.rand(8, 1, 1, 1) + 0.5)
        self.norm = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        weight = self.conv.weight
        flat = weight.reshape(1, weight.shape[0], -1)
        weight = nn.functional.batch_norm(flat, None, None, weight=(self.gain * 0.7).view(-1), training=True, momentum=0.0)
        x = nn.functional.conv2d(x, weight.reshape_as(self.conv.weight), self.conv.bias, padding=1)
        x = nn.functional.silu(self.norm(x)) ** 2 / 0.6
        return self.head(x.mean((2, 3)))


class Enlarged(nn.Module):
    """Two maps enlarged by the nearest pixel and added to one of their full size, as in HRNet."""

    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(6, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6))
        self.third = nn.Sequential(nn.Conv2d(6, 6, 3, 3, bias=False), nn.BatchNorm2d(6))
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        x = self.stem(x)
        x = x + nn.functional.interpolate(self.second(x), scale_factor=2) + nn.functional.interpolate(self.third(x), size=x.shape[2:])
        return self.head(nn.functional.relu(x).mean((2, 3)))


class OneGroup(nn.Module):
    """Norms of one group for all channels, without shifts, as in PoolFormer."""

    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.norm = timm.models.metaformer.GroupNorm1NoBias(8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.last = nn.GroupNorm(1, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = self.stem(x)
        x = x + nn.functional.gelu(self.conv(self.norm(x)))
        return self.head(self.last(x).mean((2, 3)))


def strengthened(model):
    """The network with larger weights of its linear layers: their first ones give values so small that rounding shows in gradients."""
    generator = torch.Generator().manual_seed(5)
    for name, module in model.named_modules():
        # What the biases of attention are computed by stays small: it is rounded when the file is read.
        if isinstance(module, nn.Linear) and "cpb_mlp" not in name:
            module.weight.data = 0.3 * torch.randn(module.weight.shape, generator=generator)
    return model


def networks():
    """Name, network, rows, columns, batch, and whether the batch size is left open."""
    layer_norm = partial(nn.LayerNorm, eps=1e-6)
    yield "resnet", CifarResNet(7), 17, 14, 5, True
    yield "plain", Plain(7), 20, 16, 4, False
    yield "convnext", convnext.ConvNeXt(
        [convnext.CNBlockConfig(8, 12, 1), convnext.CNBlockConfig(12, None, 1)], layer_scale=0.4, num_classes=7
    ), 33, 29, 3, True
    yield "vit", vision_transformer.VisionTransformer(
        image_size=24, patch_size=8, num_layers=2, num_heads=2, hidden_dim=12, mlp_dim=20, num_classes=7, norm_layer=layer_norm
    ), 24, 24, 3, True
    yield "vit_timm", VisionTransformer(
        img_size=(24, 16), patch_size=8, depth=2, num_heads=3, embed_dim=12, num_classes=7, init_values=0.5, class_token=True,
        reg_tokens=2, global_pool="avg",
    ), 24, 16, 1, False
    yield "densenet", densenet.DenseNet(4, (2, 2), 8, num_classes=7), 40, 33, 4, True
    yield "shufflenet", shufflenetv2.ShuffleNetV2([2, 2, 2], [8, 12, 16, 20, 24], num_classes=7), 64, 49, 4, True
    settings = partial(mobilenetv3.InvertedResidualConfig, width_mult=1.0)
    yield "mobilenet_v3", mobilenetv3.MobileNetV3(
        [settings(8, 3, 12, 8, True, "RE", 1, 1), settings(8, 5, 20, 12, True, "HS", 2, 1)], 24, num_classes=7
    ), 30, 27, 4, True
    yield "ceil", nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.MaxPool2d(3, 2, ceil_mode=True), nn.Conv2d(6, 7, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ), 18, 15, 4, True
    yield "standardized", Standardized(7), 14, 11, 4, True
    yield "efficientnet", timm.models.efficientnet.EfficientNet(
        timm.models._efficientnet_builder.decode_arch_def([["ds_r1_k3_s1_e1_c8_se0.25"], ["ir_r1_k3_s2_e3_c12_se0.25"]]),
        num_classes=7, stem_size=8, num_features=16, act_layer=nn.SiLU,
    ), 22, 19, 4, True
    yield "swin", swin_transformer.SwinTransformer(
        [2, 2], 8, [2, 2], [2, 4], [2, 2], mlp_ratio=2.0, num_classes=7, stochastic_depth_prob=0.0
    ), 16, 24, 3, True
    yield "beit", timm.models.beit.Beit(
        img_size=(16, 24), patch_size=8, embed_dim=12, depth=1, num_heads=3, num_classes=7, init_values=0.5, use_rel_pos_bias=True,
    ), 16, 24, 3, True
    yield "pools", nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 7),
    ), 13, 15, 4, True
    yield "mixer", timm.models.mlp_mixer.MlpMixer(
        num_classes=7, img_size=(24, 16), patch_size=8, num_blocks=2, embed_dim=10, mlp_ratio=(0.5, 2.0)
    ), 24, 16, 3, True
    yield "convnext_v2", timm.models.convnext.ConvNeXt(
        depths=(1, 1, 1, 1), dims=(8, 8, 12, 12), use_grn=True, ls_init_value=None, num_classes=7
    ), 32, 64, 2, True
    yield "swin_v2", strengthened(swin_transformer.SwinTransformer(
        [2, 2], 16, [2, 2], [2, 4], [4, 4], mlp_ratio=2.0, num_classes=7, stochastic_depth_prob=0.0,
        block=swin_transformer.SwinTransformerBlockV2, downsample_layer=swin_transformer.PatchMergingV2,
    )), 24, 20, 3, True
    yield "eva", strengthened(timm.models.eva.Eva(
        img_size=(32, 24), patch_size=8, embed_dim=12, depth=2, num_heads=3, mlp_ratio=2.0, swiglu_mlp=True, use_rot_pos_emb=True,
        num_classes=7,
    )), 32, 24, 3, True
    yield "enlarged", Enlarged(7), 12, 18, 4, True
    yield "one_group", OneGroup(7), 15, 19, 4, True


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    index, files = [], {}
    listed = folder / "index.json"
    known = {entry["name"]: entry for entry in json.loads(listed.read_text())} if listed.exists() else {}
    torch.manual_seed(1)
    for name, model, rows, columns, batch, dynamic in networks():
        model.eval()
        images = torch.randn(batch, 3, rows, columns, generator=torch.Generator().manual_seed(3))
        images = images * torch.tensor([0.8, 1.0, 1.3])[:, None, None] + torch.tensor([-0.3, 0.1, 0.4])[:, None, None]
        enliven(model, images)
        # Files that are there stay as they are.
        if name in known:
            index.append(known[name])
            continue
        operators = export(model, images, folder / f"{name}.pt2", dynamic)
        save_file({**measure(model, images), "images": images}, folder / f"{name}.expected.safetensors")
        index.append({"name": name, "operators": operators})
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    for path in sorted(folder.iterdir()):
        if path.suffix != ".md" and path.name != "manifest.json":
            files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    versions = {module.__name__: module.__version__ for module in (torch, torchvision, timm)}
    manifest = {"made_by": "tools/make_program_goldens.py", "versions": versions, "sha256": files}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
