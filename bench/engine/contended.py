"""Times adaptation steps while other processes compute, for one or more flipcast binaries in turns.

    python3 bench/engine/contended.py --out bench/runs/NAME before=path/to/flipcast after=path/to/flipcast

Loads are busy loops: none, one on core 1, one on each core, one that the system may place. For every run it is noted how much of the
machine other processes took, busy loops aside, and runs with more than `--foreign` of a core are left out of the table. Writes contended.csv and
contended.md.
"""

import argparse
import collections
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Name, arguments of `flipcast bench`.
NETWORKS = {
    "ResNet-26 w16, 64 x 3 x 32 x 32": ["cifar_resnet26", 100, 64, 32, 20],
    "ResNet-50, 16 x 3 x 224 x 224": ["resnet50", 1000, 16, 224, 3],
    "MobileNetV2, 32 x 3 x 224 x 224": ["mobilenet_v2", 1000, 32, 224, 3],
}
LOADS = {"alone": [], "core 1": [1], "both cores": [0, 1], "anywhere": [None]}
BUSY = [sys.executable, "-c", "while True: pass"]
TICKS = os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Processor time of all processes so far."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[i]) for i in (0, 1, 2, 5, 6)) / TICKS


def process_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(binary, arguments, busy):
    """Step times, and the cores that others used meanwhile."""
    model, classes, batch, size, repeat = arguments
    command = [binary, "bench", "--json", "--model", model, "--classes", classes, "--batch", batch, "--size", size]
    seconds = lambda: machine_seconds() - children_seconds() - sum(map(process_seconds, busy))
    before, start = seconds(), time.monotonic()
    output = subprocess.run(
        [str(part) for part in [*command, "--threads", 2, "--warmup", 1, "--repeat", repeat]],
        check=True, stdout=subprocess.PIPE, text=True,
    )
    foreign = (seconds() - before) / (time.monotonic() - start)
    return json.loads(output.stdout.strip().splitlines()[-1])["step_ms"], foreign


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", metavar="NAME=BINARY")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--foreign", type=float, default=0.35, help="most of a core that others may have")
    parser.add_argument("--only", default="", help="networks whose names hold this")
    args = parser.parse_args()
    binaries = dict(binary.split("=", 1) for binary in args.binaries)
    steps, dropped = collections.defaultdict(list), 0
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "contended.csv", "a", newline="") as file:
        raw = csv.writer(file)
        if file.tell() == 0:
            raw.writerow(["network", "load", "binary", "round", "foreign_cores", "step_ms"])
        for number in range(1, args.rounds + 1):
            for network, arguments in NETWORKS.items():
                if args.only not in network:
                    continue
                for load, cores in LOADS.items():
                    pinned = [[] if core is None else ["taskset", "-c", str(core)] for core in cores]
                    busy = [subprocess.Popen([*pin, *BUSY]) for pin in pinned]
                    for name, binary in binaries.items():
                        times, foreign = measure(binary, arguments, busy)
                        for ms in times:
                            raw.writerow([network, load, name, number, f"{foreign:.2f}", f"{ms:.3f}"])
                        file.flush()
                        if foreign > args.foreign:
                            dropped += 1
                        else:
                            steps[network, load, name] += times
                    for process in busy:
                        process.kill()
                        process.wait()
    names = list(binaries)
    lines = ["| network | load | " + " | ".join(names) + " |", "|" + "---|" * (2 + len(names))]
    for network, load in dict.fromkeys((network, load) for network, load, _ in steps):
        cells = [steps[network, load, name] for name in names]
        cells = [f"{statistics.median(times):.1f}" if times else "-" for times in cells]
        lines.append(f"| {network} | {load} | " + " | ".join(cells) + " |")
    lines.append(f"\nMedian step, ms. {dropped} runs were left out, during which other processes had more than {args.foreign} of a core.")
    with open(args.out / "contended.md", "a") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
