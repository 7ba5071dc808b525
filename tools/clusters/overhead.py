"""Processor time of four shards, one after the other, over that of one run.

    python3 tools/clusters/overhead.py target/release/flipcast --out overhead                            # a study: tools/clusters/long.toml
    python3 tools/clusters/overhead.py target/release/flipcast --out overhead --images objects/folder    # one set of images, as check_objects.py makes it

One run and the shards take turns, `--rounds` times. With `--together` both run at the same time, so that other programs on the machine slow both alike. User and system seconds of every process go to
`study.csv` or `estimate.csv` in `--out` (with `-together`), a summary to standard output. Joined records are compared with those of the one run, times aside; exit code 1 where they differ.
"""

import argparse
import csv
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ASSETS = HERE.parents[1] / "crates/cli/assets/demo"
SHARDS = 4


def processor_seconds(words):
    """User and system seconds of one process."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    problem = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{words}: exit code {process.returncode}\n{problem}")
    return used.ru_utime, used.ru_stime


def study(args, out):
    """Command lines of one run and of its shards, and what compares their records."""
    words = [args.flipcast, "study", "run", args.plan, "--set", f"ASSETS={ASSETS}", "--threads", str(args.threads), "--progress", "never", "--out"]
    whole, parts = out / "whole", out / "parts"

    def is_equal():
        for folder in (whole, parts):
            subprocess.run([args.flipcast, "study", "merge", folder, "--out", f"{folder}.jsonl"], check=True, stdout=subprocess.DEVNULL)
        return subprocess.run([sys.executable, HERE / "compare.py", f"{whole}.jsonl", f"{parts}.jsonl", parts]).returncode == 0

    return [*words, whole], [[*words, parts, "--shard", f"{index}/{SHARDS}"] for index in range(1, SHARDS + 1)], is_equal


def estimate(args, out):
    """The same for an estimate of one set."""
    calibration = ["--calibration", ASSETS / "calibration.json"]
    words = [args.flipcast, "estimate", "--model", ASSETS / "resnet20.fashion_mnist.safetensors", *calibration, "--data", args.images]
    words += ["--threads", str(args.threads), "--progress", "never"]
    parts = [out / f"{index}.part" for index in range(1, SHARDS + 1)]
    shards = [[*words, "--shard", f"{index}/{SHARDS}", "--part", part] for index, part in enumerate(parts, 1)]

    def is_equal():
        # Which estimates are equal, and how near the others are, check_objects.py tells; here parts must join.
        return subprocess.run([args.flipcast, "estimate", "merge", *calibration, *parts], stdout=subprocess.DEVNULL).returncode == 0

    return words, shards, is_equal


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("flipcast", type=lambda path: pathlib.Path(path).resolve())
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    arguments.add_argument("--plan", type=pathlib.Path, default=HERE / "long.toml")
    arguments.add_argument("--images", type=pathlib.Path, help="a folder: measure `estimate --shard` in place of a study")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--together", action="store_true")
    args = arguments.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    name = ("estimate" if args.images else "study") + ("-together" if args.together else "")
    scratch = args.out / name
    rows, ratios, equal = [], [], True
    for number in range(1, args.rounds + 1):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        whole, shards, is_equal = (estimate if args.images else study)(args, scratch)
        sums = {}

        def take(what, commands):
            for index, words in enumerate(commands, 1):
                begun, load = time.time(), os.getloadavg()[0]
                user, system = processor_seconds(words)
                place = f"{index}/{len(commands)}"
                rows.append([number, what, place, f"{user:.2f}", f"{system:.2f}", f"{time.time() - begun:.1f}", f"{load:.1f}"])
                sums[what] = sums.get(what, 0.0) + user + system

        sides = [("whole", [whole]), ("shards", shards)]
        # The one that begins changes from round to round.
        runs = [threading.Thread(target=take, args=side) for side in (sides if number % 2 else sides[::-1])]
        for run in runs:
            run.start()
            if not args.together:
                run.join()
        for run in runs:
            run.join()
        if len(sums) < 2 or len([row for row in rows if row[0] == number]) != 1 + SHARDS:
            sys.exit("a run failed")
        equal &= is_equal()
        ratios.append(sums["shards"] / sums["whole"] - 1)
        print(f"round {number}: one run {sums['whole']:.2f} s, four shards {sums['shards']:.2f} s, {ratios[-1]:+.1%}", flush=True)
    with open(args.out / f"{name}.csv", "w", newline="") as file:
        csv.writer(file).writerows([["round", "what", "shard", "user_s", "system_s", "wall_s", "load_before"], *rows])
    held, broken = ("parts join", "PARTS DO NOT JOIN") if args.images else ("records are equal", "RECORDS DIFFER")
    print(f"median {statistics.median(ratios):+.1%}; {held if equal else broken}")
    sys.exit(not equal)


main()
