#!/usr/bin/env python3
"""Makes the golden data under golden/preprocess/.

What a torchvision ImageFolder + Resize + CenterCrop + ToTensor + Normalize
pipeline yields for PIL input, computed with Pillow and numpy only, and what
Pillow's convert('RGB') gives for awkward files.

Usage: python make_goldens.py OUT_DIR
Needs: numpy, Pillow, scikit-image (for its CC0 photographs).
"""
import hashlib
import io
import json
import os
import sys
import warnings

import numpy as np
from PIL import Image
from skimage import data

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32).reshape(3, 1, 1)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32).reshape(3, 1, 1)


def load_rgb(raw):
    """The default ImageFolder loader: sniff by content, drop everything but RGB."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Image.open(io.BytesIO(raw)).convert("RGB")


def resize_short_side(pic, side):
    w, h = pic.size
    if w <= h:
        size = (side, int(side * h / w))
    else:
        size = (int(side * w / h), side)
    return pic if size == (w, h) else pic.resize(size, Image.Resampling.BILINEAR)


def centre_crop(pic, side):
    w, h = pic.size
    left, top = int(round((w - side) / 2.0)), int(round((h - side) / 2.0))   # half to even
    return pic.crop((left, top, left + side, top + side)), (left, top)


def normalise(rgb):
    chw = rgb.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    return ((chw - MEAN) / STD).astype(np.float32)


def encode(pic, fmt, **kw):
    buf = io.BytesIO()
    pic.save(buf, fmt, **kw)
    return buf.getvalue()


def put(root, rel, raw):
    path = os.path.join(root, rel)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(raw)


def put_png(root, rel, pic):
    put(root, rel, encode(pic, "PNG", optimize=True))
    try:
        import oxipng
        oxipng.optimize(os.path.join(root, rel), level=4)
    except ImportError:
        pass


def sha(arr):
    return hashlib.sha256(np.ascontiguousarray(arr).tobytes()).hexdigest()


def main():
    root = sys.argv[1]
    cat, cup = Image.fromarray(data.chelsea()), Image.fromarray(data.coffee())
    entries = {"pipeline": [], "edge": []}

    photos = {
        "photo.jpg": encode(cat, "JPEG", quality=92, subsampling="4:2:0"),
        "photo.png": encode(cup, "PNG", optimize=True),
    }
    for name, raw in photos.items():
        put(root, "inputs/" + name, raw)
        pic = load_rgb(raw)
        stem = name.replace(".", "_")
        if name.endswith("jpg"):
            put_png(root, "expected/%s_decoded.png" % stem, pic)
        for side in (256, 232):
            small = resize_short_side(pic, side)
            crop, origin = centre_crop(small, 224)
            rgb = np.array(crop)
            key = "%s_r%d" % (stem, side)
            put_png(root, "expected/%s.png" % key, crop)
            np.save(os.path.join(root, "expected", key + ".npy"), normalise(rgb))
            entries["pipeline"].append({
                "input": "inputs/" + name, "resize": side, "crop": 224,
                "source_size_wh": list(pic.size), "resized_size_wh": list(small.size),
                "crop_left_top": list(origin), "rgb_png": "expected/%s.png" % key,
                "normalised_npy": "expected/%s.npy" % key, "sha256_rgb": sha(rgb),
                "decoded_png": "expected/%s_decoded.png" % stem if name.endswith("jpg") else None,
                "sha256_decoded_rgb": sha(np.array(pic))})

    # awkward files, all from the same small picture (odd sizes on purpose)
    small = cup.crop((150, 60, 451, 261)).resize((97, 65), Image.Resampling.BILINEAR)
    grey = small.convert("L")
    pal = small.quantize(32, dither=Image.Dither.NONE)
    alpha_ramp = bytes(min(255, 8 * i) for i in range(32))
    ramp = Image.fromarray(np.tile(np.linspace(0, 255, 97).astype(np.uint8), (65, 1)))
    rgba = small.copy()
    rgba.putalpha(ramp)
    grey_alpha = Image.merge("LA", (grey, ramp))
    deep = Image.fromarray((np.array(grey).astype(np.uint16) * 4))
    exif = Image.Exif()
    exif[0x0112] = 6                                      # "rotate 90 clockwise to view"
    edge = [
        ("rgb_420_odd.jpg", encode(small, "JPEG", quality=90, subsampling="4:2:0"), "jpeg",
         "baseline 4:2:0, odd width and height"),
        ("rgb_422.jpg", encode(small, "JPEG", quality=90, subsampling="4:2:2"), "jpeg",
         "baseline 4:2:2"),
        ("rgb_444.jpg", encode(small, "JPEG", quality=90, subsampling="4:4:4"), "jpeg",
         "baseline 4:4:4"),
        ("rgb_progressive.jpg", encode(small, "JPEG", quality=90, progressive=True), "jpeg",
         "progressive 4:2:0"),
        ("grey.jpg", encode(grey, "JPEG", quality=90), "jpeg", "single-component JPEG, replicated"),
        ("cmyk_adobe.jpg", encode(small.convert("CMYK"), "JPEG", quality=90), "jpeg-cmyk",
         "4-component CMYK with an Adobe marker (values stored inverted)"),
        ("exif_orientation6.jpg", encode(small, "JPEG", quality=90, exif=exif), "jpeg",
         "EXIF orientation 6: NOT applied, width stays 97"),
        ("grey.png", encode(grey, "PNG"), "exact", "8-bit greyscale, replicated"),
        ("grey16.png", encode(deep, "PNG"), "exact",
         "16-bit greyscale (values 0..1020): clipped at 255, not scaled"),
        ("grey_alpha.png", encode(grey_alpha, "PNG"), "exact", "grey + alpha: alpha dropped"),
        ("rgba.png", encode(rgba, "PNG"), "exact", "alpha dropped, no compositing"),
        ("palette.png", encode(pal, "PNG"), "exact", "palette, opaque"),
        ("palette_alpha.png", encode(pal, "PNG", transparency=alpha_ramp), "exact",
         "palette with tRNS alpha: alpha dropped, palette colour kept"),
        ("bilevel.png", encode(small.convert("1", dither=Image.Dither.NONE), "PNG"), "exact",
         "1-bit: 0 and 255"),
        ("png_named_jpeg.JPEG", encode(small, "PNG"), "exact",
         "a PNG with a .JPEG name (one exists in ImageNet): the content decides"),
    ]
    for name, raw, rule, note in edge:
        put(root, "edge/" + name, raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mode = Image.open(io.BytesIO(raw)).mode
        rgb = load_rgb(raw)
        rel = "edge/expected/%s.png" % name.replace(".", "_")
        put_png(root, rel, rgb)
        entries["edge"].append({"input": "edge/" + name, "pil_mode": mode, "size_wh": list(rgb.size),
                                "rgb_png": rel, "sha256_rgb": sha(np.array(rgb)), "rule": rule,
                                "note": note})
    with open(os.path.join(root, "manifest.json"), "w") as f:
        json.dump(entries, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
