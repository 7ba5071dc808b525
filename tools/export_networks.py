"""Exports the 52 classifiers that the importer of exported programs is measured on, with random weights.

    python tools/export_networks.py FOLDER [--onnx | --only-onnx] [NAME ...]

Writes for every network FOLDER/<library>.<name>.pt2, with --onnx also the same as ONNX with its norms kept (--only-onnx: nothing else), and FOLDER/<library>.<name>.expected.safetensors with a batch of four
images, its logits, and the gradients of the mean entropy with respect to scale and shift of every norm, in double precision:
`running.*` with running statistics, `batch.*` with those of the batch; `float32_errors` is how far PyTorch itself is from them
in single precision. FOLDER/<library>.<name>.drawn.json tells which of the weights are the numbers of a seed (`tools/models/seeds.py`); those and the
images are, so that `tools/models/pack_networks.py` can leave them out. Then

    FLIPCAST_EXPORTS=FOLDER cargo test -p flipcast-models --test programs -- --ignored --nocapture

tells which of them run and how far they are from PyTorch. Needs torch, torchvision, timm and safetensors, for ONNX also onnxscript.
"""

import copy
import json
import math
import sys
import time
from pathlib import Path

import timm
import torch
import torchvision
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent / "models"))
from seeds import draw, seed_of

TORCHVISION = """resnet50 resnext50_32x4d wide_resnet50_2 mobilenet_v2 mobilenet_v3_large efficientnet_b0 efficientnet_v2_s
regnet_y_400mf densenet121 vgg11_bn googlenet inception_v3 squeezenet1_1 shufflenet_v2_x1_0 mnasnet1_0 alexnet vit_b_32 swin_t
swin_v2_t convnext_tiny maxvit_t""".split()
TIMM = """resnet18 resnet50d resnetv2_50x1_bit seresnet50 vit_tiny_patch16_224 deit3_small_patch16_224 beit_base_patch16_224
eva02_tiny_patch14_224 swin_tiny_patch4_window7_224 convnextv2_atto mobilenetv4_conv_small efficientnet_lite0 tf_efficientnetv2_b0
repvgg_a0 mobileone_s0 ghostnet_100 fastvit_t8 efficientformerv2_s0 tiny_vit_5m_224 mixer_s16_224 poolformerv2_s12 caformer_s18
levit_128s mobilevit_xxs dla34 hrnet_w18_small nf_resnet50 xcit_nano_12_p16_224 davit_tiny vit_small_patch14_dinov2
hiera_tiny_224""".split()
# Networks whose layers hold for images of one size alone; all others are exported with small ones.
FIXED = """vgg11_bn alexnet vit_b_32 swin_t swin_v2_t maxvit_t vit_tiny_patch16_224 deit3_small_patch16_224 beit_base_patch16_224
eva02_tiny_patch14_224 swin_tiny_patch4_window7_224 efficientformerv2_s0 tiny_vit_5m_224 mixer_s16_224 levit_128s mobilevit_xxs
xcit_nano_12_p16_224 davit_tiny vit_small_patch14_dinov2 hiera_tiny_224""".split()
NORMS = (torch.nn.BatchNorm2d, torch.nn.BatchNorm1d, torch.nn.LayerNorm, torch.nn.GroupNorm)


def build(library, name):
    """The network, and rows and columns of its images."""
    torch.manual_seed(1)
    if library == "torchvision":
        more = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
        if name == "googlenet" or name == "inception_v3":
            more["aux_logits"] = False
        side = 224 if name in FIXED else 171 if name == "inception_v3" else 96
        return torchvision.models.get_model(name, weights=None, num_classes=10, **more), [side, side]
    more = {"num_classes": 10}
    model = timm.create_model(name, pretrained=False, **more)
    return model, list(model.pretrained_cfg["input_size"][1:]) if name in FIXED else [96, 96]


def enliven(model, images):
    """Scales and shifts that are not 1 and 0, and running statistics near those of a batch, for the goldens in the repository."""
    generator = torch.Generator().manual_seed(2)
    for module in model.modules():
        # Some heads start as zeros, and logits of zero tell nothing.
        if isinstance(module, torch.nn.Linear) and not module.weight.any():
            module.weight.data = 0.1 * torch.randn(module.weight.shape, generator=generator)
        if isinstance(module, NORMS):
            if module.weight is not None:
                module.weight.data = 0.7 + 0.6 * torch.rand(module.weight.shape, generator=generator)
            if getattr(module, "bias", None) is not None:
                module.bias.data = 0.2 * torch.randn(module.bias.shape, generator=generator)
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.momentum = 1.0
                module.train()
    with torch.no_grad():
        model(images)
    model.eval()


def draw_weights(model, drawn):
    """Numbers of a seed for every larger weight, spread as its own, and scales and shifts that are not 1 and 0."""

    def fill(tensor, name, center, width):
        # As float32 has them, so that the text of the numbers tells them to the last bit.
        center, width = (torch.tensor(value, dtype=torch.float32).item() for value in (center, width))
        drawn[name] = [seed_of(name), tensor.numel(), center, width]
        tensor.data = torch.from_numpy(draw(*drawn[name])).reshape(tensor.shape)

    for path, module in model.named_modules():
        for name, tensor in module.named_parameters(prefix=path, recurse=False):
            if isinstance(module, NORMS):
                fill(tensor, name, *((1.0, 0.3) if name.endswith("weight") else (0.0, 0.35)))
            elif isinstance(module, torch.nn.Linear) and tensor.dim() == 2 and not tensor.any():
                # Some heads start as zeros, and logits of zero tell nothing.
                fill(tensor, name, 0.0, 0.17)
            elif tensor.dim() > 1 and tensor.numel() >= 1024 and tensor.std() > 0:
                fill(tensor, name, 0.0, math.sqrt(3) * tensor.std().item())


def measure_statistics(model, images):
    """Running statistics near those of the batch, of few digits so that they take little space compressed."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    for module in norms:
        module.momentum = 1.0
        module.train()
    with torch.no_grad():
        model(images)
    model.eval()
    for module in norms:
        for statistics in (module.running_mean, module.running_var):
            statistics.copy_(statistics.bfloat16().float())


def measure(model, images):
    """Logits and affine gradients in double precision, and how far PyTorch is from them in single precision: the larger
    relative error of both modes, of the logits and of all gradients as one vector."""
    exact, rounded = run(model, images, torch.float64), run(model, images, torch.float32)
    errors = torch.zeros(2, dtype=torch.float64)
    for mode in ["running", "batch"]:
        for place, part in enumerate(["logits", "gradient"]):
            names = [name for name in exact if name.startswith(f"{mode}.{part}")]
            if names:
                expected = torch.cat([exact[name].flatten() for name in names])
                found = torch.cat([rounded[name].double().flatten() for name in names])
                errors[place] = max(errors[place], (found - expected).norm() / expected.norm())
    return {**exact, "float32_errors": errors}


def run(model, images, dtype):
    """Logits and affine gradients with running and with batch statistics."""
    images = images.to(dtype)
    tensors = {}
    source = model
    for mode in ["running", "batch"]:
        # Some networks keep tables from their first run on.
        model = copy.deepcopy(source).to(dtype)
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.train(mode == "batch")
        model.zero_grad()
        logits = model(images)
        log_probs = logits.log_softmax(1)
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        entropy.backward()
        tensors[f"{mode}.logits"] = logits.detach()
        for path, module in model.named_modules():
            if isinstance(module, NORMS) and module.weight is not None and module.weight.grad is not None:
                tensors[f"{mode}.gradient.{path}.weight"] = module.weight.grad.clone()
                if module.bias is not None:
                    tensors[f"{mode}.gradient.{path}.bias"] = module.bias.grad.clone()
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def export(model, images, path, dynamic=True):
    """Saves the program without the stack traces, which name folders of this machine."""
    shapes = ({0: torch.export.Dim("n")},) if dynamic else None
    try:
        program = torch.export.export(model, (images,), dynamic_shapes=shapes)
    except Exception:
        program = torch.export.export(model, (images,))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, path)
    return sorted({str(node.target) for node in program.graph.nodes if node.op == "call_function"})


def export_onnx(model, images, path):
    """Saves the network as ONNX, batch norms not folded into convolutions."""
    settings = {"dynamo": True, "optimize": False, "external_data": False, "verbose": False}
    try:
        torch.onnx.export(model, (images,), path, dynamic_shapes=({0: torch.export.Dim("n")},), **settings)
    except Exception:
        torch.onnx.export(model, (images,), path, **settings)


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    only_onnx = "--only-onnx" in names
    with_onnx = only_onnx or "--onnx" in names
    names = [name for name in names if not name.startswith("--")]
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    networks = [("torchvision", name) for name in TORCHVISION] + [("timm", name) for name in TIMM]
    for library, name in networks:
        place = folder / f"{library}.{name}"
        done = only_onnx or place.with_name(place.name + ".expected.safetensors").exists()
        onnx_done = not with_onnx or place.with_name(place.name + ".onnx").exists()
        if (names and name not in names) or (done and onnx_done):
            continue
        start = time.time()
        model, size = build(library, name)
        drawn = {"images": [seed_of("images"), 12 * size[0] * size[1], 0.0, 1.75]}
        images = torch.from_numpy(draw(*drawn["images"])).reshape(4, 3, *size)
        draw_weights(model, drawn)
        measure_statistics(model, images)
        Path(f"{place}.drawn.json").write_text(json.dumps(drawn))
        if not onnx_done:
            try:
                export_onnx(model, images, f"{place}.onnx")
            except Exception as error:
                print(f"{library}/{name}: no ONNX: {str(error)[:200]}", flush=True)
        if done:
            print(f"{library}/{name} {time.time() - start:.0f} s: ONNX", flush=True)
            continue
        operators = export(model, images, f"{place}.pt2")
        tensors = measure(model, images)
        tensors["images"] = images
        save_file(tensors, f"{place}.expected.safetensors")
        print(f"{library}/{name} {time.time() - start:.0f} s: {' '.join(operators)}", flush=True)


if __name__ == "__main__":
    main()
