#!/usr/bin/env python3
"""Loading speed next to torchvision on the same cores, in turns, in one run.

    python3 bench/images/bench_loader.py --out bench/runs/NAME [--python PYTHON] [--threads 2] [--images 512] [--rounds 7]

Installs PyTorch into bench/.venv when it is not there (or uses the interpreter given), builds the example `load_bench`,
makes 500 x 375 JPEGs, and alternates the example with a torchvision DataLoader of as many worker processes as the example
has threads: decode, Resize 256, CenterCrop 224, to floats, Normalize, batches of 64. Writes README.md, raw.csv and
summary.md. Without --out it only prints.
"""
import argparse
import csv
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = HERE.parent / ".venv"
GOAL = 1.5


def python_with_torch():
    """The interpreter of the virtual environment, made on first use."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "torchvision"], check=True)
    return str(python)


def build():
    """The program, in release."""
    command = ["cargo", "build", "--release", "--quiet", "-p", "flipcast-lab", "--bin", "load_bench"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "load_bench")


class Worker:
    """The torchvision side, in a process that stays, so that starting it is not part of any time."""

    def __init__(self, python, folder, images, threads):
        command = [python, HERE / "torchvision_worker.py", folder, images, threads]
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.versions = self.line()

    def line(self):
        text = self.process.stdout.readline().strip()
        if not text:
            raise SystemExit("the torchvision worker stopped")
        return text

    def rate(self):
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return float(self.line())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def example_rate(example, folder, threads):
    """The second of two passes, so that both sides have the files cached and the workers running."""
    out = subprocess.run([example, folder, str(threads), "2"], check=True, capture_output=True, text=True).stdout
    return float(out.splitlines()[-1].split()[0])


def version(command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def cpu():
    """The processor as Linux names it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    name = fields.get("model name", platform.processor())
    return "%s, family %s model %s" % (name, fields.get("cpu family", "?"), fields.get("model", "?"))


def measure(options, example, python):
    """Versions, kilobytes per file and the rates of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(python, folder, options.images, options.threads)
        files = [path for path in Path(folder).rglob("*.jpg")]
        kilobytes = sum(path.stat().st_size for path in files) / len(files) / 1e3
        rows = []
        for number in range(1, options.rounds + 1):
            rows.append((number, example_rate(example, folder, options.threads), worker.rate()))
            print("round %d: flipcast %.1f images/s, torchvision %.1f images/s" % rows[-1], flush=True)
        worker.close()
    return worker.versions, kilobytes, rows


def summary(options, rows):
    ours, theirs = [row[1] for row in rows], [row[2] for row in rows]
    ratios = [a / b for a, b in zip(ours, theirs)]
    return "\n".join([
        "# Summary",
        "",
        "Images per second, medians over %d rounds in turns; %d threads against %d worker processes." % (
            len(rows), options.threads, options.threads),
        "",
        "| | flipcast | torchvision | ratio | lowest and highest ratio of a round |",
        "|---|---|---|---|---|",
        "| decode, resize 256, crop 224, normalise | %.1f | %.1f | %.2f | %.2f, %.2f |" % (
            statistics.median(ours), statistics.median(theirs), statistics.median(ratios), min(ratios), max(ratios)),
        "",
        "Goal: %.1f. %s" % (GOAL, "Reached." if statistics.median(ratios) >= GOAL else "Missed."),
        "",
    ])


def readme(options, versions, kilobytes):
    arguments = " ".join(["--out", options.out.as_posix(), "--threads", str(options.threads), "--images",
                          str(options.images), "--rounds", str(options.rounds)])
    return "\n".join([
        "# Loading against torchvision",
        "",
        "    python3 bench/images/bench_loader.py " + arguments,
        "",
        "At commit %s. CPU: %s. %s." % (version(["git", "rev-parse", "--short=12", "HEAD"]), cpu(), platform.platform()),
        "%s; %s." % (version(["rustc", "--version"]), versions),
        "",
        "%d made-up JPEGs of 500 x 375 pixels, %.1f KB each, all in the file cache. `raw.csv` has the images per second of" % (
            options.images, kilobytes),
        "every round: one pass of a started `load_bench` (%d threads), then one of a started DataLoader (%d worker" % (
            options.threads, options.threads),
        "processes, which stay alive, one torch thread each).",
        "",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for README.md, raw.csv and summary.md")
    parser.add_argument("--python", help="interpreter that has torch and torchvision")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    example, python = build(), options.python or python_with_torch()
    versions, kilobytes, rows = measure(options, example, python)
    text = summary(options, rows)
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        with open(options.out / "raw.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["round", "flipcast_images_per_s", "torchvision_images_per_s"])
            writer.writerows(rows)
        (options.out / "summary.md").write_text(text)
        (options.out / "README.md").write_text(readme(options, versions, kilobytes))


if __name__ == "__main__":
    main()
