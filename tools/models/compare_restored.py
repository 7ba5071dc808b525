"""Compares networks whose folded batch norms were restored with the original ones.

    python tools/models/compare_restored.py BINARY DATA IMAGES OUT.csv NAME=NETWORK ... [-- SETTINGS]

The first NETWORK is the original, the others files with `.norms.safetensors` beside them. For each: logits of 256 clean images with running and with
batch statistics, relative to the original's; Tent of 20 steps on two corruptions; a calibration on IMAGES clean images (`--quick`) and the combined
estimate of the source model on ten corruption cells of IMAGES images. One line of OUT.csv for each number, and at the end, for every NETWORK, how
far its estimates are from the original's. SETTINGS go to every command, such as `--device cuda`; without them each runs on one thread. Networks
are run beside each other. Needs numpy.
"""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

CELLS = "gaussian_noise shot_noise defocus_blur motion_blur snow fog brightness contrast pixelate jpeg_compression".split()
TENT = ["gaussian_noise", "fog"]


def main():
    args, _, settings = " ".join(sys.argv[1:]).partition(" -- ")
    settings = settings.split() or ["--threads", "1"]
    binary, data, images, out, *named = args.split()
    networks = dict(pair.split("=", 1) for pair in named)
    first = next(iter(networks))
    scratch = Path(tempfile.mkdtemp())
    # What a former run has written is not run again.
    lines = [line.split(",") for line in Path(out).read_text().splitlines()] if Path(out).exists() else []
    done = {(name, what) for name, what, *_ in lines}
    values = {(name, what, cell): float(value) for name, what, cell, value in lines}
    with open(out, "a") as table, ThreadPoolExecutor(len(networks)) as pool:

        def tell(name, what, cell, value):
            values[name, what, cell] = value
            print(name, what, cell, value, sep=",", file=table, flush=True)
            print(name, what, cell, value, flush=True)

        def run(*args):
            command = [binary, *args, *settings]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode > 1:
                raise SystemExit(f"{' '.join(command)}: {result.stderr}")
            return result.stdout

        def adapt(network, *args):
            return json.loads(run("adapt", "--model", network, "--seed", "1", "--batch-size", "64", "--json", *args))

        def adapted(name):
            """Logits by method, and the accuracy of Tent."""
            network, logits = networks[name], {}
            for method in ["source", "bn"]:
                file = scratch / f"{name}.{method}.npy"
                adapt(network, "--data", data, "--limit", "256", "--method", method, "--logits-out", str(file))
                logits[method] = np.load(file).astype(np.float64)
            for kind in TENT if (name, "tent accuracy") not in done else []:
                steps = ["--limit", "1280", "--method", "tent", "--steps", "20"]
                tell(name, "tent accuracy", f"{kind}:3", adapt(network, "--data", f"{data}@{kind}:3", *steps)["accuracy"])
            return logits

        def estimated(name):
            """The combined estimate of every cell, beside the truth."""
            if (name, "combined") in done:
                return
            network, calibration = networks[name], str(scratch / f"{name}.json")
            run("calibrate", "--model", network, "--data", data, "--limit", images, "--seed", "0", "--quick", "--out", calibration)
            cells = [part for kind in CELLS for part in ("--data", f"{data}@{kind}:3")]
            text = run("estimate", "--model", network, *cells, "--limit", images, "--seed", "1", "--calibration", calibration, "--json")
            for kind, line in zip(CELLS, text.splitlines(), strict=True):
                cell = json.loads(line)
                combined = cell["estimates"]["combined"]
                tell(name, "combined", f"{kind}:3", combined if isinstance(combined, float) else combined["accuracy"])
                tell(name, "truth", f"{kind}:3", cell["truth"])

        logits = dict(zip(networks, pool.map(adapted, networks)))
        for name, found in logits.items():
            for method, array in found.items() if (name, "logits bn relative L2") not in done else []:
                base = logits[first][method]
                tell(name, f"logits {method} relative L2", "clean", np.linalg.norm(array - base) / np.linalg.norm(base))
                tell(name, f"predictions {method} equal", "clean", (array.argmax(1) == base.argmax(1)).mean())
        list(pool.map(estimated, networks))
    for name in networks:
        apart = [100 * abs(values[name, "combined", f"{kind}:3"] - values[first, "combined", f"{kind}:3"]) for kind in CELLS]
        wrong = [100 * abs(values[name, "combined", f"{kind}:3"] - values[name, "truth", f"{kind}:3"]) for kind in CELLS]
        print(f"{name}: combined estimates are {np.mean(apart):.2f} points from the original's, at most {max(apart):.2f}; mean error {np.mean(wrong):.2f}")


if __name__ == "__main__":
    main()
