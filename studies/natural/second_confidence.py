"""Does the second look's own confidence tell the adapted model's accuracy, and does it show that a shift is unlike the calibration's? From records that are committed, whole cells alone.

    python3 studies/natural/second_confidence.py > studies/natural_pacs/second_confidence.md

Cells of these records have no confidence of the second look; AC of the adapted model, 25 steps later, stands for it. Ridge regressions as `AccuracyFit` makes them, without what samples with other class shares and sizes
teach; strangeness as `Familiarity` measures it, with one scale for each signal. Needs NumPy."""

import json
import pathlib

import numpy as np

STUDIES = pathlib.Path(__file__).resolve().parent.parent
PACS, CIFAR, CIFAR_TEST = (STUDIES / name for name in ("natural_pacs/records-1-of-1.jsonl", "natural_cifar10/records-1-of-1.jsonl", "paper_networks/records.jsonl"))
NATURAL = ("art.tar", "cartoon.tar", "sketch.tar", "tiny_cifar10.tar")
STEPS = 25  # of the protocol `flipcast`
TESTED = ["confidence", "cross", "second"]


def log_odds(share):
    share = np.clip(share, 0.004, 0.996)
    return np.log(share / (1 - share))


def read_cells(path, kind, model):
    """Cells of one kind and network, as a table of columns."""
    rows = []
    for line in path.open():
        record = json.loads(line)
        protocol, result = record["protocol"], record["result"]
        if record["kind"] != kind or protocol["model"]["name"] != model:
            continue
        cell = result.get("cell", result)
        if "signals" not in cell or cell["adaptation"]["steps"] != STEPS:
            continue
        data = protocol["data"].split("/")[-1] if "@" not in protocol["data"] else protocol["data"]
        shift = protocol["data"].split("@")[1].split(":")[0] if "@" in protocol["data"] else "clean"
        rows.append(dict(data=data, shift=shift, source=cell["accuracy"], adapted=cell["adapted_accuracy"], second=cell["adapted"]["ac"]["value"], **cell["signals"]))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def choose(table, chosen):
    return {name: column[chosen] for name, column in table.items()}


class Ridge:
    """Standardised, shrunk by 0.003, free intercept."""

    def __init__(self, features, target, weight):
        weight = weight / weight.sum()
        self.mean, self.intercept = weight @ features, weight @ target
        self.spread = np.sqrt(weight @ (features - self.mean) ** 2) + 1e-9
        z = (features - self.mean) / self.spread
        normal = z.T @ (z * weight[:, None]) + 0.003 * np.eye(z.shape[1])
        self.coefficients = np.linalg.solve(normal, z.T @ (weight * (target - self.intercept)))

    def __call__(self, features):
        return self.intercept + (features - self.mean) / self.spread @ self.coefficients


def features_of(look, with_second):
    """What tells the accuracy of a look: its own signals first, those of the other behind."""

    def columns(t):
        own, other = ("cross", "reverse") if look == "source" else ("reverse", "cross")
        cross = log_odds(t[own])
        found = [cross, cross**2, log_odds(t[other]), log_odds(t["confidence"]), t["entropy"], t["concentration" if look == "source" else "source_concentration"]]
        return np.stack(found + ([log_odds(t["second"])] if with_second else []), 1)

    return columns


def errors(known, new, look, with_second):
    """Errors on kinds of shift that were left out, and on new cells."""
    columns = features_of(look, with_second)
    fit = lambda t: Ridge(columns(t), log_odds(t[look]), np.clip(t[look] * (1 - t[look]), 0.03, 1))
    share = lambda odds: 1 / (1 + np.exp(-odds))
    left_out = []
    for shift in sorted(set(known["shift"]) - {"clean"}):
        is_shift = known["shift"] == shift
        there = choose(known, is_shift)
        left_out += list(share(fit(choose(known, ~is_shift))(columns(there))) - there[look])
    return np.array(left_out), share(fit(known)(columns(new))) - new[look]


def strangeness(known, new):
    """Of new cells, in units of the strangest cell of a kind that was left out."""
    largest, found = np.zeros(len(known["shift"])), np.zeros(len(new["shift"]))
    for tested in TESTED:

        def columns(t):
            others = [log_odds(t[name]) for name in TESTED if name != tested]
            return np.stack(others + [o**2 for o in others] + [log_odds(t["reverse"]), t["concentration"], t["source_concentration"]], 1)

        fit = lambda t: Ridge(columns(t), log_odds(t[tested]), np.ones(len(t[tested])))
        residual = lambda by, t: log_odds(t[tested]) - by(columns(t))
        residuals = np.zeros(len(known["shift"]))
        for shift in set(known["shift"]) - {"clean"}:
            is_shift = known["shift"] == shift
            residuals[is_shift] = residual(fit(choose(known, ~is_shift)), choose(known, is_shift))
        scale = residuals[known["shift"] != "clean"].std()
        largest = np.maximum(largest, abs(residuals) / scale)
        found = np.maximum(found, abs(residual(fit(known), new)) / scale)
    return found / largest.max()


def text(found):
    return f"{100 * abs(found).mean():.1f} / {100 * found.mean():+.1f}" if len(found) else "-"


def main():
    studies = [(f"{start}.pacs_{name}", PACS, PACS) for start in ("resnet18", "resnet50") for name in ("photo", "photo_art")]
    studies.append(("resnet20.cifar10", CIFAR, CIFAR_TEST))
    print("Made by `python3 studies/natural/second_confidence.py`. Mean absolute error / bias in points of accuracy, whole cells.\n")
    print("| network | model | second look's confidence | left-out kinds | corrupted | natural |\n|---|---|---|---|---|---|")
    flags, everything = [], {}
    for model, path, test in studies:
        known, new = read_cells(path, "calibrate", model), read_cells(test, "estimate", model)
        family = np.array([shift == "clean" or shift.startswith("calibration/") for shift in known["shift"]])
        known = choose(known, family)
        natural, corrupted = np.isin(new["data"], NATURAL), new["shift"] != "clean"
        for look in ("source", "adapted"):
            for with_second in (False, True):
                left_out, found = errors(known, new, look, with_second)
                parts = (left_out, found[corrupted], found[natural])
                print(f"| {model} | {look} | {'yes' if with_second else 'no'} | " + " | ".join(map(text, parts)) + " |")
                if path is PACS:
                    for total, part in zip(everything.setdefault((look, with_second), ([], [], [])), parts):
                        total += list(part)
        strange = strangeness(known, new)
        cells = ", ".join(f"{name.split('.')[0]} {value:.1f}" for name, value in zip(new["data"][natural], strange[natural]))
        flags.append(f"| {model} | {cells or '-'} | {(strange[corrupted] > 1).sum()} of {corrupted.sum()} | {strange[corrupted].max():.1f} |")
    for (look, with_second), totals in everything.items():
        print(f"| all four of PACS | {look} | {'yes' if with_second else 'no'} | " + " | ".join(text(np.array(total)) for total in totals) + " |")
    print("\nStrangeness: how many times as far signals are from what they tell of each other as in the strangest cell of a left-out kind; flagged above 1.\n")
    print("| network | natural cells | corrupted cells flagged | strangest of them |\n|---|---|---|---|\n" + "\n".join(flags))


if __name__ == "__main__":
    main()
