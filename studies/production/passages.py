"""Would a smooth passage between the two regressions do better than the test of shares? Tried on the committed samples, without a network.

The estimate is `any + w (usual - any)`. Today `w` is 1/2 where the test allows the labelled images' shares and 0 elsewhere. Here `w = 1/2 / (1 + (d / s)^2)`
with `d` what the two differ by and `s` a width in points: everywhere (`smooth`), or only where the test allows (`both`). Mean errors and the largest, in points.

    python3 passages.py > passages.md
"""

import csv
from pathlib import Path

WIDTHS = [3, 6, 10, 15, 25]
USUAL = {"balanced", "sample"}


def read(path):
    with open(path) as file:
        rows = [row for row in csv.DictReader(file) if row["order"] == "drawn"]
    return [
        {
            "truth": float(row["truth"]),
            "step": float(row["estimate"]),
            "any": float(row["any_shares"]),
            "usual": float(row["usual_shares"]),
            "allowed": "class_marginal_mismatch" not in row["flags"],
            "has_usual_shares": row["shares"] in USUAL,
        }
        for row in rows
    ]


def between(row, width, everywhere):
    apart = row["usual"] - row["any"]
    weight = 0.5 / (1 + (100 * apart / width) ** 2)
    return row["any"] + (weight * apart if everywhere or row["allowed"] else 0)


def line(name, rows, estimate):
    def mean(chosen):
        return sum(100 * abs(estimate(row) - row["truth"]) for row in chosen) / len(chosen)

    usual = [row for row in rows if row["has_usual_shares"]]
    other = [row for row in rows if not row["has_usual_shares"]]
    worst = max(100 * abs(estimate(row) - row["truth"]) for row in rows)
    print(f"| {name} | {mean(rows):.2f} | {mean(usual):.2f} | {mean(other):.2f} | {worst:.1f} |")


def main():
    for path in sorted(Path(__file__).parent.glob("*.csv")):
        rows = read(path)
        print(f"## {path.stem}, {len(rows):,} samples\n")
        print("| passage | all | usual shares | other shares | worst |\n|---|---|---|---|---|")
        line("test of shares", rows, lambda row: row["step"])
        line("any shares alone", rows, lambda row: row["any"])
        line("mean of both", rows, lambda row: (row["any"] + row["usual"]) / 2)
        for width in WIDTHS:
            line(f"smooth, {width}", rows, lambda row: between(row, width, True))
        for width in WIDTHS:
            line(f"both, {width}", rows, lambda row: between(row, width, False))
        print()


main()
