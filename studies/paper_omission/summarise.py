"""Gains of accuracy along adaptation with images left out, means over seeds: python3 summarise.py"""
import collections
import json
import pathlib

STEPS = (100, 300, 600, 1000)
table = collections.defaultdict(list)
for line in open(pathlib.Path(__file__).parent / "records.jsonl"):
    record = json.loads(line)
    if record["kind"] != "omission":
        continue
    protocol, curve = record["protocol"], record["result"]["curve"]
    (name, settings), = protocol["method"]["optimiser"].items()
    start = curve[0]["accuracy"]
    gains = {point["step"]: 100 * (point["accuracy"] - start) for point in curve}
    row = (protocol["model"]["name"], f"{name.upper() if name == 'sgd' else name.capitalize()} {settings['lr']:.2g}", int(protocol["value"]))
    table[row].append(gains)
print("| network | optimizer | k | seeds | " + " | ".join(f"{step} steps" for step in STEPS) + " |")
print("|---|---|---|---|" + "---|" * len(STEPS))
for (model, optimizer, k), runs in sorted(table.items()):
    cells = []
    for step in STEPS:
        values = [gains[step] for gains in runs]
        cells.append(f"{sum(values) / len(values):+.1f}")
    print(f"| {model} | {optimizer} | {k} | {len(runs)} | " + " | ".join(cells) + " |")
