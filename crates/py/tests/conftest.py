import gzip
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ASSETS = pathlib.Path(__file__).resolve().parents[2] / "cli" / "assets" / "demo"
CLASSES = 4


def draw(seed: int, images: int, sharpness: float):
    """Logits of images that a classifier tells apart with this sharpness, their labels, and a second look."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, images)
    logits = 2 * (sharpness * np.eye(CLASSES)[labels] + rng.normal(size=(images, CLASSES)))
    second = logits + rng.normal(size=logits.shape)
    return logits.astype(np.float32), labels, second.astype(np.float32)


@pytest.fixture(scope="session")
def clean():
    return draw(1, 600, 3.0)


@pytest.fixture(scope="session")
def cells():
    sharpness = {"fog:1": 2.5, "fog:3": 1.5, "night": 2.0, "blur:2": 2.2}
    return {name: draw(10 + n, 600, s) for n, (name, s) in enumerate(sharpness.items())}


@pytest.fixture(scope="session")
def pictures():
    """The first images of the demo, as bytes, and their labels."""
    images = gzip.decompress((ASSETS / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((ASSETS / "t10k-labels-idx1-ubyte.gz").read_bytes())
    rows, columns = (int.from_bytes(images[at : at + 4], "big") for at in (8, 12))
    pixels = np.frombuffer(images[16:], np.uint8).reshape(-1, rows, columns)
    return pixels, np.frombuffer(labels[8:], np.uint8).astype(np.int64)


def program(*arguments: object) -> subprocess.CompletedProcess:
    """Runs the program inside the package."""
    command = [sys.executable, "-m", "flipcast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def printed(*arguments: object) -> dict:
    """The object that the program prints."""
    done = program(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
