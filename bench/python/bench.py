"""The Python package beside published Python code, and what the door itself costs.

    python bench/python/bench.py estimators      # ATC and COT: flipcast, the authors' ATC code, POT's ot.emd (needs POT)
    python bench/python/bench.py memory          # peak memory of estimate() on 10,000 x 1,000 logits
    python bench/python/bench.py door WEIGHTS    # what adapter(batch) adds to a step of 16 x 3 x 224 x 224, with any weights

Times are processor seconds, so that a busy machine does them little harm, and the smallest of several runs.
"""

import json
import resource
import sys
import time

import flipcast
import numpy as np


def draw(seed: int, images: int, classes: int, sharpness: float):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, images)
    logits = rng.normal(size=(images, classes)).astype(np.float32)
    logits[np.arange(images), labels] += sharpness
    return 2 * logits, labels


def timed(work, runs: int):
    best, result = np.inf, None
    for _ in range(runs):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def softmax(logits):
    exps = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return exps / exps.sum(1, keepdims=True)


def find_atc_threshold(scores, is_right):
    """Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance" (`find_ATC_threshold` of their release)."""
    order = np.argsort(scores)
    sorted_scores, sorted_right = scores[order], is_right[order]
    false_positives, false_negatives = np.sum(is_right == 0), 0.0
    least, threshold = np.abs(false_positives - false_negatives), 0.0
    for score, right in zip(sorted_scores, sorted_right):
        false_positives -= right == 0
        false_negatives += right == 1
        if np.abs(false_positives - false_negatives) < least:
            least, threshold = np.abs(false_positives - false_negatives), score
    return threshold


def cot_of_pot(logits):
    """COT as published: one minus half the L1 transport cost from predictions to labels with uniform shares, by POT's exact solver."""
    import ot

    probs = softmax(logits)
    images, classes = probs.shape
    cost = ot.dist(probs, np.eye(classes), metric="cityblock")
    plan = ot.emd(np.full(images, 1 / images), np.full(classes, 1 / classes), cost, numItermax=10**8)
    return 1 - 0.5 * np.sum(plan * cost)


def estimators():
    rows = []
    for images, classes in ((2000, 10), (5000, 100), (10000, 200)):
        clean, labels = draw(1, images, classes, 4.0)
        new, truth = draw(2, images, classes, 3.0)
        calibration = flipcast.Calibration.fit(clean, labels)
        ours, found = timed(lambda: flipcast.estimate(new, calibration), 3)

        def published_atc():
            right = (clean.argmax(1) == labels).astype(int)
            threshold = find_atc_threshold(softmax(clean).max(1), right)
            return np.mean(softmax(new).max(1) >= threshold)

        atc_seconds, atc = timed(published_atc, 3)
        cot_seconds, cot = timed(lambda: cot_of_pot(new), 1)
        rows.append(
            dict(
                images=images, classes=classes, truth=float((new.argmax(1) == truth).mean()),
                flipcast_all_seconds=ours, estimators=len(found),
                atc_flipcast=found["atc_mc"].accuracy, atc_published=float(atc), atc_published_seconds=atc_seconds,
                cot_flipcast=found["cot"].accuracy, cot_pot=float(cot), cot_pot_seconds=cot_seconds,
            )
        )
        print(json.dumps(rows[-1]), flush=True)


def memory():
    logits, labels = draw(1, 10_000, 1000, 6.0)
    calibration = flipcast.Calibration.fit(logits[:2000], labels[:2000])

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before = peak()
    seconds, _ = timed(lambda: flipcast.estimate(logits, calibration), 1)
    after = peak()
    print(json.dumps(dict(logits_mib=logits.nbytes / 2**20, peak_before_mib=before, peak_after_mib=after, seconds=seconds)))


def door(weights: str):
    """What `adapter(batch)` does before the step: reads NumPy's floats and brings them into the engine's order. A batch over the limit is refused right after that."""
    step = flipcast.Adapter(flipcast.Model.load(weights), "tent", batch_size=8)
    batch = np.random.default_rng(0).normal(size=(16, 3, 224, 224)).astype(np.float32)

    def refused():
        try:
            step(batch)
        except flipcast.FlipcastError as error:
            assert "batch_size" in str(error), error

    print(json.dumps(dict(shape=batch.shape, door_seconds=timed(refused, 30)[0])))


if __name__ == "__main__":
    if sys.argv[1] == "door":
        door(sys.argv[2])
    else:
        {"estimators": estimators, "memory": memory}[sys.argv[1]]()
