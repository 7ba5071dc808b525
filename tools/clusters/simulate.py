"""How long the paper's whole table and 100 million images would take on 1, 8 and 64 GPUs, by simulation from times that were measured here.

    python3 tools/clusters/simulate.py > studies/scale/README.md

Nothing in it was run on more than one GPU. Measured numbers are read from `bench/runs` and `studies`; what is assumed stands in ASSUMED, and the page says so.
"""

import csv
import json
import pathlib
import random
import re
import statistics

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPUS = [1, 8, 64]

ASSUMED = {
    "dollars per hour of a machine with one H200 and 16 cores": 4.0,
    "dollars for 1,000 GET requests": 0.0004,
    "dollars for 1,000 LIST requests": 0.005,
    "seconds for a page of 1,000 names": 0.15,
    "lists at once (as the program has it)": 8,
    "seconds until an object begins to arrive": 0.03,
    "objects asked for at once (as the program has it)": 64,
    "requests per second that the store answers, all machines together": 55_000,
    "seconds until a job has its machine, container and model": 90,
    "cores of a machine": 16,
    "bytes of an image": 110_000,
    "bytes per second of a machine's network": 1_250_000_000,
}

# The paper's rows: splits and images of each, as `crates/images/src/registry/table.rs` has them; 50,000 where it does not say.
ROWS = [
    ("imagenet-c", 75, 50_000), ("imagenet-c-bar", 50, 50_000), ("imagenet-3dcc", 60, 50_000), ("ccc", 27, 25_000),
    ("stylized-imagenet", 1, 50_000), ("imagenet-v2", 3, 10_000), ("imagenet-sketch", 1, 50_889), ("imagenet-r", 1, 30_000),
    ("imagenet-a", 1, 7_500), ("imagenet-d-real", 1, 97_095), ("imagenet-d-painting", 1, 39_556), ("imagenet-d-clipart", 1, 26_023),
    ("imagenet-d-sketch", 1, 37_066), ("imagenet-d-infograph", 1, 28_752), ("imagenet-d-quickdraw", 1, 90_500),
    ("imagenet-cartoon-drawing", 2, 50_000), ("imagenet-9", 8, 4_050), ("imagenet-c-patch", 75, 50_000), ("imagenet-hard", 1, 10_980),
    ("imagenet-patch", 10, 5_000), ("imagenet-obfuscations", 3, 50_000), ("objectnet", 1, 18_574), ("ninco", 1, 5_879),
]
CALIBRATION = [50_000] * 21
# Forward pass over whole step on a CPU: `bench/runs/2026-11-15-engine-zen4` and `-engine-transformers`, summary.md. A GPU's was not timed.
FORWARD_SHARE = {"resnet50": 2118.5 / 4313.5, "mobilenet_v2": 183.0 / 422.3, "vit_b_16": 1288.6 / 2679.4}
STEPS, BATCH, PROBE, SECOND_LOOK = 1000, 64, 1000, 1000


def measured():
    """Step times, decoding and what whole cells took beside bare steps."""
    times = {}
    for row in csv.DictReader((ROOT / "bench/runs/2026-11-15-cuda-h200-panels/raw.csv").open()):
        if row["program"] == "flipcast" and row["precision"] == "bf16":
            times.setdefault(row["network"], []).append(float(row["ms"]) / 1e3)
    step = {network: statistics.median(times[network]) for network in FORWARD_SHARE}
    summary = (ROOT / "bench/runs/2026-11-15-images/summary.md").read_text()
    decoded = float(re.search(r"normalise \| ([\d.]+)", summary)[1]) / 2
    # A study of 128 pixels on one H200, 11 cells at once: from the last calibration cell to the last estimate.
    created = {"calibrate": [], "estimate": []}
    for line in (ROOT / "studies/tiny_imagenet_resnet50/records.jsonl").open():
        record = json.loads(line)
        if record["kind"] in created:
            created[record["kind"]].append(record["created"])
    took = (max(created["estimate"]) - max(created["calibrate"])) / len(created["estimate"])
    bare = (128 / 224) ** 2 * (STEPS * step["resnet50"] + (5000 + 2 * PROBE) / BATCH * FORWARD_SHARE["resnet50"] * step["resnet50"])
    estimators = 0.89 / 2000  # processor seconds per image of 1,000 classes: bench/runs/2026-11-16-estimators-cpu-2
    return step, decoded, took, bare, estimators


STEP, DECODED, TOOK, BARE, ESTIMATORS = measured()
SLOWER = TOOK / BARE


def cell(network, images, factor):
    """Seconds of one cell: images are decoded once and kept, the network works meanwhile, estimators run beside the next cell."""
    forward = FORWARD_SHARE[network] * STEP[network] / BATCH
    cores = ASSUMED["cores of a machine"]
    decode = images / (DECODED * cores)
    passes = factor * (STEPS * STEP[network] + (images + 2 * PROBE + SECOND_LOOK) * forward)
    return max(decode + factor * STEPS * STEP[network], passes, images * ESTIMATORS / cores)


def table(gpus, factor, seed=0):
    """Hours of the paper's table: shards as `study run --shard I/N` cuts them, by model and then by a hash."""
    draw = random.Random(seed)
    units = []
    for network in sorted(STEP):
        own = [(network, images) for _, splits, images in ROWS for _ in range(splits)]
        draw.shuffle(own)
        units += own
    start = ASSUMED["seconds until a job has its machine, container and model"]
    cut = lambda part: part * len(units) // gpus
    parts = [units[cut(part) : cut(part + 1)] for part in range(gpus)]
    # Cells of a calibration are made by the shards that need them, each by whoever comes first.
    need = {network: sum(any(unit[0] == network for unit in part) for part in parts) for network in STEP}
    ends = []
    for part in parts:
        networks = {network for network, _ in part}
        calibrate = sum(sum(cell(network, images, factor) for images in CALIBRATION) / need[network] for network in networks)
        ends.append(start + calibrate + sum(cell(network, images, factor) for network, images in part))
    busy = sum(ends)
    return max(ends) / 3600, busy / 3600, len(units)


def large(gpus, factor, images=100_000_000, network="resnet50", list_once=False):
    """Hours of an estimate of so many images in an object store, and where the time of the slowest shard goes."""
    own = images / gpus
    pages = images / 1000
    listing = pages * ASSUMED["seconds for a page of 1,000 names"] / ASSUMED["lists at once (as the program has it)"]
    forward = factor * FORWARD_SHARE[network] * STEP[network] / BATCH
    rates = {
        "decoding": DECODED * ASSUMED["cores of a machine"],
        "the GPU": 1 / forward,
        "requests at once": ASSUMED["objects asked for at once (as the program has it)"] / ASSUMED["seconds until an object begins to arrive"],
        "the store": ASSUMED["requests per second that the store answers, all machines together"] / gpus,
        "the network": ASSUMED["bytes per second of a machine's network"] / ASSUMED["bytes of an image"],
    }
    bound = min(rates, key=rates.get)
    adapt = 25 * STEP[network] * factor + 4000 * forward
    merge = 20_000 * ESTIMATORS / ASSUMED["cores of a machine"] + 10
    start = ASSUMED["seconds until a job has its machine, container and model"]
    total = start + listing + own / rates[bound] + adapt + merge
    lists = (1 if list_once else gpus) * pages / 1000 * ASSUMED["dollars for 1,000 LIST requests"]
    gets = images / 1000 * ASSUMED["dollars for 1,000 GET requests"]
    # Listed once, only one machine is there meanwhile.
    hours = (total - listing) / 3600 * gpus + listing / 3600 if list_once else total / 3600 * gpus
    machines = hours * ASSUMED["dollars per hour of a machine with one H200 and 16 cores"]
    return total / 3600, listing / 3600, own / rates[bound] / 3600, bound, rates, machines, lists + gets


def main():
    hour = ASSUMED["dollars per hour of a machine with one H200 and 16 cores"]
    print("# Beyond these machines, on paper\n")
    print("Made by `python3 tools/clusters/simulate.py > studies/scale/README.md` from times measured on one H200 and on two CPU cores. **Nothing here was run on more than one GPU.**\n")
    print("## From what\n")
    print("| measured | value | where |\n|---|---|---|")
    for network, seconds in STEP.items():
        print(f"| step of `{network}`, 64 images of 224 pixels, `bf16` | {1e3 * seconds:.2f} ms | `bench/runs/2026-11-15-cuda-h200-panels` |")
    print(f"| JPEG of 500 x 375 pixels to a network's input, one core | {DECODED:.0f} images/s | `bench/runs/2026-11-15-images` |")
    print(f"| all estimators, 1,000 classes | {1e3 * ESTIMATORS:.2f} ms of one core per image | `bench/runs/2026-11-16-estimators-cpu-2` |")
    print(f"| a whole cell of `resnet50` at 128 pixels, RDumb 1,000 steps, 11 at once | {TOOK:.1f} s | records of `studies/tiny_imagenet_resnet50` |")
    print(f"| the same by bare steps, in proportion to the pixels | {BARE:.1f} s | computed |")
    print(f"\nSo whole cells took {SLOWER:.1f} times what their bare steps take. Every time below is given twice: by bare steps, and {SLOWER:.1f} times as slow.\n")
    print("| assumed | value |\n|---|---|")
    for name, value in ASSUMED.items():
        print(f"| {name} | {value:,} |" if value >= 1 else f"| {name} | {value} |")
    print("\nA forward pass takes the share of a step that it takes on a CPU (0.43 to 0.49). Images of a cell are decoded once and kept (`--memory`, 15 GB at most). Estimators are taken as linear in the images.\n")

    _, _, cells = table(1, 1.0)
    images = sum(splits * count for _, splits, count in ROWS)
    print("## The paper's table\n")
    print(f"23 datasets with {sum(splits for _, splits, _ in ROWS)} splits and {images / 1e6:.1f} million images, 3 networks (`{'`, `'.join(sorted(STEP))}`), RDumb with 1,000 steps: {cells} cells and {3 * len(CALIBRATION)} of calibrations.\n")
    print("| GPUs | hours | GPU hours | dollars | of linear |\n|---|---|---|---|---|")
    alone = [table(1, factor)[0] for factor in (1.0, SLOWER)]
    for gpus in GPUS + [326]:
        fast, slow = table(gpus, 1.0), table(gpus, SLOWER)
        share = [alone[0] / gpus / fast[0], alone[1] / gpus / slow[0]]
        print(f"| {gpus} | {fast[0]:.2f} to {slow[0]:.2f} | {gpus * fast[0]:.1f} to {gpus * slow[0]:.1f} | {hour * gpus * fast[0]:.0f} to {hour * gpus * slow[0]:.0f} | {100 * share[0]:.0f}% to {100 * share[1]:.0f}% |")
    print("\nWhat ends it: shards are equal in cells, not in seconds, and a job takes its 90 seconds to start whatever it does. Beyond some 64 GPUs a shard has 15 cells or fewer, and starting, calibration cells and the")
    print("largest split take most of its time. Cells themselves are not split: with one GPU a cell nothing is left to gain.\n")

    print("## 100 million images\n")
    print("`flipcast estimate --data s3://... --shard I/N` with `resnet50`, then `flipcast estimate merge`.\n")
    print("| GPUs | hours | of these listing | looking | held back by | dollars, machines | dollars, requests |\n|---|---|---|---|---|---|---|")
    for gpus in GPUS:
        fast, slow = large(gpus, 1.0), large(gpus, SLOWER)
        bound = fast[3] if fast[3] == slow[3] else f"{fast[3]} or {slow[3]}"
        span = lambda one, two: f"{one:.2f}" if f"{one:.2f}" == f"{two:.2f}" else f"{one:.2f} to {two:.2f}"
        print(f"| {gpus} | {span(fast[0], slow[0])} | {fast[1]:.2f} | {span(fast[2], slow[2])} | {bound} | {fast[5]:.0f} | {fast[6]:.0f} |")
    rates = large(1, 1.0)[4]
    print("\nImages per second of one machine, by what could hold it back: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()) + f"; the GPU {large(1, SLOWER)[4]['the GPU']:,.0f} at the slower pace.\n")
    print("What ends it: every shard needs the names of all images, since only the whole list tells that no shard lost one. Where every shard lists them itself, as in the table, that time does not shrink with more shards: at 64 GPUs it is")
    each64, once64 = large(64, 1.0), large(64, 1.0, list_once=True)
    print(f"{100 * each64[1] / each64[0]:.0f}% of all. `flipcast data objects` lists them once, before the shards start: the hours stay, but one machine lists instead of 64, and 64 GPUs cost {once64[5]:.0f} dollars and {once64[6]:.0f} for requests instead of {each64[5]:.0f} and {each64[6]:.0f}. What shards take to read a list of")
    print("100 million lines was not measured and is not in it. The list is also held in memory: about 90 bytes beside the name for each image, and as much again while it is made, so 10 to 25 GB for 100 million in every process (counted from the types, not measured). In practice such a set is cut by prefix first (one estimate for each month or camera), which lists each name once, and all prefixes at the same time.\n")
    print("The estimate does not get better with more images: it is made from a sample of 20,000 whatever their number, and its interval is that of 20,000 images. What all 100 million give exactly is how often each class is answered, the mean confidence,")
    print("and how many cannot be read. Whoever needs the estimate alone asks for `#sample:20000`, which costs a listing and 20,000 requests.")


main()
