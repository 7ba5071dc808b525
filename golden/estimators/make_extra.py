#!/usr/bin/env python3
"""Makes extra.json beside this file from arrays.safetensors: scores that need no transport, by their formulas in numpy.

Usage: python make_extra.py
Needs: numpy, safetensors.
"""
import json
import os

import numpy as np
from safetensors.numpy import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
arrays = load_file(os.path.join(HERE, "arrays.safetensors"))


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def logsumexp(z, axis):
    top = z.max(axis, keepdims=True)
    return np.log(np.exp(z - top).sum(axis)) + np.squeeze(top, axis)


def nll(z, y, temperature):
    z = z / temperature
    return (logsumexp(z, 1) - z[np.arange(len(y)), y]).mean()


def fit_temperature(z, y):
    """Golden-section search; in double precision it cannot tell temperatures closer than about 1e-8 apart."""
    low, high, ratio = np.log(0.05), np.log(20.0), (np.sqrt(5) - 1) / 2
    for _ in range(200):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if nll(z, y, np.exp(a)) < nll(z, y, np.exp(b)):
            high = b
        else:
            low = a
    return float(np.exp((low + high) / 2))


def ece(p, y, bins=15):
    confidence, right = p.max(1), p.argmax(1) == y
    edges = np.linspace(0, 1, bins + 1)
    total = 0.0
    for low, high in zip(edges[:-1], edges[1:]):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return float(total)


def importance(pv, yv, pt, bins=10):
    edges = np.linspace(0, 1, bins + 1)
    at = lambda p: np.clip(np.searchsorted(edges, p.max(1), side="right") - 1, 0, bins - 1)
    source, target = np.bincount(at(pv), minlength=bins), np.bincount(at(pt), minlength=bins)
    weights = (target / np.maximum(source, 1))[at(pv)]
    return float((weights / weights.mean() * (pv.argmax(1) == yv)).mean())


def mano(z, batch=64, order=4, threshold=5.0):
    k = z.shape[1]
    criterion = (logsumexp(z, 1) - z.mean(1)).mean()
    scores = []
    for start in range(0, len(z), batch):
        part = z[start : start + batch]
        if criterion > threshold:
            s = softmax(part)
        else:
            s = 1 + part + part**2 / 2
            s = s - s.min(1, keepdims=True)
            s = s / s.sum(1, keepdims=True)
        scores.append((s**order).mean() ** (1 / order))
    return dict(criterion=float(criterion), score=float(np.mean(scores)))


def mde(z):
    energy = -logsumexp(z, 1)
    return float(np.log(-(energy - logsumexp(energy, 0)).mean()))


cases = []
for name in ["k10", "k37_skewed", "k100"]:
    zv, zt, za = (arrays[f"{name}.{s}_logits"].astype(np.float64) for s in ["val", "test", "after"])
    yv = arrays[f"{name}.val_labels"]
    pv, pt = softmax(zv), softmax(zt)
    n, k = pt.shape
    temperature = fit_temperature(zv, yv)
    cases.append(
        dict(
            name=name,
            im=importance(pv, yv, pt),
            gde=float((zt.argmax(1) == za.argmax(1)).mean()),
            ece=ece(pv, yv),
            temperature=temperature,
            nll_before=float(nll(zv, yv, 1.0)),
            nll_after=float(nll(zv, yv, temperature)),
            nuclear_norm=float(np.linalg.svd(pt, compute_uv=False).sum() / np.sqrt(min(n, k) * n)),
            nuclear_norm_first_30=float(np.linalg.svd(pt[:30], compute_uv=False).sum() / np.sqrt(min(30, k) * 30)),
            mano=mano(zt),
            mano_sharpened=mano(4 * zt),
            mde=mde(zt),
        )
    )

points, labels = arrays["embed.points"].astype(np.float64), arrays["embed.labels"]
centre = points.mean(0)
groups = [points[labels == c] for c in range(6)]
scatter = sum(len(g) * ((g.mean(0) - centre) ** 2).sum() for g in groups)
with open(os.path.join(HERE, "extra.json"), "w") as file:
    json.dump(dict(cases=cases, dispersion=float(np.log(scatter / 5))), file, indent=1)
    file.write("\n")
