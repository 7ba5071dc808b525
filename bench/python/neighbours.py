"""The calls of NannyML and alibi-detect beside flipcast's, on the same outputs of a classifier: what `docs/from-nannyml.md` shows.

    python bench/python/neighbours.py nannyml          # with nannyml and the flipcast wheel installed
    python bench/python/neighbours.py alibi-detect     # with alibi-detect and the flipcast wheel installed

A classifier of 5 classes whose sharpness a shift takes away, and whose confidence it raises: what a reference set alone cannot tell. One row per set of new images: the truth, theirs, ours.
"""

import json
import sys

import flipcast
import numpy as np

CLASSES, IMAGES, CHUNK = 5, 2000, 250


def outputs(seed, sharpness, heat=1.0, images=IMAGES, shares=None):
    """Logits and labels of images that are told apart with this sharpness, the confidence raised by `heat`."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(CLASSES, images, p=shares)
    logits = sharpness * np.eye(CLASSES)[labels] + rng.normal(size=(images, CLASSES))
    return (heat * sharpness * logits).astype(np.float32), labels


def probabilities(logits):
    exps = np.exp(logits - logits.max(1, keepdims=True))
    return exps / exps.sum(1, keepdims=True)


def calibration():
    """From the same reference set that the others get, and from labelled images under three conditions."""
    cells = {}
    for number, (kind, heat) in enumerate((("fog", 1.1), ("night", 1.25), ("blur", 1.4))):
        for severity, loss in ((1, 0.5), (3, 1.0), (5, 1.5)):
            cells[f"{kind}:{severity}"] = outputs(100 + 10 * number + severity, 2.5 - loss, heat)
    return flipcast.Calibration.fit(*outputs(1, 2.5), cells=cells, temperature=True)


def new_sets():
    yield "as before", outputs(2, 2.5)
    yield "harder", outputs(3, 1.8)
    yield "harder, overconfident", outputs(4, 1.3, 1.3)
    yield "other class shares", outputs(5, 2.5, shares=[0.6, 0.1, 0.1, 0.1, 0.1])


def ours(logits, known):
    found = flipcast.estimate(logits, known)
    return dict(ac=round(found["ac"].accuracy, 3), combined=round(found.accuracy, 3), interval=[round(end, 3) for end in found.interval], flags=found.flags)


def nannyml():
    import nannyml as nml
    import pandas as pd

    def frame(logits, labels):
        columns = {f"p_{c}": column for c, column in enumerate(probabilities(logits).T)}
        return pd.DataFrame({**columns, "y_pred": logits.argmax(1), "y_true": labels})

    estimator = nml.CBPE(
        problem_type="classification_multiclass", y_pred="y_pred", y_true="y_true", metrics=["accuracy"], chunk_size=CHUNK,
        y_pred_proba={c: f"p_{c}" for c in range(CLASSES)},
    )
    estimator.fit(frame(*outputs(1, 2.5)))
    known = calibration()
    print(json.dumps(dict(nannyml=nml.__version__, flipcast=flipcast.__version__)))
    for name, (logits, labels) in new_sets():
        result = estimator.estimate(frame(logits, labels).drop(columns="y_true")).filter(period="analysis").to_df()
        rows = result["accuracy"]
        theirs = dict(mean=round(float(rows["value"].mean()), 3), chunks=len(rows), alerts=int(rows["alert"].sum()))
        print(json.dumps(dict(images=name, truth=float(np.mean(logits.argmax(1) == labels)), cbpe=theirs, flipcast=ours(logits, known))))


def alibi_detect():
    import alibi_detect
    from alibi_detect.cd import ChiSquareDrift, KSDrift

    reference = outputs(1, 2.5)[0]
    drift = KSDrift(probabilities(reference), p_val=0.05)
    classes = ChiSquareDrift(reference.argmax(1)[:, None], p_val=0.05, categories_per_feature={0: list(range(CLASSES))})
    known = calibration()
    print(json.dumps(dict(alibi_detect=alibi_detect.__version__, flipcast=flipcast.__version__)))
    for name, (logits, labels) in new_sets():
        told = drift.predict(probabilities(logits))["data"]
        chi = classes.predict(logits.argmax(1)[:, None])["data"]
        theirs = dict(ks=bool(told["is_drift"]), chi_square_of_predictions=bool(chi["is_drift"]))
        print(json.dumps(dict(images=name, truth=float(np.mean(logits.argmax(1) == labels)), is_drift=theirs, flipcast=ours(logits, known))))


if __name__ == "__main__":
    {"nannyml": nannyml, "alibi-detect": alibi_detect}[sys.argv[1]]()
