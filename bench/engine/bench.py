"""Measures flipcast and PyTorch on the same networks, in one run, in turns, on the same threads.

    python3 bench/engine/bench.py --out bench/runs/NAME

Installs PyTorch into bench/.venv when it is not there, builds flipcast, and then, row by row and round by round, starts
each peer in a process of its own. PyTorch is tried in both memory layouts; the faster one is measured further, with the
C library's default allocator and with one told to keep its memory. Writes README.md, raw.csv and summary.md; with
`--add`, rows join those that are there, so that a busy machine need be quiet for one row at a time.
"""

import argparse
import csv
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = HERE.parent / ".venv"

# Name, architecture, classes, batch, side of an image, goal for the ratio of step times.
ROWS = [
    ("ResNet-26 w16, 64 x 3 x 32 x 32", "cifar_resnet26", 100, 64, 32, 2.5),
    ("ResNet-26 w64, 64 x 3 x 32 x 32", "cifar_resnet26_w64", 100, 64, 32, 2.5),
    ("WRN-40-2, 64 x 3 x 32 x 32", "wrn_40_2", 100, 64, 32, 2.5),
    ("ResNet-18, 16 x 3 x 224 x 224", "resnet18", 1000, 16, 224, 1.6),
    ("ResNet-50, 16 x 3 x 224 x 224", "resnet50", 1000, 16, 224, 1.6),
    ("ResNet-50, 64 x 3 x 224 x 224", "resnet50", 1000, 64, 224, 1.6),
    ("MobileNetV2, 32 x 3 x 224 x 224", "mobilenet_v2", 1000, 32, 224, 3.0),
    ("ViT-B/16, 8 x 3 x 224 x 224", "vit_b_16", 1000, 8, 224, 1.5),
    ("MaxViT-T, 4 x 3 x 224 x 224", "maxvit_t", 1000, 4, 224, 1.5),
]

# glibc returns large blocks to the system at every free unless it is told to keep them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}


def python_with_torch():
    """The interpreter of the virtual environment, made on first use."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "torchvision"], check=True)
    return str(python)


def build():
    """The release binary."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "flipcast-cli"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "flipcast")


def run(command, environment=None):
    """One measured process; its last line is a JSON object."""
    output = subprocess.run(
        [str(part) for part in command],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    return json.loads(output.stdout.strip().splitlines()[-1])


def measure(row, args, python, binary):
    """All rounds of one row: a list of (peer, round, result)."""
    _, model, classes, batch, size, _ = row
    shape = ["--model", model, "--classes", classes, "--batch", batch, "--size", size, "--threads", args.threads]
    counts = ["--warmup", 1, "--repeat", args.repeat]
    results = []

    def flipcast():
        return run([binary, "bench", "--json", *shape, *counts])

    def torch(layout, environment=None):
        worker = [python, HERE / "torch_worker.py", "--layout", layout, *shape, *counts]
        return run(worker, {"OMP_NUM_THREADS": str(args.threads), **(environment or {})})

    layouts = {}
    for layout in ("nchw", "channels_last"):
        layouts[layout] = torch(layout)
        results.append((f"torch {layout}", 0, layouts[layout]))
    best = min(layouts, key=lambda layout: statistics.median(layouts[layout]["step_ms"]))
    for number in range(1, args.rounds + 1):
        results.append(("flipcast", number, flipcast()))
        results.append((f"torch {best}", number, torch(best)))
        results.append((f"torch {best}, memory kept", number, torch(best, KEEP_MEMORY)))
    return best, results


def times(results, peer, key, first_round=1):
    """Every measured time of a peer from a round on."""
    return [ms for name, number, result in results if name == peer and number >= first_round for ms in result[key]]


def summarise(row, best, results):
    """The table row, and the ratio of median step times."""
    name, *_, goal = row
    ours, theirs, kept = "flipcast", f"torch {best}", f"torch {best}, memory kept"
    median = lambda peer, key: statistics.median(times(results, peer, key))
    rss = lambda peer: max(r["peak_rss_bytes"] for n, k, r in results if n == peer and k >= 1) / 2**20
    own = [result for peer, _, result in results if peer == ours]
    peak = max(result["fma_peak_gflops"] for result in own)
    step, forward = median(ours, "step_ms"), median(ours, "forward_ms")
    rate = own[0]["step_gflop"] / step * 1e3
    ratio = median(theirs, "step_ms") / step
    cells = [
        name,
        best,
        f"{median(theirs, 'forward_ms'):.1f} / {forward:.1f}",
        f"{median(theirs, 'step_ms'):.1f} / {step:.1f}",
        f"{median(theirs, 'forward_ms') / forward:.2f}",
        f"**{ratio:.2f}**",
        f"{median(kept, 'step_ms') / step:.2f}",
        f"{goal:.1f}",
        f"{rate:.0f} of {peak:.0f} ({100 * rate / peak:.0f}%)",
        f"{rss(theirs):.0f} / {rss(ours):.0f} ({rss(ours) / rss(theirs):.2f})",
        f"{rss(kept):.0f} ({rss(ours) / rss(kept):.2f})",
    ]
    return cells


HEADER = [
    "row",
    "PyTorch's better layout",
    "forward ms, PyTorch / flipcast",
    "step ms, PyTorch / flipcast",
    "forward ratio",
    "step ratio",
    "step ratio, PyTorch keeping memory",
    "goal",
    "step GFLOP/s of FMA peak",
    "peak MiB, PyTorch / flipcast (ratio)",
    "PyTorch keeping memory MiB (ratio)",
]


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for README.md, raw.csv and summary.md")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3, help="turns per row")
    parser.add_argument("--repeat", type=int, default=3, help="timed steps per turn")
    parser.add_argument("--only", help="measure only rows whose name matches this regular expression")
    parser.add_argument("--python", help="interpreter that has torch and torchvision")
    parser.add_argument("--binary", help="the flipcast to measure, instead of one built here")
    parser.add_argument("--add", action="store_true", help="add rows to the files of an earlier run")
    args = parser.parse_args()

    python, binary = args.python or python_with_torch(), args.binary or build()
    args.out.mkdir(parents=True, exist_ok=True)
    lines, torch_version, isa = [], "", ""
    with open(args.out / "raw.csv", "a" if args.add else "w", newline="") as file:
        raw = csv.writer(file)
        if file.tell() == 0:
            raw.writerow(["row", "peer", "round", "forward_ms", "step_ms", "peak_rss_bytes"])
        for row in ROWS:
            if args.only and not re.search(args.only, row[0]):
                continue
            best, results = measure(row, args, python, binary)
            for peer, number, result in results:
                torch_version = result.get("torch", torch_version)
                isa = result.get("isa", isa)
                for forward, step in zip(result["forward_ms"], result["step_ms"]):
                    raw.writerow([row[0], peer, number, f"{forward:.3f}", f"{step:.3f}", result["peak_rss_bytes"]])
            file.flush()
            lines.append(summarise(row, best, results))
            print(" | ".join(lines[-1]), flush=True)
    summary = args.out / "summary.md"
    if not (args.add and summary.exists()):
        summary.write_text("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER) + "\n")
    with open(summary, "a") as file:
        file.writelines("| " + " | ".join(cells) + " |\n" for cells in lines)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    only = f" --only '{args.only}'" if args.only else ""
    (args.out / "README.md").write_text(
        f"# Engine against PyTorch, {time.strftime('%Y-%m-%d')}\n\n"
        f"Command: `python3 bench/engine/bench.py --out {args.out} --threads {args.threads} --rounds {args.rounds}"
        f" --repeat {args.repeat}{only}`, at commit {commit[:12]}.\n\n"
        f"CPU: {cpu_name()}, {args.threads} threads. flipcast uses {isa}; PyTorch is {torch_version}.\n\n"
        "Step: forward, entropy loss, backward to the norm layers' scales and shifts, SGD; weights frozen, batch statistics,\n"
        "random weights and images. Times are medians over all rounds; peers take turns, each in a fresh process with one\n"
        "step of warm-up. PyTorch's layout is the faster of NCHW and channels-last in round 0. 'Memory kept' sets\n"
        f"{', '.join(f'`{k}={v}`' for k, v in KEEP_MEMORY.items())}; otherwise the C library's defaults hold.\n"
        "Peak memory is the resident set of the whole process (`VmHWM`, `ru_maxrss`). GFLOP/s count the operations of the\n"
        "direct convolution, so Winograd can pass the machine's multiply-add peak, which is measured beside it.\n"
    )


if __name__ == "__main__":
    main()
