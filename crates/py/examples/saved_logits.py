"""Estimates from saved logits: what a team does whose network never leaves its server.

Here the logits are drawn at random; yours come from `np.load("clean_logits.npy")` and so on.
"""

import pathlib
import tempfile

import flipcast
import numpy as np

rng = np.random.default_rng(0)


def logits_and_labels(images: int, sharpness: float):
    """Logits of a classifier of ten classes that tells them apart with this sharpness."""
    labels = rng.integers(0, 10, images)
    return (2 * (sharpness * np.eye(10)[labels] + rng.normal(size=(images, 10)))).astype(np.float32), labels


# Once: labelled clean images, and labelled images under other conditions; `fog:1` and `fog:3` are one kind.
clean_logits, clean_labels = logits_and_labels(1000, 3.5)
cells = {
    f"{kind}:{severity}": logits_and_labels(1000, 3.2 - 0.15 * number - 0.7 * severity)
    for number, kind in enumerate(["fog", "night", "blur", "camera2", "rain"])
    for severity in (1, 2)
}
calibration = flipcast.Calibration.fit(clean_logits, clean_labels, cells=cells)
print(calibration)

# It is a file that the command line reads too: `flipcast estimate --logits new.npy --calibration calibration.json`.
path = pathlib.Path(tempfile.mkdtemp()) / "calibration.json"
calibration.save(path)

# As often as you like: logits of images nobody labelled. The truth is known here, and is not used.
new_logits, truth = logits_and_labels(800, 2.0)
estimate = flipcast.estimate(new_logits, flipcast.Calibration.load(path), labels=truth)
print(estimate)
print(f"estimated {estimate.accuracy:.3f}, interval {estimate.interval[0]:.3f} to {estimate.interval[1]:.3f}, truth {estimate.truth:.3f}")
for name in ("cot", "cot_calibrated", "atc_mc", "doc", "ac"):
    print(f"  {estimate[name]}")

# What to do with it: alarm on the lower end, not on the guess, and never on an estimate that doubts itself.
if "outside_fitted_range" in estimate.flags:
    print("these images differ more from the labelled ones than any cell did: label some")
elif estimate.interval[0] < 0.5:
    print("the accuracy may be below 50%")
