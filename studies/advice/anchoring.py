"""What anchoring batch norms at clean images is worth: gains over the source model with and without, in points, on cells in random order at severity 3 and clean ones.

    python3 studies/advice/anchoring.py
"""

import csv
import pathlib
from collections import defaultdict

here = pathlib.Path(__file__).parent
networks = ["resnet18.tiny_in200", "resnet50.tiny_in200", "resnet26.cifar100", "resnet20.cifar10"]
gains = defaultdict(dict)  # candidate -> network -> (plain, anchored)
for network in networks:
    plain, anchored = defaultdict(list), defaultdict(list)
    for row in csv.DictReader(open(here / f"{network}.csv")):
        if (row["role"], row["order"], row["part"]) != ("test", "random", "whole") or row["severity"] not in "03":
            continue
        name, kind = row["candidate"], plain
        if name.endswith(" anchored"):
            name, kind = name.removesuffix(" anchored"), anchored
        kind[name].append(float(row["gain"]))
    for row in csv.DictReader(open(here / f"{network}.plain.csv")):
        plain[row["candidate"]].append(float(row["gain"]))
    for name in plain:
        if len(plain[name]) == len(anchored[name]):
            pair = (100 * sum(values) / len(values) for values in (plain[name], anchored[name]))
            gains[name][network] = tuple(pair)

print("| candidate | " + " | ".join(networks) + " |")
print("|---|" + "---|" * len(networks))
for name, of_network in gains.items():
    cells = [f"{of_network[n][0]:.1f} -> {of_network[n][1]:.1f}" if n in of_network else "-" for n in networks]
    print(f"| {name} | " + " | ".join(cells) + " |")
