"""False alarms of the test of class shares, simulated: how often its e-value reaches 10, 30, 100 and 300 in streams whose classes come as in the reference.

    python3 bench/serve/class_test_simulation.py CLASSES REFERENCE IMAGES RUNS POOL

With POOL 0 reference and stream have one source, the uniform distribution. With another, every stream draws with replacement from POOL images of that source. `old` bets on the classes
seen of late, `cells16` and so on on the ranks seen of late, in 16 equal cells and so on. A factor of 1 is what is allowed at most.
"""

import sys

import numpy as np

classes, known, images, runs, pool = map(int, sys.argv[1:6])
random = np.random.default_rng(1)
source = np.full(classes, 1 / classes)
PRIOR, TRUST = 50.0, np.array([0.1, 0.4, 1.0])
each = np.arange(runs)


def kept(step):
    return 1 / np.log(np.e + step)


class Wealth:
    def __init__(self):
        self.bets, self.steps, self.highest = np.zeros((runs, len(TRUST))), 0, np.zeros(runs)

    def update(self, ratio):
        begun = (kept(self.steps) - kept(self.steps + 1)) / len(TRUST)
        self.bets = (self.bets + begun) * (1 + TRUST * (ratio - 1)[:, None])
        self.steps += 1
        self.highest = np.maximum(self.highest, self.bets.sum(1) + kept(self.steps))


counts = random.multinomial(known, source, size=runs).astype(float)
shares = random.multinomial(pool, source, size=runs) / pool if pool else np.tile(source, (runs, 1))
ends = np.cumsum(shares, 1)
recent, old = np.zeros((runs, classes)), Wealth()
cells = {count: (np.zeros((runs, count)), Wealth()) for count in (16, 32, 64)}
for step in range(images):
    label = np.minimum((random.random((runs, 1)) > ends).sum(1), classes - 1)
    below = np.cumsum(counts, 1)
    total, same = below[:, -1], counts[each, label]
    rank = (below[each, label] - same + random.random(runs) * (same + 1)) / (total + 1)
    share = (counts + 1 / classes) / (total + 1)[:, None]
    place = np.minimum((np.cumsum(share, 1) < rank[:, None]).sum(1), classes - 1)
    expected = share[each, place]
    old.update((recent[each, place] + PRIOR * expected) / (recent.sum(1) + PRIOR) / expected)
    recent *= 1 - 1 / (200 + 20 * classes)
    recent[each, label] += 1
    for count, (seen, wealth) in cells.items():
        cell = np.minimum((rank * count).astype(int), count - 1)
        wealth.update(count * (seen[each, cell] + PRIOR / count) / (seen.sum(1) + PRIOR))
        seen *= 1 - 1 / (200 + 20 * count)
        seen[each, cell] += 1
    counts[each, label] += 1
for name, wealth in [("old", old)] + [(f"cells{count}", wealth) for count, (_, wealth) in cells.items()]:
    reached = [(line, np.mean(wealth.highest >= line)) for line in (10, 30, 100, 300)]
    print(name, *[f"{line}: {share:.4f} ({line * share:.2f} of what is allowed)" for line, share in reached], sep=", ", flush=True)
