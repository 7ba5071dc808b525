"""Times RDumb steps of flipcast and PyTorch on one GPU, taking turns, and writes raw.csv and a table.

    cargo build --release -p flipcast-lab --bin cuda_step
    python3 bench/cuda/ceilings.py --out bench/runs/<date>-cuda-<gpu>/ceilings.json
    python3 bench/cuda/bench.py --ours target/release/cuda_step --out bench/runs/<date>-cuda-<gpu>

Network by network, flipcast's are made one after the other, since each times its kernels then; PyTorch's start together. Then the programs of
a row take turns, while the others wait. Bytes are what the steps of flipcast's plan read and write if each takes every operand once, and
operations are those of its convolutions and linear layers; both are set against what the GPU was found to do at most.
"""

import argparse
import csv
import json
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
WARM_UP = 5


class Worker:
    """A program that answers a count with the times of so many steps."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, count):
        try:
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def answer(self):
        try:
            return json.loads(self.process.stdout.readline())
        except json.JSONDecodeError:
            return {"ms": []}

    def steps(self, count):
        self.ask(count)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Row:
    """A network in a precision, with the programs that run it."""

    def __init__(self, network, precision, args):
        self.network, self.precision = network, precision
        self.words = [str(word) for word in (*network, precision)]
        self.workers = [Worker("flipcast", [args.ours, *self.words])]
        self.counts = self.workers[0].steps(WARM_UP)

    def start(self, modes):
        for mode in modes:
            command = [sys.executable, str(HERE / "torch_worker.py"), *self.words, mode]
            self.workers.append(Worker(mode, command))
            self.workers[-1].ask(WARM_UP)

    def wait(self):
        """Until every program has warmed up."""
        for worker in self.workers[1:]:
            worker.answer()

    def close(self):
        for worker in self.workers:
            worker.close()

    def measure(self, args, raw):
        """Median milliseconds by program."""
        times = {worker.name: [] for worker in self.workers}
        for turn in range(args.rounds):
            for worker in self.workers:
                for ms in worker.steps(args.steps)["ms"]:
                    times[worker.name].append(ms)
                    raw.writerow([self.network[0], self.precision, worker.name, turn, f"{ms:.4f}"])
        return {key: statistics.median(of) if of else float("nan") for key, of in times.items()}

    def line(self, median, ceilings):
        name, _, batch, size = self.network
        cells = [name, f"{batch}x3x{size}x{size}", self.precision, *(f"{ms:.2f} ms" for ms in median.values())]
        cells.append(f"{median.get('eager', float('nan')) / median['flipcast']:.2f}x")
        seconds = median["flipcast"] * 1e-3
        most = {"bytes": "copy_bytes_per_s", "flops": f"{self.precision}_flops_per_s"}
        for what, unit in [("bytes", "TB/s"), ("flops", "TFLOP/s")]:
            rate = self.counts.get(what, float("nan")) / seconds
            share = f" ({rate / ceilings[most[what]]:.0%})" if most[what] in ceilings else ""
            cells.append(f"{rate * 1e-12:.2f} {unit}{share}")
        return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="the `step` example")
    parser.add_argument("--out", type=Path, required=True, help="folder for raw.csv and summary.md; ceilings.json is read from there")
    parser.add_argument("--rows", nargs="*", help="only these networks")
    parser.add_argument("--precisions", nargs="*", default=["tf32", "bf16"])
    parser.add_argument("--modes", nargs="*", default=["eager", "compile", "reduce-overhead"], help="how PyTorch runs")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = args.out / "ceilings.json"
    ceilings = json.loads(found.read_text()) if found.exists() else {}
    heads = ["network", "batch", "precision", "flipcast", *(f"PyTorch {mode}" for mode in args.modes), "ratio", "bytes", "operations"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    networks = [row for row in ROWS if not args.rows or row[0] in args.rows]
    with open(args.out / "raw.csv", "w", newline="") as file:
        raw = csv.writer(file)
        raw.writerow(["network", "precision", "program", "round", "ms"])
        for network in networks:
            rows = [Row(network, precision, args) for precision in args.precisions]
            for row in rows:
                row.start(args.modes)
            for row in rows:
                row.wait()
            for row in rows:
                lines.append(row.line(row.measure(args, raw), ceilings))
                print(lines[-1], flush=True)
                file.flush()
                (args.out / "summary.md").write_text("\n".join(lines) + "\n")
            for row in rows:
                row.close()


if __name__ == "__main__":
    main()
