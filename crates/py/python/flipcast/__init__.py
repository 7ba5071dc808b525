"""How accurate is an image classifier on images nobody labelled, and how does it adapt to them?

From outputs alone, in three lines and without a deep-learning framework:

>>> import numpy as np, flipcast
>>> rng = np.random.default_rng(0)
>>> def cell(sharpness):
...     labels = rng.integers(0, 4, 400)
...     return 2 * (sharpness * np.eye(4)[labels] + rng.normal(size=(400, 4))), labels
>>> cells = {f"kind{k}:{s}": cell(2.6 - 0.2 * k - 0.6 * s) for k in range(3) for s in (0, 1)}
>>> calibration = flipcast.Calibration.fit(*cell(3.0), cells=cells)
>>> estimate = flipcast.estimate(cell(2.0)[0], calibration)
>>> estimate.best.name, estimate.interval[0] <= estimate.accuracy <= estimate.interval[1]
('combined', True)

With a network: `Model.load`, `Model.calibrate`, `Model.estimate`, `Model.predict`; of PyTorch: `Model.from_torch`; while it adapts: `Adapter`; a stream: `Monitor`; corrupted images: `corrupt` and
`Corruption`.
The command-line program is inside: `flipcast --help`, or `python -m flipcast --help`.
"""

from ._native import (
    Adapter,
    Calibration,
    Estimate,
    Estimates,
    FlipcastError,
    LabelledEstimate,
    Model,
    ModelCalibration,
    Monitor,
    choose_images,
    corrupt,
    corruptions,
    estimate,
    estimate_with_labels,
    version,
)
from ._torch import from_torch
from ._transforms import Corruption

Model.from_torch = staticmethod(from_torch)

__version__ = version()

__all__ = [
    "Adapter",
    "Calibration",
    "Corruption",
    "Estimate",
    "Estimates",
    "FlipcastError",
    "LabelledEstimate",
    "Model",
    "ModelCalibration",
    "Monitor",
    "choose_images",
    "corrupt",
    "corruptions",
    "estimate",
    "estimate_with_labels",
]
