#!/usr/bin/env python3
"""Turns the lines of `flipcast estimate --json` into a table of every estimate and a summary.

    python3 tools/summarise_estimates.py estimates.jsonl --out studies/cifar100

Writes estimates.csv (one line per dataset, model and estimator, percent) and summary.md (mean and largest error, bias, coverage
and mean width of the intervals per estimator, for all datasets and for each set of corruptions). Needs Python 3.9 and nothing else.
"""

import argparse
import csv
import json
import pathlib


def cell_name(data):
    """What stands behind the last `@`: the corruption; paths stay where they are."""
    return data.rsplit("@", 1)[1] if "@" in data else "clean"


def set_name(cell):
    return "C-bar" if "c-bar/" in cell else "CIFAR-C"


def read(path):
    rows = []
    for line in path.read_text().splitlines():
        seen = json.loads(line)
        cell = cell_name(seen["data"])
        for model, part in (("source", seen), ("adapted", seen["adapted"])):
            for name, estimate in part["estimates"].items():
                if part["truth"] is None:
                    continue
                rows.append({
                    "cell": cell, "images": seen["images"], "model": model, "estimator": name,
                    "truth": 100 * part["truth"], "estimate": 100 * estimate["accuracy"],
                    "low": 100 * estimate["low"], "high": 100 * estimate["high"],
                    "flags": " ".join(estimate["flags"]),
                })
    return rows


def quality(rows):
    errors = [r["estimate"] - r["truth"] for r in rows]
    n = len(rows)
    return {
        "mae": sum(map(abs, errors)) / n,
        "worst": max(map(abs, errors)),
        "bias": sum(errors) / n,
        "held": 100 * sum(r["low"] <= r["truth"] <= r["high"] for r in rows) / n,
        "width": sum(r["high"] - r["low"] for r in rows) / n,
    }


def table(rows):
    by_name = {}
    for row in rows:
        by_name.setdefault(row["estimator"], []).append(row)
    lines = ["| estimator | MAE | worst | bias | interval holds % | mean width |", "|---|---|---|---|---|---|"]
    ranked = sorted(((quality(found), name) for name, found in by_name.items()), key=lambda pair: pair[0]["mae"])
    for q, name in ranked:
        lines.append(f"| `{name}` | {q['mae']:.2f} | {q['worst']:.1f} | {q['bias']:+.2f} | {q['held']:.0f} | {q['width']:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimates", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rows = read(args.estimates)
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "estimates.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})
    text = []
    for model in ("source", "adapted"):
        of_model = [r for r in rows if r["model"] == model]
        sets = sorted({set_name(r["cell"]) for r in of_model})
        groups = [("all", of_model)] + [(s, [r for r in of_model if set_name(r["cell"]) == s]) for s in sets]
        for name, group in groups:
            cells = len({r["cell"] for r in group})
            text.append(f"## {model} model, {name}: {cells} cells\n\n{table(group)}\n")
    (args.out / "summary.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
