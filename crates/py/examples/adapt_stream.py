"""A network that adapts to a stream of noisy images, and what that does to its accuracy.

    NETWORK=net.pt2 python adapt_stream.py

`images.npy` are bytes, [images, height, width, 3] or [images, height, width], and `labels.npy` their classes.
"""

import os

import flipcast
import numpy as np

images, labels = np.load("images.npy"), np.load("labels.npy")
if images.ndim == 3:
    images = np.repeat(images[..., None], 3, axis=3)
noisy = flipcast.corrupt("gaussian_noise", images, severity=5, seed=0)

model = flipcast.Model.load(os.environ.get("NETWORK", "net.pt2"))
adapter = flipcast.Adapter(model, "tent", batch_size=64)
adapted = np.concatenate([adapter(noisy[start : start + 64]) for start in range(0, len(noisy), 64)])
source = model.predict(noisy)
print(f"{model}: {np.mean(source.argmax(1) == labels):.3f} as it is, {np.mean(adapted.argmax(1) == labels):.3f} while adapting")
