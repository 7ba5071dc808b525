"""Mean error, bias, coverage and half width of samples by their number of images, from CSV of `production_study --sizes`.

    python3 small.py samples.csv ...            # needs nothing but Python
"""

import csv
import sys


def main():
    print("| file | images | samples | mean error | bias | held, % | held, of the least held kind of shares, % | half width |\n|---|---|---|---|---|---|---|---|")
    for path in sys.argv[1:]:
        rows = list(csv.DictReader(open(path)))
        name = path.rsplit("/", 1)[-1].removesuffix(".csv")
        for images in sorted({int(row["images"]) for row in rows}):
            chosen = [row for row in rows if int(row["images"]) == images]
            if len(chosen) < 50:
                continue
            numbers = [[float(row[what]) for what in ("truth", "estimate", "low", "high")] for row in chosen]
            held = [low - 1e-9 <= truth <= high + 1e-9 for truth, _, low, high in numbers]
            errors = [100 * (estimate - truth) for truth, estimate, _, _ in numbers]
            by_shares = {}
            for row, one in zip(chosen, held):
                by_shares.setdefault(row["shares"], []).append(one)
            least, shares = min((100 * sum(ones) / len(ones), shares) for shares, ones in by_shares.items())
            mean = lambda values: sum(values) / len(values)
            print(
                f"| {name} | {images} | {len(chosen)} | {mean([abs(e) for e in errors]):.1f} | {mean(errors):+.1f} | {100 * mean(held):.0f} | "
                f"{least:.0f} {shares} | {50 * mean([high - low for _, _, low, high in numbers]):.1f} |"
            )


main()
