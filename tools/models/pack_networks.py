"""Packs what `tools/export_networks.py` wrote for another machine, without the weights that a seed gives.

    python tools/models/pack_networks.py FOLDER OUT.tar.gz [--onnx NAME ...]

takes every .pt2 with what PyTorch computed (gradients in float32), and the ONNX files of the networks named. There:

    tar xzf OUT.tar.gz -C FOLDER && networks fill FOLDER && networks compare FOLDER f32 tf32

where `networks` is `cargo build --release -p flipcast-cuda --example networks`.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from seeds import blank


def main():
    folder, out, onnx = Path(sys.argv[1]), sys.argv[2], sys.argv[4:]
    lines = []
    with tarfile.open(out, "w:gz", compresslevel=9) as archive:

        def add(name, data):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        for program in sorted(folder.glob("*.pt2")):
            name = program.stem
            drawn = json.loads((folder / f"{name}.drawn.json").read_text())
            tensors = load_file(folder / f"{name}.expected.safetensors")
            tensors = {key: tensor.to(torch.float32) if ".gradient." in key else tensor for key, tensor in tensors.items()}
            files = {f"{name}.pt2": program.read_bytes(), f"{name}.expected.safetensors": save(tensors)}
            if name.split(".", 1)[1] in onnx:
                files[f"{name}.onnx"] = (folder / f"{name}.onnx").read_bytes()
            for file, data in files.items():
                data, places = blank(data, drawn)
                lines += [f"{file} {' '.join(map(str, place))}" for place in places]
                add(file, data)
            print(name, f"{Path(out).stat().st_size / 2**20:.1f} MiB so far", flush=True)
        add("seeds.txt", ("\n".join(lines) + "\n").encode())
    print(f"{Path(out).stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
