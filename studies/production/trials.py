"""What else may tell the accuracy, tried on the committed signals without a network.

The regressions, the test of shares and the intervals of `crates/estimate` once more, so that a feature is one line. Candidates are features of the regression for any shares (or of
both regressions), beside those it had. What was chosen was chosen on calibration samples alone, by the errors on kinds of shift that a fit had not seen:

    one left out     each kind of shift by fits to the others
    half left out    twelve random halves of the kinds, the same for every candidate
    hardest          the 3, 5 and 7 kinds with the lowest accuracies, or the most concentrated answers, by fits to the milder ones

    gunzip -k signals/*.gz; python3 trials.py > trials.md      # needs NumPy; minutes
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CHOSEN_ON = ["resnet20.cifar10", "resnet20.fashion_mnist", "resnet26.cifar100", "resnet18.tiny_in200"]
ALL = CHOSEN_ON + ["vit_tiny_p8.tiny_in200", "resnet50.tiny_in200"]
SEEDS = [0, 1]
USUAL = ["balanced", "sample"]


def odds(share):
    share = np.clip(share, 0.004, 0.996)
    return np.log(share / (1 - share))


def share(log_odds):
    return 1 / (1 + np.exp(-np.clip(log_odds, -50, 50)))


def spread(accuracy):
    a = np.clip(accuracy, 0.03, 0.97)
    return 2 * np.sqrt(a * (1 - a))


class Samples:
    """Samples of one part of a file of signals, as columns."""

    def __init__(self, path, part):
        lines = [line for line in map(json.loads, open(path)) if line["part"] == part]
        samples = [line["sample"] for line in lines]
        for name in samples[0]["signals"]:
            setattr(self, name, np.array([sample["signals"][name] for sample in samples], float))
        self.name = np.array([line["name"] for line in lines])
        self.second_accuracy = np.array([sample["second_accuracy"] for sample in samples])
        self.accuracy = np.array([sample["accuracy"] for sample in samples])
        self.shares = np.array([sample["shares"] for sample in samples])
        self.kind = np.array([line["group"] for line in lines])
        self.usual = np.isin(self.shares, USUAL)
        self.size = np.log(self.images / self.classes)
        self.few = np.minimum(self.source_concentration, np.log(10))
        present = self.classes / np.exp(self.source_concentration)
        self.class_share = 1 / np.clip(present, 1, self.classes)
        self.kinds = [kind for kind in dict.fromkeys(self.kind) if kind != "clean"]


class Features:
    """What each regression sees; `extra` are candidates."""

    def __init__(self, s, extra, in_both):
        cross = odds(s.cross)
        images = [cross, cross**2, s.size, s.size * cross, odds(s.confidence), odds(s.reverse), s.entropy]
        self.transport = odds(s.transport)
        more = [f(s) for f in extra]
        of_shares = [self.transport, self.transport * s.size, s.size**2]
        self.any = np.stack(images + [s.concentration] + more, 1)
        self.usual = np.stack(images + [s.concentration] + of_shares + (more if in_both else []), 1)
        self.of_transport = np.stack(images + [s.size**2, np.exp(-0.5 * s.size)], 1)


def ridge(x, y, weights, shrinkage=0.003):
    w = weights / weights.sum()
    mean, level = w @ x, w @ y
    deviation = np.sqrt(w @ (x - mean) ** 2) + 1e-9
    z = (x - mean) / deviation
    weighted = z * w[:, None]
    slopes = np.linalg.solve(weighted.T @ z + shrinkage * np.eye(x.shape[1]), weighted.T @ (y - level))
    return lambda new: level + ((new - mean) / deviation) @ slopes


class Members:
    def __init__(self, s, f, rows):
        variance = spread(s.accuracy) ** 2 / 4
        weights = variance**2 / (0.02**2 + variance / s.images)
        target = odds((s.accuracy * s.images + 0.5) / (s.images + 1))
        usual, sampled = rows & s.usual, rows & (s.shares == "sample")
        self.any = ridge(f.any[rows], target[rows], weights[rows])
        self.usual = ridge(f.usual[usual], target[usual], weights[usual])
        self.transport = ridge(f.of_transport[sampled], f.transport[sampled], np.ones(sampled.sum()))

    def look(self, f, rows):
        residual = f.transport[rows] - self.transport(f.of_transport[rows])
        return share(self.any(f.any[rows])), share(self.usual(f.usual[rows])), residual


def fit_scale(errors, spreads, images, class_shares, apart, kinds, grid):
    """The likeliest scale of errors, kinds counted alike."""
    _, number = np.unique(kinds, return_inverse=True)
    count = np.bincount(number)[number]
    steps = [np.linspace(low, high, 20) if high > low else [low] for low, high in grid]
    best = (np.inf, None)
    for kind in steps[0]:
        for chance in steps[1]:
            for classes in steps[2]:
                v = spreads**2 * (kind**2 + chance**2 / images + classes**2 * class_shares) + apart**2
                cost = ((np.log(v) + errors**2 / v) / count).sum()
                if cost < best[0]:
                    best = (cost, (kind, chance, classes))
    kind, chance, classes = best[1]
    return lambda sp, n, cs, ap: np.sqrt(sp**2 * (kind**2 + chance**2 / n + classes**2 * cs) + ap**2)


def quantile(sizes, weights, rest, level=0.9):
    """For every row of weights the smallest size that holds with this probability, `rest` being the weight of what is not known."""
    order = np.argsort(sizes)
    below = np.cumsum(weights[:, order], 1) / (weights.sum(1) + rest)[:, None]
    place = (below < level - 1e-9).sum(1)
    return np.where(place < len(sizes), sizes[order][np.minimum(place, len(sizes) - 1)], sizes.max() * 1.1)


class Fit:
    def __init__(self, s, extra=(), in_both=False):
        self.extra, self.in_both, self.known = extra, in_both, s
        f = self.features = Features(s, extra, in_both)
        self.members = Members(s, f, np.ones(len(s.accuracy), bool))
        any_shares, usual, residual = (np.full(len(s.accuracy), np.nan) for _ in range(3))
        for kind in s.kinds:
            rows = np.flatnonzero(s.kind == kind)
            any_shares[rows], usual[rows], residual[rows] = Members(s, f, s.kind != kind).look(f, rows)
        self.left_out = ~np.isnan(any_shares)
        sampled = self.left_out & (s.shares == "sample")
        one, none = np.ones(sampled.sum()), np.zeros(sampled.sum())
        grid = [(0.01, 0.6), (0, 6), (0, 0)]
        self.scale = fit_scale(residual[sampled], one, s.images[sampled], none, none, s.kind[sampled], grid)
        sizes = -residual[sampled] / self.scale(one, s.images[sampled], none, none)
        self.limit = quantile(sizes, counted_alike(s.kind[sampled])[None], np.ones(1))[0]
        self.allowed = self.allows(residual, s.images)
        self.estimate = np.where(self.allowed, 0.5 * (any_shares + usual), any_shares)
        self.apart = self.estimate - any_shares

    def allows(self, residual, images):
        return residual >= -self.limit * self.scale(1.0, images, 0.0, 0.0)

    def predict(self, s):
        any_shares, usual, residual = self.members.look(Features(s, self.extra, self.in_both), slice(None))
        allowed = self.allows(residual, s.images)
        estimate = np.where(allowed, 0.5 * (any_shares + usual), any_shares)
        return estimate, allowed, estimate - any_shares

    def half_widths(self, s, reach=None):
        """Of 90% intervals; with a `reach` kinds count by how near their signals lie."""
        estimate, allowed, apart = self.predict(s)
        known, half = self.known, np.zeros(len(estimate))
        for usual in (True, False):
            rows, targets = self.left_out & (self.allowed == usual), allowed == usual
            if min(len(set(known.kind[self.left_out & (self.allowed == u)])) for u in (True, False)) < 9:
                rows = self.left_out
            errors = self.estimate[rows] - known.accuracy[rows]
            at = (spread(self.estimate[rows]), known.images[rows], known.class_share[rows], self.apart[rows])
            scale = fit_scale(errors, *at, known.kind[rows], [(0.004, 0.156), (0.05, 0.81), (0, 0.6)])
            weights = np.broadcast_to(counted_alike(known.kind[rows]), (targets.sum(), rows.sum()))
            rest = np.ones(len(weights))
            if reach:
                near = [odds(known.cross), odds(known.confidence), odds(known.reverse), known.entropy, known.concentration]
                here = [odds(s.cross), odds(s.confidence), odds(s.reverse), s.entropy, s.concentration]
                away = sum(((b[targets][:, None] - a[rows]) / a.std()) ** 2 for a, b in zip(near, here))
                weights = weights * np.exp(-away / (2 * reach**2))
                rest = weights.sum(1) / len(set(known.kind[rows]))
            size = quantile(np.abs(errors) / scale(*at), weights, rest)
            half[targets] = size * scale(spread(estimate[targets]), s.images[targets], s.class_share[targets], apart[targets])
        a = np.clip(estimate, 0, 1)
        return np.hypot(half, 1.6449 * np.sqrt(a * (1 - a) / known.images.max()))


def counted_alike(kinds):
    """Weights with which every kind counts one."""
    _, number = np.unique(kinds, return_inverse=True)
    return 1 / np.bincount(number)[number]


def errors_without(fit, sets):
    """Mean error on kinds that are left out together."""
    s, f, found = fit.known, fit.features, []
    for kinds in sets:
        out = np.isin(s.kind, kinds)
        any_shares, usual, residual = Members(s, f, ~out).look(f, np.flatnonzero(out))
        allowed = fit.allows(residual, s.images[out])
        estimate = np.where(allowed, 0.5 * (any_shares + usual), any_shares)
        found.append(100 * np.abs(estimate - s.accuracy[out]).mean())
    return np.mean(found)


def halves(s):
    random = np.random.default_rng(0)
    return [random.choice(s.kinds, len(s.kinds) // 2, replace=False) for _ in range(12)]


def hardest(s):
    kinds = np.array(s.kinds)
    accuracy = [s.accuracy[s.kind == kind].mean() for kind in kinds]
    concentration = [np.abs(s.source_concentration[(s.kind == kind) & s.usual]).max() for kind in kinds]
    by = [kinds[np.argsort(accuracy)], kinds[np.argsort(concentration)[::-1]]]
    return [order[:count] for order in by for count in (3, 5, 7)]


C = {
    "s": lambda s: s.source_concentration,
    "s^2": lambda s: s.source_concentration**2,
    "s^3": lambda s: s.source_concentration**3,
    "g^2": lambda s: s.concentration**2,
    "s cross": lambda s: s.source_concentration * odds(s.cross),
    "s confidence": lambda s: s.source_concentration * odds(s.confidence),
    "g confidence": lambda s: s.concentration * odds(s.confidence),
    "s entropy": lambda s: s.source_concentration * s.entropy,
    "s^2 cross": lambda s: s.source_concentration**2 * odds(s.cross),
    "s^2 reverse": lambda s: s.source_concentration**2 * odds(s.reverse),
    "s^2 confidence": lambda s: s.source_concentration**2 * odds(s.confidence),
    "s^3 confidence": lambda s: s.source_concentration**3 * odds(s.confidence),
    "second confidence": lambda s: odds(s.second_confidence),
    "s^2 second confidence": lambda s: s.source_concentration**2 * odds(s.second_confidence),
    "|s - g|": lambda s: np.abs(s.source_concentration - s.concentration),
    "e^s / K": lambda s: np.exp(s.source_concentration) / s.classes,
    "e^s / K confidence": lambda s: np.exp(s.source_concentration) / s.classes * odds(s.confidence),
    "m^2": lambda s: s.few**2,
    "m^2 confidence": lambda s: s.few**2 * odds(s.confidence),
    "m^2 cross": lambda s: s.few**2 * odds(s.cross),
}
TRIALS = [((), False)]
TRIALS += [((name,), True) for name in C if not name.startswith("m")]
TRIALS += [(("s", "s^2"), True), (("s^2", "s^2 cross"), True), (("s^2", "s^2 cross"), False), (("s^2 confidence", "s^2 cross"), True)]
TRIALS += [(("s^2 confidence",), False), (("m^2",), False), (("m^2 confidence",), False), (("m^2 confidence",), True), (("m^2 confidence", "m^2 cross"), False)]
TESTED = [((), False), (("s^2", "s^2 cross"), True), (("s^2 confidence",), False), (("m^2 confidence",), False)]


def named(names, in_both):
    return (", ".join(names) + (" (in both)" if in_both else "")) if names else "none"


def main():
    data = {}
    for network in ALL:
        for seed in SEEDS:
            path = HERE / "signals" / f"{network}-{seed}.signals.jsonl"
            data[network, seed] = Samples(path, "calibration"), Samples(path, "test")
    print("`s` is the concentration of the source model's answers, `g` that of the second look's, `m = min(s, log 10)`; shares stand for their log-odds. Mean errors in points.\n")
    print("## Calibration samples: one kind left out / half of them / the hardest\n")
    print("| feature | " + " | ".join(CHOSEN_ON) + " |\n|---|" + "---|" * len(CHOSEN_ON))
    for names, in_both in TRIALS:
        row = []
        for network in CHOSEN_ON:
            found = []
            for seed in SEEDS:
                s, _ = data[network, seed]
                fit = Fit(s, [C[name] for name in names], in_both)
                one = 100 * np.abs(fit.estimate - s.accuracy)[fit.left_out].mean()
                found.append([one, errors_without(fit, halves(s)), errors_without(fit, hardest(s))])
            row.append(" / ".join(f"{value:.2f}" for value in np.mean(found, 0)))
        print(f"| {named(names, in_both)} | " + " | ".join(row) + " |", flush=True)
    print("\n## Test corruptions: mean error (of one class in ten alone), intervals that hold in %, half width\n")
    print("| feature | " + " | ".join(ALL) + " |\n|---|" + "---|" * len(ALL))
    for names, in_both in TESTED:
        row = []
        for network in ALL:
            found = []
            for seed in SEEDS:
                s, t = data[network, seed]
                fit = Fit(s, [C[name] for name in names], in_both)
                error, half = np.abs(fit.predict(t)[0] - t.accuracy), fit.half_widths(t)
                found.append([100 * error.mean(), 100 * error[t.shares == "subset10"].mean(), 100 * (error <= half).mean(), 100 * half.mean()])
            all_of, one, held, half = np.mean(found, 0)
            row.append(f"{all_of:.2f} ({one:.1f}), {held:.0f}, {half:.1f}")
        print(f"| {named(names, in_both)} | " + " | ".join(row) + " |", flush=True)
    print("\n## Intervals from kinds weighted by the distance of their signals: held in %, half width, interval score, least held corruption in %\n")
    networks = ["resnet26.cifar100", "resnet18.tiny_in200"]
    print("| reach | " + " | ".join(networks) + " |\n|---|" + "---|" * len(networks))
    for reach in (None, 0.7, 1, 1.5, 2.5):
        row = []
        for network in networks:
            found = []
            for seed in SEEDS:
                s, t = data[network, seed]
                fit = Fit(s, [C["m^2 confidence"]])
                error, half = np.abs(fit.predict(t)[0] - t.accuracy), fit.half_widths(t, reach)
                held = error <= half
                least = min(held[t.kind == kind].mean() for kind in t.kinds)
                found.append([100 * held.mean(), 100 * half.mean(), 100 * (2 * half + 20 * np.maximum(0, error - half)).mean(), 100 * least])
            row.append("{:.0f}, {:.1f}, {:.1f}, {:.0f}".format(*np.mean(found, 0)))
        print(f"| {reach or 'all alike'} | " + " | ".join(row) + " |", flush=True)
    sureness(data)


def sureness(data):
    """What the second look of the Tiny-ImageNet ResNets says of itself under the hardest severity."""
    networks = ["resnet18.tiny_in200", "resnet50.tiny_in200"]
    print("\n## The second look at severity 5, plain samples of 400 images and more: mean confidence / accuracy in %\n")
    print("| corruption | " + " | ".join(networks) + " |\n|---|" + "---|" * len(networks))
    rows = {}
    for network in networks:
        tests = [data[network, seed][1] for seed in SEEDS]
        for kind in tests[0].kinds:
            chosen = [(t, (t.name == f"{kind}:5") & t.usual & (t.images >= 400)) for t in tests]
            sure, right = (np.concatenate([getattr(t, what)[at] for t, at in chosen]).mean() for what in ("second_confidence", "second_accuracy"))
            rows.setdefault(kind, []).append((sure, right))
    for kind, found in sorted(rows.items(), key=lambda row: row[1][0][1] - row[1][0][0]):
        print(f"| {kind.split('/')[-1]} | " + " | ".join(f"{100 * sure:.0f} / {100 * right:.0f}" for sure, right in found) + " |")


if __name__ == "__main__":
    main()
