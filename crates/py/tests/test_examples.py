"""The examples run: scripts as they are, of notebooks the code cells one after the other."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import ASSETS

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
WEIGHTS = ASSETS / "resnet20.fashion_mnist.safetensors"


def run(name, folder, **environment):
    path = EXAMPLES / name
    code = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(code)["cells"] if cell["cell_type"] == "code"]
        assert not any(cell["outputs"] for cell in cells), "outputs go stale"
        code = "\n\n".join("".join(cell["source"]) for cell in cells)
    (folder / "example.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "example.py"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path, pictures):
    images, labels = pictures
    np.save(tmp_path / "images.npy", images[:128])
    np.save(tmp_path / "labels.npy", labels[:128])
    return tmp_path


def test_estimates_from_saved_logits(tmp_path):
    told = run("saved_logits.ipynb", tmp_path)
    assert "estimated 0." in told and "class 2: share 0." in told


def test_a_stream_is_adapted_to(folder):
    assert "while adapting" in run("adapt_stream.py", folder, NETWORK=str(WEIGHTS))


def test_a_network_is_calibrated_estimated_and_adapted(folder):
    told = run("own_network.ipynb", folder, NETWORK=str(WEIGHTS))
    assert "estimated 0." in told and "while adapting" in told


def test_images_to_label_are_chosen(tmp_path):
    told = run("which_to_label.ipynb", tmp_path)
    assert "as good as" in told and "2048 images" in told
