#!/usr/bin/env python3
"""Makes resample/, formats/ and float_bilinear/ beside this file.

Usage: python make_extra.py
Needs: numpy, Pillow (10 or later), torch.
"""
import io
import json
import os
import struct
import zlib

import numpy as np
import torch
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
FILTERS = ["nearest", "box", "bilinear", "bicubic", "lanczos"]
SIZES = [(17, 23), (64, 40), (37, 11), (150, 50), (5, 6)]


def pattern(width, height):
    """Irregular, different in every channel, full range, hard edges."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [(71 * c + 13 * y + 29 * x + x * y // 3) % 256 for c in range(3)]
    return np.stack(planes, axis=2).astype(np.uint8)


def put(rel, raw):
    path = os.path.join(HERE, rel)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(raw)


def encoded(pic, fmt, **options):
    buffer = io.BytesIO()
    pic.save(buffer, fmt, **options)
    return buffer.getvalue()


def raw_png(width, height, depth, colour, rows, extra=()):
    """A PNG of any depth and colour type; `rows` are the packed bytes of each row."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    chunks = [(b"IHDR", header), *extra, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(k, b) for k, b in chunks)


def deep_pngs():
    """Depths Pillow reads but does not write: 16 bits a channel, 2 and 4 bits of grey, a transparent grey level."""
    def rows(count):
        return [bytes((37 * i + 91 * y + 5) % 256 for i in range(count)) for y in range(7)]
    return {
        "rgb16.png": raw_png(11, 7, 16, 2, rows(66)),
        "rgba16.png": raw_png(11, 7, 16, 6, rows(88)),
        "grey_alpha16.png": raw_png(11, 7, 16, 4, rows(44)),
        "grey2.png": raw_png(11, 7, 2, 0, rows(3)),
        "grey4.png": raw_png(11, 7, 4, 0, rows(6)),
        "grey_transparent.png": raw_png(11, 7, 8, 0, rows(11), [(b"tRNS", b"\0\x60")]),
        "rgb_transparent.png": raw_png(11, 7, 8, 2, rows(33), [(b"tRNS", b"\0\x05\0\x2a\0\x4f")]),
        "palette_short.png": raw_png(11, 7, 4, 3, [bytes(b & 0x33 for b in r) for r in rows(6)],
                                     [(b"PLTE", bytes(range(10, 22)))]),
    }


def main():
    manifest = {"resample": [], "formats": [], "float_bilinear": []}

    pic = Image.fromarray(pattern(37, 29))
    put("resample/input.png", encoded(pic, "PNG"))
    for name in FILTERS:
        for size in SIZES:
            out = pic.resize(size, getattr(Image.Resampling, name.upper()))
            rel = "resample/%s_%dx%d.png" % (name, *size)
            put(rel, encoded(out, "PNG", optimize=True))
            manifest["resample"].append({"interpolation": name, "size_wh": list(size), "rgb_png": rel})

    with Image.open(os.path.join(HERE, "edge/rgba.png")) as photo:
        rgba = photo.convert("RGBA").crop((20, 10, 63, 44))
    rgb = rgba.convert("RGB")
    indexed = rgb.quantize(16, dither=Image.Dither.NONE)
    upside = bytearray(encoded(rgb, "BMP"))
    upside[22:26] = (2**32 - rgb.height).to_bytes(4, "little")
    files = {
        "rgb.bmp": encoded(rgb, "BMP"),
        "top_down.bmp": bytes(upside),
        "rgba.bmp": encoded(rgba, "BMP"),
        "grey.bmp": encoded(rgb.convert("L"), "BMP"),
        "indexed.bmp": encoded(indexed, "BMP"),
        "bilevel.bmp": encoded(rgb.convert("1"), "BMP"),
        "indexed.gif": encoded(indexed, "GIF"),
        "grey.gif": encoded(rgb.convert("L"), "GIF"),
        "transparent.gif": encoded(indexed, "GIF", transparency=3),
        "animated.gif": encoded(indexed, "GIF", save_all=True, append_images=[indexed.rotate(180)]),
        "lossy.webp": encoded(rgb, "WEBP", quality=80),
        "lossless.webp": encoded(rgb, "WEBP", lossless=True),
        "lossy_alpha.webp": encoded(rgba, "WEBP", quality=80),
        "lossless_alpha.webp": encoded(rgba, "WEBP", lossless=True, exact=True),
        "animated.webp": encoded(rgb, "WEBP", save_all=True, append_images=[rgb.rotate(180)], quality=80),
    }
    files.update(deep_pngs())
    for name, raw in files.items():
        put("formats/" + name, raw)
        rel = "formats/expected/%s.png" % name.replace(".", "_")
        put(rel, encoded(Image.open(io.BytesIO(raw)).convert("RGB"), "PNG", optimize=True))
        manifest["formats"].append({"input": "formats/" + name, "rgb_png": rel})

    source = pattern(13, 9)
    put("float_bilinear/input.png", encoded(Image.fromarray(source), "PNG"))
    planes = torch.from_numpy(source).permute(2, 0, 1)[None].float() / 255
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    for width, height in [(26, 18), (7, 20)]:
        out = torch.nn.functional.interpolate(planes, size=(height, width), mode="bilinear", align_corners=False)[0]
        rel = "float_bilinear/%dx%d.npy" % (width, height)
        np.save(os.path.join(HERE, rel), ((out - mean) / std).permute(1, 2, 0).contiguous().numpy())
        manifest["float_bilinear"].append({"size_wh": [width, height], "normalised_hwc_npy": rel})

    put("extra.json", json.dumps(manifest, indent=1).encode() + b"\n")


main()
