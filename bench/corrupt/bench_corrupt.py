#!/usr/bin/env python3
"""Times flipcast's corruptions next to the `imagecorruptions` package, in turns, on one core.

    python3 bench/corrupt/bench_corrupt.py [--venv DIR] [--rounds N] [--csv FILE]

Builds the release example `corrupt_bench`, makes a virtual environment with the pinned packages below
(once; needs a package index), and alternates the two programs on the golden 224 x 224 picture. Prints, per
corruption and severity, the best milliseconds of both and the ratio, then the totals of the 15 standard
corruptions. CPU clocks and neighbours change both sides alike only in the long run: use several rounds.

`imagecorruptions` 1.1.2 is the maintained stand-in for the published scripts. It needs numpy 1 and calls
scikit-image's `gaussian` with an argument that release 0.20 dropped; the child process translates it.
Its elastic_transform has other constants and no affine part, so that row compares different work.
"""
import argparse
import csv
import os
import subprocess
import sys
import venv
from pathlib import Path

PINS = [
    "numpy==1.26.4",
    "scipy==1.11.4",
    "scikit-image==0.20.0",
    "opencv-python-headless==4.8.1.78",
    "Pillow==9.5.0",
    "numba==0.59.1",
    "setuptools<81",
]
# Without its own dependencies: they would bring a second OpenCV.
PINS_ALONE = ["imagecorruptions==1.1.2"]
STANDARD = 15
ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "golden" / "corruptions" / "clean" / "astronaut_224.png"
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}

CHILD = r"""
import sys, time, warnings
warnings.filterwarnings("ignore")
import cv2, numpy as np
from PIL import Image
import imagecorruptions.corruptions as inner
from imagecorruptions import corrupt, get_corruption_names
from skimage.filters import gaussian

def translated(*args, multichannel=None, **kwargs):
    if multichannel:
        kwargs["channel_axis"] = -1
    return gaussian(*args, **kwargs)

inner.gaussian = translated
cv2.setNumThreads(1)
picture, repeats = np.array(Image.open(sys.argv[1])), int(sys.argv[2])
picture.tofile(sys.argv[3])
for name in get_corruption_names("all"):
    row = []
    for severity in range(1, 6):
        corrupt(picture, corruption_name=name, severity=severity)
        best = float("inf")
        # glass_blur takes about a second an image: once is enough.
        for _ in range(1 if name == "glass_blur" else repeats):
            start = time.perf_counter()
            corrupt(picture, corruption_name=name, severity=severity)
            best = min(best, time.perf_counter() - start)
        row.append("%.4f" % (best * 1e3))
    print(name, *row, flush=True)
"""


def run(command, **kwargs):
    return subprocess.run([str(c) for c in command], check=True, text=True, **kwargs)


def python_of(folder):
    """The interpreter of the environment with the pinned packages, made when missing."""
    python = folder / "bin" / "python"
    marker = folder / "pins.txt"
    wanted = "\n".join(PINS + PINS_ALONE)
    if not (marker.exists() and marker.read_text() == wanted):
        print("installing the pinned packages into", folder, file=sys.stderr)
        venv.create(folder, with_pip=True)
        run([python, "-m", "pip", "install", "--quiet", *PINS])
        run([python, "-m", "pip", "install", "--quiet", "--no-deps", *PINS_ALONE])
        marker.write_text(wanted)
    return python


def parse(text):
    rows = {}
    for line in text.splitlines():
        name, *values = line.split()
        if len(values) == 5:
            rows[name] = [float(v) for v in values]
    return rows


def keep_best(best, rows):
    for name, values in rows.items():
        old = best.get(name, [float("inf")] * 5)
        best[name] = [min(pair) for pair in zip(old, values)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--venv", type=Path, default=ROOT / "bench" / ".venv" / "corrupt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    python = python_of(args.venv)
    run(["cargo", "build", "--release", "-p", "flipcast-corrupt", "--example", "corrupt_bench"], cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    example = target / "release" / "examples" / "corrupt_bench"
    raw = args.venv / "picture.rgb"
    environment = dict(os.environ, **ONE_THREAD)
    ours, theirs = {}, {}
    for number in range(args.rounds):
        print("round", number + 1, "of", args.rounds, file=sys.stderr)
        child = run([python, "-c", CHILD, PICTURE, args.repeats, raw], capture_output=True, env=environment)
        keep_best(theirs, parse(child.stdout))
        bench = run([example, raw, 224, 224, "--repeats", args.repeats], capture_output=True, env=environment)
        keep_best(ours, parse(bench.stdout))
    print("%-20s %8s %10s %12s %8s" % ("corruption", "severity", "flipcast", "python", "ratio"))
    lines, below = [], []
    for name, values in ours.items():
        for severity, (mine, other) in enumerate(zip(values, theirs[name]), start=1):
            ratio = other / mine
            lines.append((name, severity, mine, other, ratio))
            if ratio < 3:
                below.append("%s:%d (%.2f)" % (name, severity, ratio))
            print("%-20s %8d %7.3f ms %9.3f ms %7.2fx" % lines[-1])
    print("\nmean over severities")
    for name, values in ours.items():
        print("%-20s %7.2fx" % (name, sum(theirs[name]) / sum(values)))
    standard = list(ours)[:STANDARD]
    totals = [sum(sum(table[name]) for name in standard) for table in (ours, theirs)]
    print("\n15 x 5 images: flipcast %.1f ms, python %.1f ms, ratio %.1f" % (*totals, totals[1] / totals[0]))
    print("below 3x:", ", ".join(below) or "none")
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["corruption", "severity", "flipcast_ms", "python_ms", "ratio"])
            writer.writerows(lines)


if __name__ == "__main__":
    main()
