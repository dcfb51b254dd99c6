"""The demos run as their first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from tests.resources import ENVIRONMENT, ROOT


def demo(name: str, *args: object) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "demos" / name, *map(str, args)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_classify_names_three_classes(tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (40, 40, 3), np.uint8)).save(photo)
    *guesses, where = demo("classify.py", photo, "--backend", "cpu").splitlines()
    labels = gpunn.load(vision.default_model()).labels
    assert len(guesses) == 3
    assert all(line.split()[1] in labels for line in guesses)
    assert where.startswith("on ")


def test_classify_knows_the_cat_of_scikit_image() -> None:
    pytest.importorskip("skimage", reason="scikit-image is not installed (extra: demo)")
    assert demo("classify.py", "--backend", "cpu").splitlines()[0].endswith("cat")
