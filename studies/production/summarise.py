"""Tables of the production study, from the samples beside this file.

    python3 summarise.py            # needs nothing but Python
"""
import csv
import pathlib
import random

HERE = pathlib.Path(__file__).parent
BINS = [(20, 75, "50"), (75, 150, "100"), (150, 250, "200"), (250, 650, "300"), (650, 1001, "1000"), (1001, 10**9, "more")]
SHARES = ["balanced", "sample", "dirichlet1", "dirichlet01", "subset30", "subset10", "zipf"]


def load(path):
    rows = []
    for row in csv.DictReader(open(path)):
        images = int(row["images"])
        truth, estimate, low, high = (float(row[k]) for k in ("truth", "estimate", "low", "high"))
        size = next(name for least, most, name in BINS if least <= images < most)
        rows.append(dict(
            seed=row["seed"], shift=row["shift"], severity=row["severity"], shares=row["shares"], size=size, images=images,
            error=100 * (estimate - truth), held=low - 1e-9 <= truth <= high + 1e-9, half=50 * (high - low), flags=row["flags"].split(),
        ))
    # A sample that asked for more images than there are is the same as the full one.
    unique = {(r["seed"], r["shift"], r["severity"], r["shares"], r["images"], r["error"]): r for r in rows}
    return list(unique.values())


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def coverage_interval(rows, draws=400):
    """90% bootstrap interval of the coverage, drawing whole corruptions."""
    by_shift = {}
    for row in rows:
        by_shift.setdefault(row["shift"], []).append(row["held"])
    shifts, rng = list(by_shift.values()), random.Random(0)
    found = []
    for _ in range(draws):
        drawn = [held for _ in shifts for held in rng.choice(shifts)]
        found.append(mean(drawn))
    found.sort()
    return found[int(0.05 * draws)], found[int(0.95 * draws)]


def line(name, rows):
    if not rows:
        return f"| {name} | 0 | | | | | | |"
    worst = min((mean(r["held"] for r in rows if r["shift"] == shift), shift) for shift in {r["shift"] for r in rows})
    low, high = coverage_interval(rows)
    errors = [abs(r["error"]) for r in rows]
    return (f"| {name} | {len(rows)} | {mean(errors):.2f} | {mean(r['error'] for r in rows):+.2f} | {max(errors):.0f} | "
            f"{100 * mean(r['held'] for r in rows):.0f} ({100 * low:.0f} to {100 * high:.0f}) | {100 * worst[0]:.0f} {worst[1].split('/')[-1]} | {mean(r['half'] for r in rows):.1f} |")


def main():
    for path in sorted(HERE.glob("*.csv")):
        rows = load(path)
        print(f"\n## {path.stem}\n")
        print("| samples | number | mean error | bias | worst | held, % | least held corruption, % | half width |\n|---|---|---|---|---|---|---|---|")
        print(line("all", rows))
        for _, _, size in BINS:
            print(line(f"about {size} images" if size != "more" else "more than 1,000", [r for r in rows if r["size"] == size]))
        for shares in SHARES:
            print(line(f"{shares}, 400 and more", [r for r in rows if r["shares"] == shares and r["images"] >= 400]))
        print(line("sample, all 5,000", [r for r in rows if r["shares"] == "sample" and r["size"] == "more"]))
        print("\nShare of samples flagged `class_marginal_mismatch`, in %:\n")
        print("| shares | " + " | ".join(size for _, _, size in BINS) + " |\n|---|" + "---|" * len(BINS))
        for shares in SHARES:
            cells = []
            for _, _, size in BINS:
                chosen = [r for r in rows if r["shares"] == shares and r["size"] == size]
                cells.append(f"{100 * mean('class_marginal_mismatch' in r['flags'] for r in chosen):.0f}" if chosen else "-")
            print(f"| {shares} | " + " | ".join(cells) + " |")
        outside = [r for r in rows if "outside_fitted_range" in r["flags"]]
        print(f"\n`outside_fitted_range`: {len(outside)} samples" + (f", {100 * mean(r['held'] for r in outside):.0f}% held, mean error {mean(abs(r['error']) for r in outside):.2f}." if outside else "."))


main()
