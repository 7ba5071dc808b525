"""Makes golden/embed: clusters and maps by scikit-learn of points drawn here.

Usage: python tools/make_embed_goldens.py golden/embed
Needs numpy, scikit-learn and safetensors.
"""

import json
import sys
from pathlib import Path

import numpy as np
import sklearn
from safetensors.numpy import save_file
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import silhouette_score

POINTS, DIMS, CLASSES = 360, 24, 7


def draw(random):
    """Overlapping classes of different size and width, never negative, as pooled activations are."""
    shares = np.arange(1, CLASSES + 1) ** 1.5
    classes = random.choice(CLASSES, POINTS, p=shares / shares.sum())
    means = 2.2 * random.standard_normal((CLASSES, DIMS))
    widths = random.uniform(0.6, 1.6, (CLASSES, DIMS))
    points = means[classes] + widths[classes] * random.standard_normal((POINTS, DIMS))
    return np.maximum(points, 0).astype(np.float32), classes


def main(folder):
    points, classes = draw(np.random.default_rng(20))
    wide = points.astype(np.float64)
    expected = {"scikit-learn": sklearn.__version__, "kmeans": {}, "trustworthiness": {}, "tsne": {}}
    for clusters in (2, 7, 16):
        found = KMeans(clusters, n_init=50, tol=0, max_iter=1000, random_state=0).fit(wide)
        expected["kmeans"][str(clusters)] = {
            "inertia": found.inertia_,
            "silhouette": float(silhouette_score(wide, found.labels_)),
        }
    # A projection, so that no two points are equally far from a third.
    layout = np.ascontiguousarray(wide @ np.random.default_rng(21).standard_normal((DIMS, 2)))
    for neighbours in (1, 5, 12):
        expected["trustworthiness"][str(neighbours)] = trustworthiness(wide, layout, n_neighbors=neighbours)
    for perplexity in (10, 30):
        found = TSNE(perplexity=perplexity, method="exact", init="pca", learning_rate="auto", random_state=0)
        mapped = found.fit_transform(wide)
        expected["tsne"][str(perplexity)] = {
            "kl": float(found.kl_divergence_),
            "trustworthiness": trustworthiness(wide, mapped, n_neighbors=5),
        }
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"points": points, "classes": classes.astype(np.int64), "layout": layout}
    save_file(arrays, folder / "arrays.safetensors")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
