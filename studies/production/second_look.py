"""Tables of second_look.csv: how well the accuracy of both looks is told, and how often images are called unlike every known shift.

    python3 studies/production/second_look.py > studies/production/second_look.md

Needs Python 3.9 and nothing else."""

import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {"50": (50, 50), "100": (51, 100), "200, 300": (101, 300), "1,000": (301, 1000), "more": (1001, 10**9)}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def error(row, look):
    return 100 * abs(float(row[look + "estimate"]) - float(row[look + "truth"]))


def held(row, look):
    return 100 * (float(row[look + "low"]) <= float(row[look + "truth"]) <= float(row[look + "high"]))


def half_width(row, look):
    return 50 * (float(row[look + "high"]) - float(row[look + "low"]))


def main():
    networks = {}
    with open(HERE / "second_look.csv") as lines:
        for row in csv.DictReader(lines):
            networks.setdefault(row["file"].rsplit("-", 1)[0], []).append(row)
    for title, look in (("The source model", ""), ("The second look: the model under the statistics of the batch", "second_")):
        print(f"## {title}\n")
        print("Mean error in points by number of images; over all samples how often the 90% interval holds, its half width, and how often `unlike_known_shifts` is raised.\n")
        print("| network | samples | shifts | " + " | ".join(SIZES) + " | all | held | half width | unlike |")
        print("|---" * (len(SIZES) + 7) + "|")
        for network, rows in networks.items():
            by_size = [[row for row in rows if low <= int(row["images"]) <= high] for low, high in SIZES.values()]
            cells = [f"{mean(error(row, look) for row in some):.2f}" for some in by_size]
            shifts = len({row["shift"] for row in rows})
            unlike = 100 * mean("unlike_known_shifts" in row[look + "flags"] for row in rows)
            print(f"| {network} | {len(rows)} | {shifts} | " + " | ".join(cells) + f" | {mean(error(row, look) for row in rows):.2f} | {mean(held(row, look) for row in rows):.0f}% | "
                  f"{mean(half_width(row, look) for row in rows):.1f} | {unlike:.1f}% |")
        print()


if __name__ == "__main__":
    main()
