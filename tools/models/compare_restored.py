"""Compares networks whose folded batch norms were restored with the original ones.

    python tools/models/compare_restored.py BINARY DATA IMAGES OUT.csv NAME=NETWORK ...

The first NETWORK is the original, the others files with `.norms.safetensors` beside them. For each: logits of 256 clean images with running and with
batch statistics, relative to the original's; Tent of 20 steps on two corruptions; a calibration on IMAGES clean images (`--quick`) and the combined
estimate of the source model on ten corruption cells of IMAGES images. One line of OUT.csv for each number, each run on one thread. Needs numpy.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CELLS = "gaussian_noise shot_noise defocus_blur motion_blur snow fog brightness contrast pixelate jpeg_compression".split()
TENT = ["gaussian_noise", "fog"]


def main():
    binary, data, images, out, *named = sys.argv[1:]
    networks = dict(pair.split("=", 1) for pair in named)
    first = next(iter(networks))
    scratch = Path(tempfile.mkdtemp())
    # What a former run has written is not run again.
    done = {tuple(line.split(",")[:2]) for line in Path(out).read_text().splitlines()} if Path(out).exists() else set()
    with open(out, "a") as table:

        def tell(*fields):
            print(*fields, sep=",", file=table, flush=True)
            print(*fields, flush=True)

        def run(*args):
            command = [binary, *args, "--threads", "1"]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode > 1:
                sys.exit(f"{' '.join(command)}: {result.stderr}")
            return result.stdout

        def adapt(network, *args):
            return json.loads(run("adapt", "--model", network, "--seed", "1", "--batch-size", "64", "--json", *args))

        logits = {}
        for name, network in networks.items():
            for method in ["source", "bn"]:
                file = scratch / f"{name}.{method}.npy"
                adapt(network, "--data", data, "--limit", "256", "--method", method, "--logits-out", str(file))
                logits[name, method] = found = np.load(file).astype(np.float64)
                base = logits[first, method]
                tell(name, f"logits {method} relative L2", "clean", np.linalg.norm(found - base) / np.linalg.norm(base))
                tell(name, f"predictions {method} equal", "clean", (found.argmax(1) == base.argmax(1)).mean())
            for kind in TENT if (name, "tent accuracy") not in done else []:
                steps = ["--limit", "1280", "--method", "tent", "--steps", "20"]
                tell(name, "tent accuracy", f"{kind}:3", adapt(network, "--data", f"{data}@{kind}:3", *steps)["accuracy"])
        for name, network in networks.items():
            if (name, "combined") in done:
                continue
            calibration = str(scratch / f"{name}.json")
            run("calibrate", "--model", network, "--data", data, "--limit", images, "--seed", "0", "--quick", "--out", calibration)
            for kind in CELLS:
                cell = run("estimate", "--model", network, "--data", f"{data}@{kind}:3", "--limit", images, "--seed", "1", "--calibration", calibration, "--json")
                cell = json.loads(cell)
                combined = cell["source"]["estimates"]["combined"] if "source" in cell else cell["estimates"]["combined"]
                tell(name, "combined", f"{kind}:3", combined if isinstance(combined, float) else combined["accuracy"])
                tell(name, "truth", f"{kind}:3", cell["truth"] if "truth" in cell else cell["source"]["truth"])


if __name__ == "__main__":
    main()
