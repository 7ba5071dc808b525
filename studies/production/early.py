"""What an early look is worth: the same samples with it and without.

    gunzip -k early/*.gz && cd early
    cargo run --release -p flipcast-lab --bin refit_signals -- *.signals.jsonl > with.csv
    cargo run --release -p flipcast-lab --bin refit_signals -- --without-early-look *.signals.jsonl > without.csv
    cd .. && python3 early.py early/with.csv early/without.csv > early.md
"""

import csv
import sys

KINDS = [(name, lambda r, name=name: r["shares"] == name) for name in ("balanced", "sample", "dirichlet1", "dirichlet01", "zipf", "subset30", "subset10")]
SIZES = [("about 50", 20, 75), ("about 100", 75, 150), ("about 200", 150, 250), ("about 300", 250, 650), ("about 1,000", 650, 1001), ("more", 1001, 10**9)]
KINDS = [("all", lambda r: True)] + KINDS + [(f"{name} images", lambda r, a=a, b=b: a <= int(r["images"]) < b) for name, a, b in SIZES]


def numbers(rows):
    found = []
    for row in rows:
        truth, estimate, low, high = (float(row[k]) for k in ("truth", "estimate", "low", "high"))
        found.append((100 * abs(estimate - truth), low - 1e-9 <= truth <= high + 1e-9, 50 * (high - low), row["shift"]))
    shifts = {one[3] for one in found}
    mean = lambda values: sum(values) / len(values)
    least = min((100 * mean([one[1] for one in found if one[3] == shift]), shift.split("/")[-1]) for shift in shifts)
    return mean([one[0] for one in found]), max(one[0] for one in found), 100 * mean([one[1] for one in found]), least, mean([one[2] for one in found])


def main():
    files = [list(csv.DictReader(open(path))) for path in sys.argv[1:]]
    assert all(a["truth"] == b["truth"] for a, b in zip(*files)), "the files are of other samples"
    print("| samples | number | mean error: with an early look, without | worst | held, % | least held corruption, % | half width |\n|---|---|---|---|---|---|---|")
    for name, chosen in KINDS:
        (error, worst, held, least, half), (error0, worst0, held0, least0, half0) = (numbers([r for r in rows if chosen(r)]) for rows in files)
        count = sum(map(chosen, files[0]))
        lowest = f"{least[0]:.0f} {least[1]}, {least0[0]:.0f} {least0[1]}" if name == "all" else ""
        print(f"| {name} | {count} | {error:.2f}, {error0:.2f} | {worst:.0f}, {worst0:.0f} | {held:.0f}, {held0:.0f} | {lowest} | {half:.1f}, {half0:.1f} |")


main()
