"""Times RDumb steps of flipcast and PyTorch on one GPU, taking turns, and writes raw.csv and a table.

    cargo build --release -p flipcast-cuda --example step
    python3 bench/cuda/bench.py --ours target/release/examples/step --out bench/runs/<date>-<cpu>-<gpu>-cuda
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROWS = [
    ("resnet50", 1000, 64, 224),
    ("resnet18", 10, 64, 32),
    ("cifar_resnet26", 10, 64, 32),
    ("vit_b_16", 1000, 64, 224),
    ("mobilenet_v2", 1000, 64, 224),
]
HERE = Path(__file__).parent


class Worker:
    """A program that answers a count with the times of so many steps."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def steps(self, count):
        try:
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())["ms"]
        except (BrokenPipeError, json.JSONDecodeError):
            return []

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="the `step` example")
    parser.add_argument("--out", type=Path, required=True, help="folder for raw.csv and summary.md")
    parser.add_argument("--rows", nargs="*", help="only these networks")
    parser.add_argument("--precisions", nargs="*", default=["tf32", "bf16"])
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"], help="how PyTorch runs")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    lines = ["| network | batch | precision | flipcast | " + " | ".join(f"PyTorch {mode}" for mode in args.modes) + " | ratio |"]
    lines.append("|" + "---|" * (5 + len(args.modes)))
    with open(args.out / "raw.csv", "w", newline="") as file:
        raw = csv.writer(file)
        raw.writerow(["network", "precision", "program", "round", "ms"])
        for name, classes, batch, size in ROWS:
            if args.rows and name not in args.rows:
                continue
            for precision in args.precisions:
                row = [name, classes, batch, size, precision]
                row = [str(part) for part in row]
                workers = [Worker("flipcast", [args.ours, *row])]
                for mode in args.modes:
                    command = [sys.executable, str(HERE / "torch_worker.py"), *row, mode]
                    workers.append(Worker(mode, command))
                times = {worker.name: [] for worker in workers}
                for worker in workers:
                    worker.steps(5)
                for turn in range(args.rounds):
                    for worker in workers:
                        for ms in worker.steps(args.steps):
                            times[worker.name].append(ms)
                            raw.writerow([name, precision, worker.name, turn, f"{ms:.4f}"])
                for worker in workers:
                    worker.close()
                median = {key: statistics.median(of) if of else float("nan") for key, of in times.items()}
                best = median.get("eager", float("nan"))
                cells = [f"{median[key]:.2f} ms" for key in times]
                line = f"| {name} | {batch}x3x{size}x{size} | {precision} | " + " | ".join(cells)
                line += f" | {best / median['flipcast']:.2f}x |"
                lines.append(line)
                print(line, flush=True)
    (args.out / "summary.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
