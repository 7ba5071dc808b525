"""A network that adapts to a stream of noisy images, and what that does to its accuracy.

    python adapt_stream.py WEIGHTS IMAGES.npy LABELS.npy

IMAGES are bytes, [images, height, width, 3] or [images, height, width].
"""

import sys

import flipcast
import numpy as np

weights, images, labels = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
if images.ndim == 3:
    images = np.repeat(images[..., None], 3, axis=3)
noisy = flipcast.corrupt("gaussian_noise", images, severity=5, seed=0)

model = flipcast.Model.load(weights)
adapter = flipcast.Adapter(model, "tent", batch_size=64)
adapted = np.concatenate([adapter(noisy[start : start + 64]) for start in range(0, len(noisy), 64)])
source = model.predict(noisy)
print(f"{model}: {np.mean(source.argmax(1) == labels):.3f} as it is, {np.mean(adapted.argmax(1) == labels):.3f} while adapting")
