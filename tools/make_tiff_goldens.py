#!/usr/bin/env python3
"""Makes golden/preprocess/tiff: small TIFF files and what Pillow's `convert('RGB')` makes of them.

Usage: python tools/make_tiff_goldens.py
Needs: numpy, Pillow.
"""
import json
import pathlib

import numpy as np
import PIL
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent.parent / "golden" / "preprocess" / "tiff"


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[0:9, 0:13]
    planes = np.stack([(71 * c + 13 * y + 29 * x + x * y // 3) % 256 for c in range(4)], axis=2).astype(np.uint8)
    rgb, rgba = Image.fromarray(planes[..., :3]), Image.fromarray(planes, "RGBA")
    grey16 = Image.fromarray((37 * x + 91 * y).astype(np.uint16))
    files = {
        "grey8.tif": (rgb.convert("L"), {}),
        "grey16.tif": (grey16, {}),
        "bits1.tif": (rgb.convert("1"), {}),
        "rgb.tif": (rgb, {}),
        "rgb_lzw.tif": (rgb, {"compression": "tiff_lzw"}),
        "rgb_deflate.tif": (rgb, {"compression": "tiff_adobe_deflate"}),
        "rgb_packbits.tif": (rgb, {"compression": "packbits"}),
        "rgba_lzw.tif": (rgba, {"compression": "tiff_lzw"}),
        "cmyk.tif": (Image.fromarray(planes, "CMYK"), {}),
        "turned.tif": (rgb, {"tiffinfo": {274: 6}}),
    }
    entries = []
    for name, (picture, options) in files.items():
        picture.save(HERE / name, "TIFF", **options)
        expected = f"{name[:-4]}.png"
        Image.open(HERE / name).convert("RGB").save(HERE / expected, optimize=True)
        entries.append({"input": f"tiff/{name}", "rgb_png": f"tiff/{expected}"})
    (HERE / "manifest.json").write_text(json.dumps({"pillow": PIL.__version__, "tiff": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
