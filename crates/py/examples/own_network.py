# %% [markdown]
# # A network of your own, end to end
#
# How accurate is it on images that nobody labelled, and does adapting help? The network is a weight file here; with PyTorch at hand it is
# `flipcast.Model.from_torch(net, torch.zeros(2, 3, 224, 224), mean=..., std=..., resize=256, crop=224)`.
#
#     python own_network.py WEIGHTS IMAGES.npy LABELS.npy

# %%
import sys

import flipcast
import numpy as np

weights, images, labels = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
if images.ndim == 3:
    images = np.repeat(images[..., None], 3, axis=3)
# What a model card beside the weights does not tell goes here: mean=0.286, std=0.353, resize=..., crop=...
model = flipcast.Model.load(weights)
half = len(images) // 2

# %% Once: labelled clean images teach how accuracy shows in outputs. A few shifts are enough for an example; leave `shifts` and `protocol` out in earnest.
calibration = model.calibrate(
    images[:half], labels[:half], protocol="statistics", shifts="fog:3,snow:3,contrast:3,gaussian_noise:3,defocus_blur:3"
)
print(calibration)


# %% As often as you like: images nobody labelled, here in batches as a loader gives them. The truth is known here, and is not used.
def loader():
    for start in range(half, len(images), 32):
        fog = flipcast.Corruption("fog", severity=4, seed=1)
        yield np.stack([fog(image, index=start + i) for i, image in enumerate(images[start : start + 32])])


estimate = model.estimate(loader(), calibration, labels=labels[half:])
print(f"estimated {estimate.accuracy:.3f}, interval {estimate.interval[0]:.3f} to {estimate.interval[1]:.3f}, truth {estimate.truth:.3f}")

# %% Adapting while predicting.
adapter = flipcast.Adapter(model, "rdumb", batch_size=32)
adapted = np.concatenate([adapter(batch) for batch in loader()])
print(f"{np.mean(adapted.argmax(1) == labels[half:]):.3f} while adapting")
