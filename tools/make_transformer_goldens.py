"""Writes golden/transformers: small networks of each transformer family run in float64, and the names of the published ones.

Needs torch, torchvision, timm and safetensors; nothing is downloaded. Run it from anywhere:

    python tools/make_transformer_goldens.py

The same versions give the same files.
"""

import copy
import hashlib
import json
import math
import pathlib
from functools import partial

import safetensors.torch
import timm
import torch
import torchvision
from timm.layers import resample_abs_pos_embed
from timm.models import convnext as timm_convnext
from timm.models import deit as timm_deit
from timm.models import maxxvit as timm_maxvit
from timm.models import swin_transformer as timm_swin
from timm.models import vision_transformer as timm_vit
from torch import nn
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.efficientnet import EfficientNet, MBConvConfig
from torchvision.models.maxvit import MaxVit
from torchvision.models.swin_transformer import SwinTransformer
from torchvision.models.vision_transformer import VisionTransformer, interpolate_embeddings

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden" / "transformers"
STEPS = 5
MOMENTUM = 0.9
NORMS = (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)


def vit(config):
    return VisionTransformer(
        image_size=config["image_size"][0],
        patch_size=config["patch_size"],
        num_layers=config["layers"],
        num_heads=config["heads"],
        hidden_dim=config["hidden_dim"],
        mlp_dim=config["mlp_dim"],
        num_classes=config["classes"],
    )


def vit_timm(config):
    pool = "token" if config["pool"] == "class_token" else "avg"
    return timm_vit.VisionTransformer(
        img_size=tuple(config["image_size"]),
        patch_size=config["patch_size"],
        depth=config["layers"],
        num_heads=config["heads"],
        embed_dim=config["hidden_dim"],
        mlp_ratio=config["mlp_dim"] / config["hidden_dim"],
        num_classes=config["classes"],
        class_token=config["class_token"] != "absent",
        no_embed_class=config["class_token"] == "without_position",
        global_pool=pool,
        fc_norm=config["pool"] == "mean_then_norm",
        init_values=0.5 if config["layer_scale"] else None,
    )


def vit_distilled(config):
    return timm_deit.VisionTransformerDistilled(
        img_size=tuple(config["image_size"]),
        patch_size=config["patch_size"],
        depth=config["layers"],
        num_heads=config["heads"],
        embed_dim=config["hidden_dim"],
        mlp_ratio=config["mlp_dim"] / config["hidden_dim"],
        num_classes=config["classes"],
    )


def maxvit(config, size):
    return MaxVit(
        input_size=size,
        stem_channels=config["stem_width"],
        partition_size=config["partition"],
        block_channels=config["widths"],
        block_layers=config["layers"],
        head_dim=config["head_dim"],
        stochastic_depth_prob=0.2,
        num_classes=config["classes"],
    )


def maxvit_timm(config, size):
    common = timm_maxvit._tf_cfg()
    common["transformer_cfg"].dim_head = config["head_dim"]
    common["transformer_cfg"].window_size = (config["partition"],) * 2
    common["transformer_cfg"].grid_size = (config["partition"],) * 2
    cfg = timm_maxvit.MaxxVitCfg(
        embed_dim=tuple(config["widths"]),
        depths=tuple(config["layers"]),
        block_type=("M",) * len(config["widths"]),
        stem_width=config["stem_width"],
        stem_bias=True,
        head_hidden_size=config["widths"][-1],
        **common,
    )
    return timm_maxvit.MaxxVit(cfg, img_size=size, num_classes=config["classes"])


def swin(config):
    return SwinTransformer(
        patch_size=[config["patch_size"]] * 2,
        embed_dim=config["width"],
        depths=config["layers"],
        num_heads=config["heads"],
        window_size=[config["window"]] * 2,
        num_classes=config["classes"],
    )


def swin_timm(config, size):
    return timm_swin.SwinTransformer(
        img_size=size,
        patch_size=config["patch_size"],
        embed_dim=config["width"],
        depths=tuple(config["layers"]),
        num_heads=tuple(config["heads"]),
        window_size=config["window"],
        num_classes=config["classes"],
    )


def convnext(config):
    widths = config["widths"]
    following = [*widths[1:], None]
    settings = [CNBlockConfig(*stage) for stage in zip(widths, following, config["layers"])]
    return ConvNeXt(settings, stochastic_depth_prob=0.1, num_classes=config["classes"])


def convnext_timm(config):
    return timm_convnext.ConvNeXt(
        depths=tuple(config["layers"]), dims=tuple(config["widths"]), num_classes=config["classes"]
    )


def efficientnet(config):
    stages = config["stages"]
    inputs = [config["stem_width"]] + [stage["width"] for stage in stages]
    settings = [
        MBConvConfig(s["expansion"], s["kernel"], s["stride"], width, s["width"], s["units"])
        for width, s in zip(inputs, stages)
    ]
    return EfficientNet(settings, dropout=0.2, num_classes=config["classes"], last_channel=config["head_width"])


VIT = {
    "image_size": [24, 24],
    "patch_size": 8,
    "hidden_dim": 24,
    "mlp_dim": 40,
    "layers": 2,
    "heads": 3,
    "class_token": "with_position",
    "pool": "class_token",
    "layer_scale": False,
    "classes": 11,
}
VIT_MEAN = {
    "image_size": [20, 12],
    "patch_size": 4,
    "hidden_dim": 20,
    "mlp_dim": 60,
    "layers": 3,
    "heads": 5,
    "class_token": "absent",
    "pool": "mean_then_norm",
    "layer_scale": False,
    "classes": 13,
}
VIT_GAP = {**VIT_MEAN, "class_token": "with_position", "pool": "norm_then_mean"}
VIT_SCALED = {**VIT, "class_token": "without_position", "layer_scale": True, "classes": 9}
VIT_DISTILLED = {**VIT, "class_token": "distilled", "classes": 7}
VIT_LARGER = {**VIT, "image_size": [40, 40]}
VIT_OTHER = {**VIT, "image_size": [16, 40], "classes": 8}
MAXVIT = {
    "stem_width": 8,
    "widths": [8, 12],
    "layers": [1, 2],
    "partition": 5,
    "head_dim": 4,
    "origin": "pytorch",
    "classes": 13,
}
MAXVIT_TIMM = {**MAXVIT, "partition": 3, "origin": "tensorflow"}
SWIN = {"patch_size": 4, "width": 12, "layers": [2, 2, 2], "heads": [2, 3, 4], "window": 3, "classes": 17}
SWIN_EVEN = {**SWIN, "layers": [2, 2], "heads": [3, 2], "window": 4}
CONVNEXT = {"widths": [8, 12, 20], "layers": [1, 2, 1], "classes": 14}
# timm's network always has four stages.
CONVNEXT_TIMM = {"widths": [8, 12, 16, 20], "layers": [1, 2, 1, 1], "classes": 10}
EFFICIENTNET = {
    "stem_width": 8,
    "stages": [
        {"expansion": 1, "kernel": 3, "stride": 1, "width": 8, "units": 1},
        {"expansion": 4, "kernel": 5, "stride": 2, "width": 16, "units": 2},
        {"expansion": 6, "kernel": 3, "stride": 1, "width": 24, "units": 1},
    ],
    "head_width": 40,
    "origin": "pytorch",
    "classes": 12,
}

# Name, library, family, settings, height and width of the images, the network.
CASES = [
    ("vit", "torchvision", "vit", VIT, (24, 24), partial(vit, VIT)),
    ("vit_mean", "timm", "vit", VIT_MEAN, (20, 12), partial(vit_timm, VIT_MEAN)),
    ("vit_gap", "timm", "vit", VIT_GAP, (20, 12), partial(vit_timm, VIT_GAP)),
    ("vit_scaled", "timm", "vit", VIT_SCALED, (24, 24), partial(vit_timm, VIT_SCALED)),
    ("maxvit", "torchvision", "maxvit", MAXVIT, (37, 37), partial(maxvit, MAXVIT, (37, 37))),
    ("maxvit_timm", "timm", "maxvit", MAXVIT_TIMM, (24, 24), partial(maxvit_timm, MAXVIT_TIMM, (24, 24))),
    ("swin", "torchvision", "swin", SWIN, (44, 37), partial(swin, SWIN)),
    ("swin_even", "torchvision", "swin", SWIN_EVEN, (32, 32), partial(swin, SWIN_EVEN)),
    ("swin_timm", "timm", "swin", SWIN_EVEN, (32, 32), partial(swin_timm, SWIN_EVEN, (32, 32))),
    ("convnext", "torchvision", "convnext", CONVNEXT, (41, 35), partial(convnext, CONVNEXT)),
    ("convnext_timm", "timm", "convnext", CONVNEXT_TIMM, (39, 33), partial(convnext_timm, CONVNEXT_TIMM)),
    ("efficientnet", "torchvision", "efficientnet", EFFICIENTNET, (33, 27), partial(efficientnet, EFFICIENTNET)),
    ("vit_distilled", "timm", "vit", VIT_DISTILLED, (24, 24), partial(vit_distilled, VIT_DISTILLED)),
    ("vit_larger", "torchvision", "vit", VIT_LARGER, (40, 40), partial(vit, VIT_LARGER)),
    ("vit_other", "timm", "vit", VIT_OTHER, (16, 40), partial(vit_timm, VIT_OTHER)),
]
# Networks whose weight files hold the positions of images with this side.
STORED_SIDE = {"vit_larger": 24, "vit_other": 24}
BATCH = 3
# Factor of the classifier where the pooled features are small, so that entropies have gradients to speak of.
HEAD = {"efficientnet": 4.0, "maxvit_timm": 2.0}
# The largest rate Tent's authors advise: the rounding of single precision stays small beside the change of a scale near 1.
LR = 0.01

TORCHVISION = """vit_b_16 vit_b_32 vit_l_16 vit_l_32 maxvit_t swin_t swin_s swin_b
convnext_tiny convnext_small convnext_base efficientnet_b0""".split()
TIMM = """vit_tiny_patch16_224 vit_small_patch16_224 vit_small_patch32_224 vit_base_patch8_224 vit_base_patch16_224
vit_base_patch32_224 vit_large_patch16_224 vit_base_patch16_384 vit_base_patch16_gap_224 deit_tiny_patch16_224
deit_small_patch16_224 deit_base_patch16_224 deit3_small_patch16_224 maxvit_tiny_tf_224 swin_tiny_patch4_window7_224
swin_small_patch4_window7_224 swin_base_patch4_window7_224 convnext_tiny convnext_small convnext_base efficientnet_b0
tf_efficientnet_b0""".split()


def fill(net, seed, head):
    """Random values for all weights and statistics, none of them trivial and all exact in float32."""
    random = torch.Generator().manual_seed(seed)
    norms = {name for name, module in net.named_modules() if isinstance(module, NORMS)}
    for name, tensor in net.state_dict().items():
        if not tensor.is_floating_point():
            continue
        layer, _, suffix = name.rpartition(".")
        noise = torch.randn(tensor.shape, generator=random, dtype=torch.float64)
        if suffix == "running_var":
            value = 1 + 0.5 * torch.rand(tensor.shape, generator=random, dtype=torch.float64)
        elif layer in norms and suffix == "weight":
            value = 1 + 0.2 * noise
        elif suffix in ("layer_scale", "gamma"):
            value = 0.6 + 0.2 * noise
        elif suffix in ("weight", "in_proj_weight"):
            value = noise * math.sqrt(1.5 / tensor[0].numel())
        elif suffix in ("relative_position_bias_table", "pos_embedding", "pos_embed", "class_token", "cls_token"):
            value = 0.5 * noise
        else:
            value = 0.2 * noise
        tensor.copy_(value.to(torch.float32).to(tensor.dtype))
    last_linear(net).weight.data.mul_(head)


def stored_for(name, config, net, weights, seed):
    """The weights as made for images of another size; `net` gets the positions its library makes of those."""
    side = STORED_SIDE.get(name)
    if side is None:
        return weights
    random = torch.Generator().manual_seed(seed)
    tokens = 1 + (side // config["patch_size"]) ** 2
    stored = 0.5 * torch.randn((1, tokens, config["hidden_dim"]), generator=random)
    if "pos_embed" in weights:
        grid = [length // config["patch_size"] for length in config["image_size"]]
        resized = resample_abs_pos_embed(stored.double(), new_size=grid, num_prefix_tokens=1)
        net.pos_embed.data.copy_(resized)
        return {**weights, "pos_embed": stored}
    weights = {**weights, "encoder.pos_embedding": stored}
    as_double = {"encoder.pos_embedding": stored.double()}
    resized = interpolate_embeddings(config["image_size"][0], config["patch_size"], as_double)
    net.encoder.pos_embedding.data.copy_(resized["encoder.pos_embedding"])
    return weights


def images(case, seed):
    """Batches with another offset and size in each channel, exact in float32."""
    random = torch.Generator().manual_seed(seed)
    height, width = case[4]
    noise = torch.randn((STEPS + 1, BATCH, 3, height, width), generator=random, dtype=torch.float32)
    size = torch.tensor([0.8, 1.0, 1.3]).view(3, 1, 1)
    offset = torch.tensor([0.3, -0.2, 0.1]).view(3, 1, 1)
    return noise * size + offset


def entropy(logits):
    log_probs = logits.log_softmax(1)
    return -(log_probs.exp() * log_probs).sum(1).mean()


def affine(net):
    found = {}
    for name, module in net.named_modules():
        if isinstance(module, NORMS):
            found[f"{name}.weight"] = module.weight
            found[f"{name}.bias"] = module.bias
    return found


def use_batch_statistics(net):
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.track_running_stats = False
            module.running_mean = None
            module.running_var = None


def last_linear(net):
    return [module for module in net.modules() if isinstance(module, nn.Linear)][-1]


def tent(net, batches):
    """Logits, entropies, gradients and the parameters' changes of a Tent run that starts with `net`."""
    net.eval()
    with torch.no_grad():
        out = {"running_logits.0": net(batches[0])}
    use_batch_statistics(net)
    net.requires_grad_(False)
    params = affine(net)
    for param in params.values():
        param.requires_grad_(True)
    start = {name: param.detach().clone() for name, param in params.items()}
    features = []
    # The second of two heads comes last; the mean of both is one that reads the channels of their tokens in turns.
    heads = [net.head, net.head_dist] if hasattr(net, "head_dist") else [last_linear(net)]
    note = lambda _, inputs: features.append(inputs[0].detach())  # noqa: E731
    hooks = [head.register_forward_pre_hook(note) for head in heads]
    optimiser = torch.optim.SGD(params.values(), lr=LR, momentum=MOMENTUM)
    entropies = []
    for step in range(STEPS + 1):
        logits = net(batches[step])
        loss = entropy(logits)
        optimiser.zero_grad()
        loss.backward()
        entropies.append(loss.item())
        if step in (0, 1, STEPS):
            out[f"logits.{step}"] = logits.detach()
            for name, param in params.items():
                out[f"gradient.{step}.{name}"] = param.grad.clone()
        if step in (1, STEPS):
            for name, param in params.items():
                out[f"delta.{step}.{name}"] = param.detach() - start[name]
        if step < STEPS:
            optimiser.step()
    for hook in hooks:
        hook.remove()
    first = torch.stack(features[: len(heads)], dim=-1)
    out["features.0"] = first.reshape(len(first), -1)
    return out, entropies


def distance(found, expected, prefix):
    names = [name for name in expected if name.startswith(prefix)]
    error = sum((found[name].double() - expected[name]).square().sum().item() for name in names)
    size = sum(expected[name].square().sum().item() for name in names)
    return math.sqrt(error / size)


def save(name, tensors):
    tensors = {key: value.contiguous() for key, value in tensors.items()}
    (FOLDER / name).write_bytes(safetensors.torch.save(tensors))


def make_case(case, seed):
    name, library, family, config, (height, width), build = case
    torch.manual_seed(seed)
    net = build().eval().double()
    fill(net, seed, HEAD.get(name, 1.0))
    batches = images(case, seed)
    weights = {
        key: value.to(torch.float32) if value.is_floating_point() else value for key, value in net.state_dict().items()
    }
    weights = stored_for(name, config, net, weights, seed)
    single = copy.deepcopy(net).float()
    save(f"{name}.weights.safetensors", weights)
    # A model card beside the weights, as `flipcast` reads it.
    card = {
        "flipcast_model": 1,
        "name": f"{name}.golden",
        "architecture": name,
        "config": {family: config},
        "input_size": height,
        "classes": config["classes"],
        "mean": [0.0, 0.0, 0.0],
        "std": [1.0, 1.0, 1.0],
        "resize": "none",
    }
    (FOLDER / f"{name}.weights.json").write_text(json.dumps(card, indent=1) + "\n")
    save(f"{name}.inputs.safetensors", {str(step): batch for step, batch in enumerate(batches)})
    eps = sorted({(type(m).__name__, m.eps) for m in net.modules() if isinstance(m, NORMS)})
    expected, entropies = tent(net, batches.double())
    save(f"{name}.expected.safetensors", expected)
    found, _ = tent(single, batches)
    kinds = ["running_logits.", "logits.", "gradient.0.", "gradient.1.", "gradient.5.", "delta.1.", "delta.5."]
    measured = {kind.rstrip("."): float(f"{distance(found, expected, kind):.1e}") for kind in kinds}
    print(name, sum(p.numel() for p in net.parameters()), [round(e, 4) for e in entropies], measured)
    return {
        "name": name,
        "library": library,
        "family": family,
        "height": height,
        "width": width,
        "batch": BATCH,
        "steps": STEPS,
        "lr": LR,
        "momentum": MOMENTUM,
        "eps": eps,
        "mean_entropy": entropies,
        "pytorch_float32_error": measured,
        "weights": f"{name}.weights.safetensors",
        "inputs": f"{name}.inputs.safetensors",
        "expected": f"{name}.expected.safetensors",
    }


def describe(source, network):
    ignored = ("num_batches_tracked", "relative_position_index")
    tensors = [
        f"{name} {'x'.join(map(str, tensor.shape))}"
        for name, tensor in network.state_dict().items()
        if not name.endswith(ignored)
    ]
    total = sum(p.numel() for p in network.parameters())
    return {"source": source, "parameters": total, "tensors": tensors}


def make_names():
    entries = {}
    with torch.device("meta"):
        for name in TORCHVISION:
            source = f"torchvision {torchvision.__version__.split('+')[0]}"
            entries[f"torchvision/{name}"] = describe(source, torchvision.models.get_model(name, weights=None))
        for name in TIMM:
            entries[f"timm/{name}"] = describe(f"timm {timm.__version__}", timm.create_model(name, pretrained=False))
    (FOLDER / "names.json").write_text(json.dumps(entries, indent=0) + "\n")


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    entries = [make_case(case, 100 + seed) for seed, case in enumerate(CASES)]
    (FOLDER / "index.json").write_text(json.dumps(entries, indent=1) + "\n")
    make_names()
    files = sorted(path for path in FOLDER.iterdir() if path.name not in ("README.md", "manifest.json"))
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__, "timm": timm.__version__}
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    manifest = {"made_with": versions, "sha256": digests}
    (FOLDER / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
