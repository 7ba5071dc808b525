"""Corruptions as transforms of single images, as torchvision has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._native import corrupt


class Corruption:
    """A corruption of single images, for a pipeline of transforms: `transforms.Compose([Corruption("fog", severity=3), ...])`.

    Takes and gives a Pillow image, an array of bytes `[height, width, 3]`, or a tensor of bytes `[3, height, width]`. The draw depends on `seed` and on how many
    images came before, so that a pipeline of one worker is the same every time; `index` of a call sets the number itself.

    >>> import numpy as np, flipcast
    >>> fog = flipcast.Corruption("cifar-c/fog", severity=3, seed=1)
    >>> image = np.full((32, 32, 3), 128, np.uint8)
    >>> fog(image).shape
    (32, 32, 3)
    >>> bool((fog(image, index=0) == flipcast.corrupt("cifar-c/fog", image[None], severity=3, seed=1)[0]).all())
    True
    """

    def __init__(self, name: str, severity: int = 3, seed: int = 0, *, storage: str = "published") -> None:
        self.name, self.severity, self.seed, self.storage = name, severity, seed, storage
        self._next = 0

    def __call__(self, image: Any, *, index: int | None = None) -> Any:
        if index is None:
            index, self._next = self._next, self._next + 1
        if hasattr(image, "convert"):
            return _pillow(self._corrupt(np.asarray(image.convert("RGB")), index))
        # A tensor may lie on a GPU.
        pixels = np.asarray(image.cpu() if hasattr(image, "cpu") else image)
        channels_first = pixels.ndim == 3 and pixels.shape[0] == 3 and pixels.shape[2] != 3
        made = self._corrupt(np.moveaxis(pixels, 0, 2) if channels_first else pixels, index)
        made = np.ascontiguousarray(np.moveaxis(made, 2, 0)) if channels_first else made
        return image.new_tensor(made) if hasattr(image, "new_tensor") else made

    def _corrupt(self, pixels: np.ndarray, index: int) -> np.ndarray:
        return corrupt(self.name, pixels[None], self.severity, self.seed, first=index, storage=self.storage)[0]

    def __repr__(self) -> str:
        return f"Corruption({self.name!r}, severity={self.severity}, seed={self.seed})"


def _pillow(pixels: np.ndarray) -> Any:
    from PIL import Image

    return Image.fromarray(pixels)
