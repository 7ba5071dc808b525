"""Would a third look at the images tell more? Tried on samples of calibrations, by the errors on kinds of shift that a fit had not seen.

The third look is the same network with statistics of the batch in its first norms alone, or with half of them in every norm. What it adds are the log-odds of the source model's mean
probability of its answers (`cross`) and their square, beside the features the regression for any shares has.

    gunzip -k third_look/*.gz; python3 third_look.py > third_look.md      # needs NumPy; a minute
"""

import json

import numpy as np

from trials import C, HERE, Fit, Samples, errors_without, halves, hardest, odds

NETWORKS = ["resnet20.cifar10", "resnet20.fashion_mnist"]
LOOKS = ["first 25%", "first 35%", "first 50%", "first 70%", "half"]
SHARES = ["balanced", "sample", "dirichlet1", "dirichlet01", "zipf", "subset30", "subset10"]


def load(network):
    path = HERE / "third_look" / f"{network}-0.signals.jsonl"
    samples = Samples(path, "calibration")
    third = [json.loads(line)["sample"]["third"] for line in open(path)]
    samples.third = {look: {key: np.array([one[look][key] for one in third]) for key in third[0][look]} for look in LOOKS}
    return samples


def features(look):
    cross = lambda s: odds(s.third[look]["cross"])
    return [cross, lambda s: cross(s) ** 2]


def main():
    data = {network: load(network) for network in NETWORKS}
    print("Mean errors in points: one kind of calibration shift left out (of one class in ten alone; of 400 images and more) / half of the kinds / the hardest.\n")
    print("| third look | " + " | ".join(NETWORKS) + " |\n|---|" + "---|" * len(NETWORKS))
    for look in [None] + LOOKS:
        row = []
        for network in NETWORKS:
            s = data[network]
            fit = Fit(s, [C["m^2 confidence"]] + (features(look) if look else []))
            error = 100 * np.abs(fit.estimate - s.accuracy)
            of = lambda rows: error[fit.left_out & rows].mean()
            row.append(f"{of(True):.2f} ({of(s.shares == 'subset10'):.1f}; {of(s.images >= 400):.2f}) / {errors_without(fit, halves(s)):.2f} / {errors_without(fit, hardest(s)):.2f}")
        print(f"| {look or 'none'} | " + " | ".join(row) + " |")
    for network in NETWORKS:
        s = data[network]
        print(f"\nAccuracy in % on the samples of {network}, and in brackets the gain over the source model that 95% of them have at least:\n")
        print("| class shares | samples | source | batch | " + " | ".join(LOOKS) + " |\n|---|---|---|---|" + "---|" * len(LOOKS))
        for shares in SHARES:
            rows = s.shares == shares
            source = s.accuracy[rows]
            shown = [s.second_accuracy[rows]] + [s.third[look]["accuracy"][rows] for look in LOOKS]
            cells = [f"{100 * one.mean():.1f} ({100 * np.percentile(one - source, 5):+.0f})" for one in shown]
            print(f"| {shares} | {rows.sum()} | {100 * source.mean():.1f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
