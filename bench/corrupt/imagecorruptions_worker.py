"""The Python side of bench_corrupt.py: `imagecorruptions_worker.py PICTURE.png PICTURE.rgb`.

Writes the picture's bytes to the second file, prints the names of the corruptions, and answers every line
`NAME SEVERITY REPEATS` with that many times in milliseconds, after one run to warm up.

`imagecorruptions` 1.1.2 needs numpy 1 and calls scikit-image's `gaussian` with an argument that release 0.20 dropped, which
is translated here. Its elastic_transform has other constants and no affine part, so that row compares different work.
"""
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import cv2
import imagecorruptions.corruptions as inner
import numpy as np
from imagecorruptions import corrupt, get_corruption_names
from PIL import Image
from skimage.filters import gaussian


def translated(*args, multichannel=None, **kwargs):
    if multichannel:
        kwargs["channel_axis"] = -1
    return gaussian(*args, **kwargs)


def main():
    inner.gaussian = translated
    cv2.setNumThreads(1)
    picture = np.array(Image.open(sys.argv[1]))
    picture.tofile(sys.argv[2])
    print(*get_corruption_names("all"), flush=True)
    warm = set()
    for line in sys.stdin:
        name, severity, repeats = line.split()
        severity, repeats = int(severity), int(repeats)
        # The numba loop of glass_blur and others compile on their first call; later turns need no long warm-up.
        if repeats > 1 or name not in warm:
            corrupt(picture, corruption_name=name, severity=severity)
            warm.add(name)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            corrupt(picture, corruption_name=name, severity=severity)
            times.append("%.4f" % ((time.perf_counter() - start) * 1e3))
        print(*times, flush=True)


if __name__ == "__main__":
    main()
