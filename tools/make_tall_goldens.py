#!/usr/bin/env python3
"""Makes golden/preprocess/tall: tall images that lose height, which Pillow resamples down the columns first.

Usage: python tools/make_tall_goldens.py
Needs: numpy, Pillow 13 or later (earlier versions always resample along the rows first).
"""
import json
import pathlib

import numpy as np
import PIL
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent.parent / "golden" / "preprocess" / "tall"
FILTERS = ["nearest", "box", "bilinear", "bicubic", "lanczos"]
# From 23 x 61: ratio kept, height only, width grown, as many pixels lost as the rule's limit (38 = 2 * 19), one beyond it.
SIZES = [(9, 24), (23, 20), (31, 40), (4, 23), (4, 22)]


def main():
    assert int(PIL.__version__.split(".")[0]) >= 13, f"Pillow {PIL.__version__} resamples along the rows first"
    y, x = np.mgrid[0:61, 0:23]
    planes = [(71 * c + 13 * y + 29 * x + x * y // 3) % 256 for c in range(3)]
    picture = Image.fromarray(np.stack(planes, axis=2).astype(np.uint8))
    HERE.mkdir(parents=True, exist_ok=True)
    picture.save(HERE / "input.png", optimize=True)
    # One strip per filter, its results below one another, so that the folder stays small.
    entries = []
    for name in FILTERS:
        strip = Image.new("RGB", (max(w for w, _ in SIZES), sum(h for _, h in SIZES)))
        top = 0
        for size in SIZES:
            strip.paste(picture.resize(size, getattr(Image.Resampling, name.upper())), (0, top))
            entries.append({"interpolation": name, "size_wh": size, "strip": f"{name}.png", "top": top})
            top += size[1]
        strip.save(HERE / f"{name}.png", optimize=True)
    (HERE / "manifest.json").write_text(json.dumps({"pillow": PIL.__version__, "tall": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
