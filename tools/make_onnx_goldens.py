"""Makes golden/onnx: the networks of golden/programs as ONNX files, by every exporter and setting that matters.

    python tools/make_onnx_goldens.py golden/onnx

What they compute stands in golden/programs, which must be of the same versions. Needs torch, torchvision, timm, safetensors, onnx
and onnxscript. See golden/onnx/README.md.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import onnx
import timm
import torch
import torchvision
from export_networks import enliven
from make_program_goldens import networks
from safetensors.torch import load_file

# What is exported of each network. `folded` is the exporter's default, in which batch norms are part of the convolutions.
KINDS = {
    "resnet": ["folded", "kept", "script", "script13", "half", "external"],
    "plain": ["folded", "script17"],
    "convnext": ["folded", "script13"],
    "vit": ["folded", "script14"],
    "vit_timm": ["kept"],
    "densenet": ["kept"],
    "shufflenet": ["folded", "kept"],
    "convnext_v2": ["kept"],
    "mobilenet_v3": ["script13"],
    "ceil": ["script"],
    "efficientnet": ["folded", "script13"],
    "swin": ["kept"],
    "swin_v2": ["kept"],
    "eva": ["kept"],
    "enlarged": ["folded", "kept"],
    "standardized": ["folded", "kept"],
    "one_group": ["folded", "kept"],
}


def export(model, images, path, kind, dynamic):
    """Saves the network as `kind` says."""
    if kind == "half":
        model, images = model.half(), images.half()
    if kind.startswith("script"):
        axes = {"images": {0: "n"}} if dynamic else None
        opset = int(kind[6:] or 20)
        torch.onnx.export(
            model, (images,), path, dynamo=False, opset_version=opset, do_constant_folding=False, dynamic_axes=axes,
            training=torch.onnx.TrainingMode.PRESERVE, input_names=["images"],
        )
    else:
        shapes = ({0: torch.export.Dim("n")},) if dynamic else None
        torch.onnx.export(
            model, (images,), path, dynamo=True, optimize=kind != "kept", dynamic_shapes=shapes, external_data=False, verbose=False,
        )
    tidy(path, external=kind == "external")


def tidy(path, external):
    """Takes out stack traces, which name folders of this machine, and inferred shapes."""
    model = onnx.load(path)
    del model.graph.value_info[:], model.metadata_props[:], model.graph.metadata_props[:]
    model.graph.doc_string = ""
    for node in model.graph.node:
        node.doc_string = ""
        kept = [entry for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for value in [*model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
    if external:
        data = Path(path).name + ".data"
        (Path(path).parent / data).unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=data, size_threshold=64)
        (Path(path).parent / data).chmod(0o644)
    else:
        onnx.save(model, path)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    index = []
    for name, model, rows, columns, batch, dynamic in networks():
        model.eval()
        expected = load_file(folder.parent / "programs" / f"{name}.expected.safetensors")
        images = expected["images"]
        enliven(model, images)
        with torch.no_grad():
            error = (model(images) - expected["running.logits"]).norm() / expected["running.logits"].norm()
        assert error < 1e-4, f"{name} is not the network of golden/programs: {error}"
        # Half precision last: it changes the weights.
        for kind in sorted(KINDS.get(name, []), key="half".__eq__):
            path = folder / f"{name}.{kind}.onnx"
            # Files that are there stay as they are.
            if not path.exists():
                export(model, images, str(path), kind, dynamic)
            operators = sorted({node.op_type for node in onnx.load(path, load_external_data=False).graph.node})
            index.append({"name": name, "kind": kind, "operators": operators})
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.suffix != ".md" and path.name != "manifest.json"
    }
    versions = {module.__name__: module.__version__ for module in (torch, torchvision, timm, onnx)}
    manifest = {"made_by": "tools/make_onnx_goldens.py", "versions": versions, "sha256": files}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
