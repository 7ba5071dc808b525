"""Whether white borders or flat areas explain what a network of photos answers on other domains: the share of images called `guitar`, and of right ones, by what the images look like.

    python3 studies/natural/looks.py --images FOLDER --adapted FOLDER > studies/natural_pacs/looks.md

`--images` is what `pack.py` packed, unpacked; `--adapted` holds the predictions that `run.py` keeps. Images of guitars are left out. Needs NumPy and Pillow."""

import argparse
import csv
import pathlib

import numpy as np
from PIL import Image



def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--adapted", required=True)
    arguments = parser.parse_args()
    looks, groups = {}, {}
    for path in sorted(pathlib.Path(arguments.images).glob("*/*/*.jpg")):
        grey = np.asarray(Image.open(path).convert("L")).astype(int)
        border = np.concatenate([grey[:4].ravel(), grey[-4:].ravel(), grey[:, :4].ravel(), grey[:, -4:].ravel()])
        steps = np.maximum(abs(np.diff(grey, axis=1))[:-1], abs(np.diff(grey, axis=0))[:, :-1])
        looks[path.parts[-2:]] = ((border >= 235).mean() > 0.5, (steps <= 3).mean())
        group = "photo" if path.parts[-3].startswith("photo") else path.parts[-3].split("_")[0]
        for key in (group, f"{group}, guitars") if path.parts[-2] == "guitar" else (group,):
            groups.setdefault(key, []).append(looks[path.parts[-2:]])
    print("| images | white borders | flat pixels (neighbours differ by at most 3 grey levels) |\n|---|---|---|")
    for name in sorted(groups):
        values = np.array(groups[name], float)
        print(f"| {name} | {100 * values[:, 0].mean():.0f}% | {100 * values[:, 1].mean():.0f}% |")
    print("\nCalled `guitar` / right, in percent; images of guitars left out.\n")
    print("| network | set | white borders | others | least flat third | middle | flattest |\n|---|---|---|---|---|---|---|")
    for path in sorted(pathlib.Path(arguments.adapted).glob("*-source.csv")):
        network, test, _ = path.stem.rsplit("-", 2)
        with open(path) as file:
            rows = [(row["id"].split("/"), row["class_name"]) for row in csv.DictReader(file)]
        rows = [(*looks[tuple(name[-2:])], guess == "guitar", guess == name[-2]) for name, guess in rows if name[-2] != "guitar"]
        rows.sort(key=lambda row: row[1])
        count = len(rows)
        parts = [[row for row in rows if row[0]], [row for row in rows if not row[0]], rows[: count // 3], rows[count // 3 : 2 * count // 3], rows[2 * count // 3 :]]
        print(f"| {network} | {test} |" + "".join(f" {shares(part)} |" for part in parts))


def shares(rows):
    if not rows:
        return ""
    values = 100 * np.array([row[2:] for row in rows], float).mean(0)
    return f"{values[0]:.0f} / {values[1]:.0f}"


if __name__ == "__main__":
    main()
