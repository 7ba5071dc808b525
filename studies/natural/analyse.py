"""Tables of the natural-shift study from its records and predictions.

    python3 studies/natural/analyse.py --records records.jsonl --adapted FOLDER --out studies/natural/pacs

Writes estimates.csv (every estimate with interval, flags and truth), summary.md (mean absolute error, bias and coverage by estimator, natural and corrupted sets apart), signals.csv (what the
estimates rest on, of calibration cells and test cells), adapted.csv (accuracy of every method), classes.csv (true and predicted shares, recall, flips by class), confidence.csv (accuracy by confidence) and evidence.md (signals of test cells beside those that
calibration shifts of the same accuracy would have).
Needs Python 3.9 and nothing else."""

import argparse
import csv
import json
import pathlib

NATURAL = {"art", "cartoon", "sketch", "tiny-imagenet"}
MAIN = ["combined", "wf", "wf_unweighted", "statistics_flips", "wf_batch", "cot_calibrated", "cot", "cott", "atc_mc", "atc_mc_calibrated", "doc", "doc_calibrated", "ac", "ac_calibrated", "im", "aetta", "mde",
        "mano", "nuclear_norm", "dispersion"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", required=True, action="append")
    parser.add_argument("--adapted")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    records = []
    for path in arguments.records:
        records += [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    estimates = read_estimates(records)
    write_csv(out / "estimates.csv", estimates)
    write_csv(out / "signals.csv", read_signals(records))
    (out / "summary.md").write_text(summary(estimates))
    (out / "evidence.md").write_text(evidence(read_signals(records)))
    if arguments.adapted:
        folder = pathlib.Path(arguments.adapted)
        write_csv(out / "adapted.csv", read_adapted(folder))
        write_csv(out / "classes.csv", read_classes(folder))
        write_csv(out / "confidence.csv", read_confidence(folder))


def write_csv(path, rows):
    if not rows:
        return
    with open(path, "w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()} for row in rows)


def read_estimates(records):
    rows = []
    for record in records:
        if record["kind"] != "estimates":
            continue
        protocol, result = record["protocol"], record["result"]
        for model, truth in (("source", result["accuracy"]), ("adapted", result["adapted_accuracy"])):
            if truth is None:
                continue
            for name, estimate in sorted(result[model].items()):
                rows.append({
                    "network": protocol["model"]["name"], "protocol": protocol["variant"], "row": protocol["row"], "data": protocol["data"].split("/")[-1],
                    "images": result["images"], "model": model, "estimator": name, "truth": 100 * truth, "estimate": 100 * estimate["accuracy"],
                    "low": 100 * estimate["low"], "high": 100 * estimate["high"], "flags": " ".join(estimate["flags"]),
                })
    return sorted(rows, key=lambda row: [row[name] for name in ("network", "protocol", "row", "data", "model", "estimator")])


def read_signals(records):
    rows = []
    for record in records:
        if record["kind"] not in ("calibrate", "estimate") or "signals" not in record["result"]:
            continue
        protocol, result = record["protocol"], record["result"]
        if result["signals"] is None:
            continue
        row = {
            "network": protocol["model"]["name"], "protocol": protocol["flips"]["name"], "kind": record["kind"], "data": protocol["data"].split("/")[-1] if "@" not in protocol["data"] else
            protocol["data"].split("@")[0].split("/")[-1] + "@" + protocol["data"].split("@")[1],
            "accuracy": result["accuracy"], "adapted_accuracy": result["adapted_accuracy"],
        }
        row.update({name: result["signals"][name] for name in ("confidence", "cross", "reverse", "entropy", "transport", "concentration", "source_concentration")})
        for name in ("wf", "wf_unweighted", "wf_batch", "statistics_flips"):
            row[name] = (result["source"].get(name) or {}).get("value", "")
        adaptation = result.get("adaptation") or {}
        row["used_share"] = adaptation["used"] / adaptation["seen"] if adaptation.get("seen") else ""
        rows.append(row)
    return sorted(rows, key=lambda row: [row[name] for name in ("network", "protocol", "kind", "data")])


def evidence(signals):
    """What calibration shifts of the same accuracy show, beside what test cells show: a line through the calibration cells, from accuracy to signal."""
    names = ["confidence", "cross", "reverse", "entropy", "transport", "wf_unweighted"]
    lines = []
    for network, protocol in sorted({(row["network"], row["protocol"]) for row in signals}):
        chosen = [row for row in signals if (row["network"], row["protocol"]) == (network, protocol)]
        fitted = [row for row in chosen if row["kind"] == "calibrate"]
        if len(fitted) < 3:
            continue
        accuracies = [row["accuracy"] for row in fitted]
        lines += [
            f"## {network}, `{protocol}`: {len(fitted)} calibration cells, accuracy {100 * min(accuracies):.1f} to {100 * max(accuracies):.1f}%", "",
            "Each entry: seen / expected at this accuracy (deviations of calibration cells from their line: one standard deviation).", "",
            "| set | accuracy |" + "".join(f" {name} |" for name in names), "|---|---|" + "---|" * len(names),
        ]
        for row in (row for row in chosen if row["kind"] == "estimate"):
            line = f"| {row['data']} | {100 * row['accuracy']:.1f} |"
            for name in names:
                pairs = [(cell["accuracy"], float(cell[name])) for cell in fitted if cell[name] != ""]
                if len(pairs) < 3 or row[name] == "":
                    line += " |"
                    continue
                at, spread = line_through(pairs, row["accuracy"])
                line += f" {float(row[name]):.3f} / {at:.3f} ({spread:.3f}) |"
            lines.append(line)
        lines.append("")
    return "\n".join(lines)


def line_through(pairs, x):
    """The least-squares line at `x`, and the standard deviation of the pairs about it."""
    count = len(pairs)
    mean_x, mean_y = sum(a for a, _ in pairs) / count, sum(b for _, b in pairs) / count
    slope = sum((a - mean_x) * (b - mean_y) for a, b in pairs) / max(sum((a - mean_x) ** 2 for a, _ in pairs), 1e-12)
    left = [b - mean_y - slope * (a - mean_x) for a, b in pairs]
    return mean_y + slope * (x - mean_x), (sum(value**2 for value in left) / max(count - 2, 1)) ** 0.5


def quality(rows):
    errors = [row["estimate"] - row["truth"] for row in rows]
    held = sum(row["low"] <= row["truth"] <= row["high"] for row in rows)
    return {
        "mae": sum(map(abs, errors)) / len(rows), "worst": max(map(abs, errors)), "bias": sum(errors) / len(rows),
        "held": held, "count": len(rows), "width": sum(row["high"] - row["low"] for row in rows) / len(rows),
    }


def summary(estimates):
    """Natural and corrupted cells of all networks, by protocol; then `combined` and the flips of every natural cell."""
    lines = []
    for protocol in sorted({row["protocol"] for row in estimates}):
        for model in ("source", "adapted"):
            chosen = [row for row in estimates if row["protocol"] == protocol and row["model"] == model]
            natural = [row for row in chosen if row["row"] in NATURAL]
            corrupted = [row for row in chosen if "@" in row["data"]]
            own = [row for row in chosen if row["row"] not in NATURAL and "@" not in row["data"]]
            lines += [f"## `{protocol}`, accuracy of the {model} model", ""]
            groups = [(name, rows) for name, rows in (("natural", natural), ("corrupted", corrupted), ("clean, of the domains trained on", own)) if rows]
            for name, rows in groups:
                cells = len({(row["network"], row["data"]) for row in rows})
                lines.append(f"{name}: {cells} cells.")
            lines += ["", "| estimator |" + "".join(f" {name}: MAE / worst, bias; held; width |" for name, _ in groups), "|---|" + "---|" * len(groups)]
            names = [name for name in MAIN if any(row["estimator"] == name for row in chosen)]
            names += sorted({row["estimator"] for row in chosen} - set(names))
            for estimator in names:
                line = f"| `{estimator}` |"
                for _, rows in groups:
                    q = quality([row for row in rows if row["estimator"] == estimator])
                    line += f" {q['mae']:.1f} / {q['worst']:.1f}, {q['bias']:+.1f}; {q['held']} of {q['count']}; {q['width']:.0f} |"
                lines.append(line)
            lines.append("")
            cells = sorted({(row["network"], row["row"], row["truth"]) for row in natural})
            lines += ["Every natural cell: estimate less truth, in points; `!` where the interval does not hold the truth.", ""]
            lines += ["| estimator |" + "".join(f" {network}, {name}: {truth:.1f}% right |" for network, name, truth in cells), "|---|" + "---|" * len(cells)]
            for estimator in names:
                line = f"| `{estimator}` |"
                for network, name, _ in cells:
                    found = [row for row in natural if (row["network"], row["row"], row["estimator"]) == (network, name, estimator)]
                    line += "".join(f" {row['estimate'] - row['truth']:+.1f}{'' if row['low'] <= row['truth'] <= row['high'] else ' !'}" for row in found) + " |"
                lines.append(line)
            lines.append("")
    return "\n".join(lines)


def read_adapted(folder):
    rows = []
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith("advice.json"):
            continue
        result = json.loads(path.read_text())
        network, test, method = path.stem.rsplit("-", 2)
        rows.append({
            "network": network, "data": test, "method": method, "images": result["images"], "accuracy": 100 * result["accuracy"],
            "source_accuracy": 100 * result["source_accuracy"] if result["source_accuracy"] is not None else "",
            "flip_rate": result["flip_rate"] if result["flip_rate"] is not None else "", "used_share": result["used_share"], "first_entropy": result["first_entropy"],
            "last_entropy": result["last_entropy"], "guard_events": len(result["guard_events"]), "starved": result["starved"],
        })
    return rows


def predictions(path):
    """True class, predicted class and confidence by image."""
    with open(path) as file:
        return {row["id"]: (row["id"].split("/")[-2], row["class_name"], float(row["confidence"])) for row in csv.DictReader(file)}


def read_classes(folder):
    rows = []
    for path in sorted(folder.glob("*-source.csv")):
        network, test, _ = path.stem.rsplit("-", 2)
        source, second = predictions(path), predictions(path.with_name(f"{network}-{test}-bn.csv"))
        labels = sorted({truth for truth, _, _ in source.values()} | {guess for _, guess, _ in source.values()})
        for label in labels:
            of = {name: entry for name, entry in source.items() if entry[0] == label}
            right = sum(entry[1] == label for entry in of.values())
            wrong = {}
            for entry in of.values():
                if entry[1] != label:
                    wrong[entry[1]] = wrong.get(entry[1], 0) + 1
            worst = max(wrong, key=wrong.get) if wrong else ""
            rows.append({
                "network": network, "data": test, "class": label, "images": len(of), "true_share": len(of) / len(source),
                "predicted_share": sum(entry[1] == label for entry in source.values()) / len(source),
                "second_look_share": sum(entry[1] == label for entry in second.values()) / len(second),
                "recall": right / len(of) if of else "", "second_look_recall": sum(second[name][1] == label for name in of) / len(of) if of else "",
                "flipped": sum(second[name][1] != entry[1] for name, entry in of.items()) / len(of) if of else "",
                "confidence": sum(entry[2] for entry in of.values()) / len(of) if of else "", "mostly_taken_for": worst,
                "of_its_errors": wrong[worst] / sum(wrong.values()) if wrong else "",
            })
    return rows


def read_confidence(folder):
    """Accuracy by the source model's confidence, and what agreement with the second look means."""
    rows = []
    for path in sorted(folder.glob("*-source.csv")):
        network, test, _ = path.stem.rsplit("-", 2)
        source, second = predictions(path), predictions(path.with_name(f"{network}-{test}-bn.csv"))
        for low, high in ((0.0, 0.4), (0.4, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01), (0.0, 1.01)):
            chosen = {name: entry for name, entry in source.items() if low <= entry[2] < high}
            if not chosen:
                continue
            same = [name for name, entry in chosen.items() if second[name][1] == entry[1]]
            right = sum(entry[0] == entry[1] for entry in chosen.values())
            rows.append({
                "network": network, "data": test, "confidence_from": low, "confidence_to": min(high, 1.0), "images": len(chosen),
                "mean_confidence": sum(entry[2] for entry in chosen.values()) / len(chosen), "accuracy": right / len(chosen), "agree": len(same) / len(chosen),
                "right_where_agree": sum(chosen[name][0] == chosen[name][1] for name in same) / len(same) if same else "",
                "second_look_accuracy": sum(second[name][0] == second[name][1] for name in chosen) / len(chosen),
                "agree_and_wrong": sum(chosen[name][0] != chosen[name][1] for name in same) / len(chosen),
            })
    return rows


if __name__ == "__main__":
    main()
