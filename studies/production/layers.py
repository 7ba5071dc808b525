"""Do the statistics of a batch in early layers tell a collapse from few classes? Tried on calibration samples of Fashion-MNIST's network.

`layers/` has 28 cells of 1,000 images with 224 samples of them, their signals, and for the inputs of the first norm, of the first third of the norms and of all of them, averaged over channels and layers: the mean of
(mean - m)^2 / v, the symmetric Kullback-Leibler divergence of the two normal distributions, and log(variance / v). `m` and `v` are running statistics, or those of clean images in the shares of the classes that the model answers.

    gunzip -k layers/*.gz; python3 layers.py > layers.md      # needs NumPy
"""

import json
from pathlib import Path

import numpy as np

from trials import C, Fit, Samples, errors_without, halves, hardest

PATH = Path(__file__).parent / "layers" / "resnet20.fashion_mnist.jsonl"


def main():
    s = Samples(PATH, "calibration")
    layers = [json.loads(line)["layers"] for line in open(PATH)]
    print("Mean errors in points on one kind of calibration shift left out (of one class in ten alone) / half of the kinds / the hardest.\n")
    print("| beside `m^2 confidence` | errors |\n|---|---|")
    few = C["m^2 confidence"]

    def row(name, *features):
        fit = Fit(s, features)
        error = 100 * np.abs(fit.estimate - s.accuracy)
        one = error[fit.left_out & (s.shares == "subset10")].mean()
        print(f"| {name} | {error[fit.left_out].mean():.2f} ({one:.1f}) / {errors_without(fit, halves(s)):.2f} / {errors_without(fit, hardest(s)):.2f} |", flush=True)

    row("without it: nothing")
    row("nothing", few)
    for where in layers[0]:
        for against in layers[0][where]:
            mean, divergence, ratio = np.array([one[where][against] for one in layers]).T
            name = f"{where}, {against}"
            row(f"{name}: log mean", few, lambda s: np.log(mean + 0.01))
            row(f"{name}: log variances", few, lambda s: ratio)
            row(f"{name}: both", few, lambda s: np.log(mean + 0.01), lambda s: ratio)
            row(f"{name}: log divergence", few, lambda s: np.log(divergence + 0.01))
            row(f"{name}: log divergence, and times g", few, lambda s: np.log(divergence + 0.01), lambda s: np.log(divergence + 0.01) * s.concentration)
            row(f"{name}: log divergence, and times m^2", few, lambda s: np.log(divergence + 0.01), lambda s: np.log(divergence + 0.01) * s.few**2)


main()
