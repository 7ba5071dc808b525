"""The examples run."""

import pathlib
import subprocess
import sys

import numpy as np
from conftest import ASSETS

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def run(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_estimates_from_saved_logits():
    assert "estimated 0." in run("saved_logits.py")


def test_a_stream_is_adapted_to(tmp_path, pictures):
    images, labels = pictures
    np.save(tmp_path / "images.npy", images[:192])
    np.save(tmp_path / "labels.npy", labels[:192])
    told = run("adapt_stream.py", ASSETS / "resnet20.fashion_mnist.safetensors", tmp_path / "images.npy", tmp_path / "labels.npy")
    assert "while adapting" in told


def test_a_network_is_calibrated_estimated_and_adapted(tmp_path, pictures):
    images, labels = pictures
    np.save(tmp_path / "images.npy", images[:128])
    np.save(tmp_path / "labels.npy", labels[:128])
    told = run("own_network.py", ASSETS / "resnet20.fashion_mnist.safetensors", tmp_path / "images.npy", tmp_path / "labels.npy")
    assert "estimated 0." in told and "while adapting" in told


def test_images_to_label_are_chosen():
    told = run("which_to_label.py")
    assert "as good as" in told and "2048 images" in told
