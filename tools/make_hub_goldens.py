"""Makes golden/hub: folders as Transformers saves them, of tiny networks with random weights, and what they compute.

    python tools/make_hub_goldens.py golden/hub [NAME ...]

Every folder has config.json, preprocessor_config.json and model.safetensors as `save_pretrained` writes them, and expected.safetensors
with two images and their logits in double precision. Needs torch, transformers and safetensors.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

LABELS = {0: "ant", 1: "bee", 2: "cat", 3: "dog", 4: "elk"}
VIT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40, "image_size": 32, "patch_size": 8}
PREPROCESSORS = {
    "resnet": {"crop_pct": 0.875, "size": {"shortest_edge": 32}, "resample": 3},
    "convnext": {"crop_pct": 0.875, "size": {"shortest_edge": 32}, "resample": 3},
    "vit": {"size": {"height": 32, "width": 32}, "resample": 2},
    "swin": {"size": {"height": 32, "width": 32}, "resample": 3},
    "mobilenet": {"size": {"shortest_edge": 36}, "resample": 2, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}},
    "deit": {"size": {"height": 36, "width": 36}, "resample": 3, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}},
}


def networks():
    """Configuration and class of every network."""
    t = transformers
    labels = {"id2label": LABELS, "label2id": {name: number for number, name in LABELS.items()}}
    yield "resnet", t.ResNetForImageClassification(
        t.ResNetConfig(embedding_size=8, hidden_sizes=[32, 64], depths=[1, 2], layer_type="bottleneck", **labels))
    yield "resnet_basic", t.ResNetForImageClassification(
        t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic", **labels))
    yield "vit", t.ViTForImageClassification(t.ViTConfig(**VIT, **labels))
    yield "deit", t.DeiTForImageClassificationWithTeacher(t.DeiTConfig(**VIT, **labels))
    yield "convnext", t.ConvNextForImageClassification(
        t.ConvNextConfig(hidden_sizes=[8, 12, 16], depths=[1, 2, 1], num_stages=3, layer_scale_init_value=0.3, **labels))
    yield "swin", t.SwinForImageClassification(
        t.SwinConfig(image_size=32, patch_size=2, embed_dim=12, depths=[2, 2], num_heads=[2, 3], window_size=4, **labels))
    yield "mobilenet_v2", t.MobileNetV2ForImageClassification(t.MobileNetV2Config(depth_multiplier=0.1, image_size=32, **labels))


def enliven(model):
    """Scales, shifts and statistics that are not 1 and 0, and weights large enough to matter."""
    generator = torch.Generator().manual_seed(2)
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        if name.endswith("running_var"):
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
        elif tensor.dim() == 1 and name.endswith("weight"):
            tensor.copy_(0.7 + 0.6 * torch.rand(tensor.shape, generator=generator))
        else:
            tensor.copy_(0.2 * torch.randn(tensor.shape, generator=generator))


def main():
    folder = Path(sys.argv[1])
    for name, model in networks():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(1)
        model.eval()
        enliven(model)
        if name == "mobilenet_v2":
            # However narrow it is, it has many weights.
            model.half()
        place = folder / name
        model.save_pretrained(place)
        settings = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
                    "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
        settings |= PREPROCESSORS[name.split("_")[0]]
        (place / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))
        with torch.no_grad():
            logits = model.double()(images.double()).logits
        save_file({"images": images, "logits": logits.contiguous()}, place / "expected.safetensors")
        print(name, logits[0].tolist())


if __name__ == "__main__":
    main()
