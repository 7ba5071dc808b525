"""Networks of PyTorch, which is imported only when it is asked for."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from ._native import Model


def from_torch(module: Any, example: Any, **preprocessing: Any) -> Model:
    """The network that a `torch.nn.Module` is, through a temporary export.

    `example` is a batch of images as the module takes them, `[images, 3, height, width]`; their number does not matter. The module is exported in
    evaluation mode and left as it was. `preprocessing` is what `Model.load` takes: `mean`, `std`, `resize`, `crop` and so on.

        model = flipcast.Model.from_torch(net, torch.zeros(2, 3, 224, 224), mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), resize=256, crop=224)
    """
    import torch

    was_training = {name: part.training for name, part in module.named_modules()}
    module.eval()
    try:
        try:
            shapes = ({0: torch.export.Dim("n")},)
            program = torch.export.export(module, (example,), dynamic_shapes=shapes)
        except Exception:
            # Some networks hold for one batch size when they are traced; the importer derives shapes again.
            program = torch.export.export(module, (example,))
    finally:
        for name, part in module.named_modules():
            part.training = was_training.get(name, part.training)
    with tempfile.TemporaryDirectory(prefix="flipcast-") as folder:
        path = os.path.join(folder, f"{type(module).__name__}.pt2")
        torch.export.save(program, path)
        return Model.load(path, **preprocessing)
