#!/usr/bin/env python3
"""Times flipcast's corruptions next to the `imagecorruptions` package, in turns, on one core.

    python3 bench/corrupt/bench_corrupt.py --out bench/runs/NAME [--venv DIR] [--rounds 5] [--repeats 7] [--only NAME]

Builds the benchmark `corruptions` of `flipcast-corrupt` in release and makes a virtual environment with the pinned packages below (once; needs a
package index). Both programs stay alive and take turns at every corruption and severity of the golden 224 x 224 picture,
on the same core. A turn counts with the best of its repeats, since other work on the core only adds, and adds more often to
the slower program; a cell counts with the median of its turns. On a busy machine such ratios are still too high, so those
of the best times are given as well, and the load in README.md. Writes README.md, raw.csv and summary.md; without --out it only prints.

`imagecorruptions` 1.1.2 is the maintained stand-in for the published scripts; see imagecorruptions_worker.py.
"""
import argparse
import csv
import json
import os
import platform
import statistics
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
GOAL = 3.0
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PICTURE = ROOT / "golden" / "corruptions" / "clean" / "astronaut_224.png"
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}


def run(command):
    return subprocess.run([str(part) for part in command], cwd=ROOT, check=True, text=True, capture_output=True).stdout


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


def build():
    """The benchmark, in release."""
    told = run(["cargo", "build", "--release", "-p", "flipcast-corrupt", "--bench", "corruptions", "--message-format", "json"])
    built = [json.loads(line).get("executable") for line in told.splitlines() if line.startswith("{")]
    return Path([path for path in built if path][-1])


class Peer:
    """A program that answers `NAME SEVERITY REPEATS` with times in milliseconds."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, **ONE_THREAD))

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit("`%s` stopped" % self.process.args[0])
        return text.strip()

    def best(self, name, severity, repeats):
        self.process.stdin.write("%s %d %d\n" % (name, severity, repeats))
        self.process.stdin.flush()
        return min(float(ms) for ms in self.line().split())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(args, python, example):
    """The names in published order and (name, severity, round, flipcast ms, python ms) of every turn."""
    raw = args.venv / "picture.rgb"
    theirs = Peer([python, HERE / "imagecorruptions_worker.py", PICTURE, raw])
    names = [name for name in theirs.line().split() if args.only in (None, name)]
    ours = Peer([example, raw, 224, 224, "--serve"])
    rows = []
    for number in range(1, args.rounds + 1):
        print("round", number, "of", args.rounds, file=sys.stderr, flush=True)
        for name in names:
            for severity in range(1, 6):
                # glass_blur takes the package up to a second an image: once a round is enough.
                repeats = 1 if name == "glass_blur" else args.repeats
                mine = ours.best(name, severity, args.repeats)
                rows.append((name, severity, number, mine, theirs.best(name, severity, repeats)))
    ours.close()
    theirs.close()
    return names, rows


def cells(names, rows, choose):
    """Milliseconds of both by name and severity, as `choose` makes them of all turns."""
    def pick(name, severity, column):
        return choose(row[column] for row in rows if row[0] == name and row[1] == severity)

    return {name: [(pick(name, s, 3), pick(name, s, 4)) for s in range(1, 6)] for name in names}


def total(table, names):
    return tuple(sum(pair[i] for name in names for pair in table[name]) for i in (0, 1))


def ratios(names, table):
    """A table of ratios, and the totals."""
    lines = ["| corruption | severity 1 | 2 | 3 | 4 | 5 | all five | flipcast ms, all five |", "|---|---|---|---|---|---|---|---|"]
    below = []
    for name in names:
        row = [theirs / ours for ours, theirs in table[name]]
        below += ["`%s` %d (%.2f)" % (name, s, r) for s, r in enumerate(row, start=1) if r < GOAL]
        ours, theirs = total(table, [name])
        lines.append("| %s | %s | %.2f | %.2f |" % (name, " | ".join("%.2f" % r for r in row), theirs / ours, ours))
    lines += ["", "Below %g: %s." % (GOAL, ", ".join(below) or "none of the %d cells" % (5 * len(names)))]
    standard = names[:STANDARD]
    if len(standard) == STANDARD:
        ours, theirs = total(table, standard)
        lines += ["The 15 standard corruptions at five severities take %.1f ms here and %.1f ms there: %.1f times." % (
            ours, theirs, theirs / ours)]
        ours, theirs = total(table, [name for name in standard if name != "glass_blur"])
        lines += ["Without `glass_blur`, whose Python loop dominates that sum, %.1f ms and %.1f ms: %.1f times." % (
            ours, theirs, theirs / ours)]
    return lines + [""]


def summary(names, rows):
    lines = [
        "# Summary", "", "`imagecorruptions` over flipcast, one 224 x 224 picture, one thread each, same core.", "",
        "## Median over rounds of the best of a turn", "", *ratios(names, cells(names, rows, statistics.median)),
        "## Best of all turns", "", "The figures least moved by other work on the machine.", "",
        *ratios(names, cells(names, rows, min)),
    ]
    if "elastic_transform" in names:
        lines += ["`elastic_transform` is not like for like: the Python package does other, lighter work (no affine part, short",
                  "filters).", ""]
    return "\n".join(lines)


def readme(args):
    fields = {}
    if Path("/proc/cpuinfo").exists():
        pairs = (line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, value in pairs}
    arguments = ["--out", args.out.as_posix(), "--rounds", str(args.rounds), "--repeats", str(args.repeats)]
    arguments += ["--only", args.only] if args.only else []
    return "\n".join([
        "# Corruptions against `imagecorruptions`", "",
        "    python3 bench/corrupt/bench_corrupt.py " + " ".join(arguments), "",
        "At commit %s. CPU: %s, family %s model %s; both programs on core %s. %s." % (
            run(["git", "rev-parse", "--short=12", "HEAD"]).strip(), fields.get("model name", platform.processor()),
            fields.get("cpu family", "?"), fields.get("model", "?"), args.core, platform.platform()),
        "%s; Python %s with %s." % (
            run(["rustc", "--version"]).strip(), platform.python_version(), ", ".join(PINS[:-1] + PINS_ALONE)), "",
        "Load average over one minute: %.2f before, %.2f after. Other work makes ratios of medians too high." % args.load, "",
        "`raw.csv` has the best milliseconds of every turn: %d rounds over all cells, %d repeats a turn after one to warm up" % (
            args.rounds, args.repeats),
        "(1 for the Python side of `glass_blur`). `summary.md` has the ratios of the medians over rounds.", "",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for README.md, raw.csv and summary.md")
    parser.add_argument("--venv", type=Path, default=ROOT / "bench" / ".venv" / "corrupt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", help="this corruption alone")
    args = parser.parse_args()
    python, example = python_of(args.venv), build()
    args.core = "any"
    if hasattr(os, "sched_setaffinity"):
        args.core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {args.core})
    before = os.getloadavg()[0]
    names, rows = measure(args, python, example)
    args.load = (before, os.getloadavg()[0])
    text = summary(names, rows)
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        with open(args.out / "raw.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["corruption", "severity", "round", "flipcast_ms", "python_ms"])
            writer.writerows((name, s, n, "%.4f" % a, "%.4f" % b) for name, s, n, a, b in rows)
        (args.out / "summary.md").write_text(text)
        (args.out / "README.md").write_text(readme(args))


if __name__ == "__main__":
    main()
