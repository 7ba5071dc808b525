"""Tables of the production study, from the samples beside this file.

    python3 summarise.py            # needs nothing but Python
"""
import csv
import pathlib
import random

HERE = pathlib.Path(__file__).parent
BINS = [(20, 75, "50"), (75, 150, "100"), (150, 250, "200"), (250, 650, "300"), (650, 1001, "1000"), (1001, 10**9, "more")]
SHARES = ["balanced", "sample", "dirichlet1", "dirichlet01", "subset30", "subset10", "zipf"]


def load(path, prefix=""):
    """Samples with the source model's estimates, or with the prefix `second_` those of the model with the statistics of the batch; no rows where a file has none."""
    rows = []
    for row in csv.DictReader(open(path)):
        if row.get(prefix + "truth", "NaN") == "NaN":
            continue
        images = int(row["images"])
        truth, estimate, low, high = (float(row[prefix + k]) for k in ("truth", "estimate", "low", "high"))
        size = next(name for least, most, name in BINS if least <= images < most)
        rows.append(dict(
            seed=row["seed"], shift=row["shift"], severity=row["severity"], shares=row["shares"], size=size, images=images,
            order=row["order"], bursts=row["bursts"] == "1", truth=truth,
            error=100 * (estimate - truth), held=low - 1e-9 <= truth <= high + 1e-9, half=50 * (high - low), flags=row[prefix + "flags"].split(),
        ))
    # A sample that asked for more images than there are is the same as the full one.
    unique = {(r["seed"], r["shift"], r["severity"], r["shares"], r["images"], r["error"], r["order"]): r for r in rows}
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


def flagged(rows, flag):
    return f"{100 * mean(flag in r['flags'] for r in rows):.0f}" if rows else "-"


def share_flags(rows):
    print("\nShare of samples flagged `class_marginal_mismatch`, in %:\n")
    print("| shares | " + " | ".join(size for _, _, size in BINS) + " |\n|---|" + "---|" * len(BINS))
    for shares in SHARES:
        of_shares = [r for r in rows if r["shares"] == shares]
        cells = [flagged([r for r in of_shares if r["size"] == size], "class_marginal_mismatch") for _, _, size in BINS]
        print(f"| {shares} | " + " | ".join(cells) + " |")


def other_flags(rows):
    print("\n| flag | samples | flagged, % | held where flagged, % | mean error there | held elsewhere, % | mean error there |\n|---|---|---|---|---|---|---|")
    for flag in ("outside_fitted_range", "unlike_known_shifts", "too_few_images", "class_marginal_mismatch"):
        parts = [[r for r in rows if (flag in r["flags"]) == raised] for raised in (True, False)]
        if flag == "unlike_known_shifts" and not parts[0]:
            continue  # Files of earlier versions know no such flag.
        cells = [f"{100 * mean(r['held'] for r in part):.0f} | {mean(abs(r['error']) for r in part):.2f}" if part else "- | -" for part in parts]
        print(f"| `{flag}` | {len(rows)} | {flagged(rows, flag)} | {cells[0]} | {cells[1]} |")


def orders(rows):
    print("\nThe same 1,000 random images in three orders, by the calls of `flipcast estimate`:\n")
    print("| order | cells | mean error | held, % | largest change of the estimate | found to come in bursts, % |\n|---|---|---|---|---|---|")
    key = lambda r: (r["seed"], r["shift"], r["severity"])
    random_order = {key(r): r["error"] for r in rows if r["order"] == "random"}
    for order in ("random", "sorted", "bursts"):
        part = [r for r in rows if r["order"] == order]
        change = max(abs(r["error"] - random_order[key(r)]) for r in part)
        print(f"| {order} | {len(part)} | {mean(abs(r['error']) for r in part):.2f} | {100 * mean(r['held'] for r in part):.0f} | {change:.2f} | {100 * mean(r['bursts'] for r in part):.0f} |")


def chance(rows):
    print("\nRoot mean square error in points, and by how much the accuracy of so many images scatters around that of their source, `sqrt(a (1 - a) / n)`:\n")
    print("| | " + " | ".join(size for _, _, size in BINS) + " |\n|---|" + "---|" * len(BINS))
    by_size = [[r for r in rows if r["size"] == size] for _, _, size in BINS]
    error = [mean(r["error"] ** 2 for r in part) ** 0.5 for part in by_size]
    scatter = [100 * mean(r["truth"] * (1 - r["truth"]) / r["images"] for r in part) ** 0.5 for part in by_size]
    for name, values in (("error", error), ("scatter", scatter)):
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |")


def errors(rows):
    print("| samples | number | mean error | bias | worst | held, % | least held corruption, % | half width |\n|---|---|---|---|---|---|---|---|")
    print(line("all", rows))
    for _, _, size in BINS:
        print(line(f"about {size} images" if size != "more" else "more than 1,000", [r for r in rows if r["size"] == size]))
    for shares in SHARES:
        print(line(f"{shares}, 400 and more", [r for r in rows if r["shares"] == shares and r["images"] >= 400]))
    print(line("sample, all images", [r for r in rows if r["shares"] == "sample" and r["size"] == "more"]))


def main():
    for path in sorted(HERE.glob("*.csv")):
        everything = load(path)
        rows = [r for r in everything if r["order"] == "drawn"]
        print(f"\n## {path.stem}\n")
        errors(rows)
        chance(rows)
        second = [r for r in load(path, "second_") if r["order"] == "drawn"]
        if second:
            print("\nThe model with the statistics of the batch, from which adapting begins:\n")
            errors(second)
            print("\nIts flags:")
            other_flags(second)
            print("\nThe source model's:")
        share_flags(rows)
        other_flags(rows)
        orders([r for r in everything if r["order"] != "drawn"])


main()
