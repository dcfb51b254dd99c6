"""Photos are bounded in pixels before they are decoded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpunn.errors import FormatError
from gpunn.vision.pictures import load_photo
from tests.resources import ENVIRONMENT

PEAK = """
import resource, sys
from gpunn.vision.pictures import load_photo
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_photo(sys.argv[1])
except ValueError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("name", ["photo.png", "photo.tif", "photo.gif", "photo.bmp"])
def test_too_many_pixels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / name
    Image.new("L", (20, 10)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 200)
    assert load_photo(path).size == (20, 10)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 199)
    with pytest.raises(FormatError, match=f"{name}: has 20 x 10 pixels, at most 199 are read"):
        load_photo(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert load_photo(path).size == (20, 10)


@pytest.mark.parametrize(("most", "size"), [(76_800, (320, 240)), (76_799, (160, 120)), (38_400, (160, 120))])
def test_a_large_jpeg_is_decoded_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, size: tuple[int, int]
) -> None:
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (320, 240), "red").save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    photo = load_photo(path)
    assert photo.size == size
    assert np.abs(np.asarray(photo, np.int16) - (255, 0, 0)).max() <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in kilobytes on Linux")
@pytest.mark.parametrize(("mode", "most"), [("F", 16), ("I", 16), ("RGBA", 20)])
def test_memory(tmp_path: Path, mode: str, most: int) -> None:
    """A pixel takes at most so many bytes at a time: a deep grey one 4 decoded, 3 as RGB, and its bytes."""
    side = 3000
    path = tmp_path / "photo.tif"
    Image.new(mode, (side, side)).save(path, compression="tiff_lzw")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) << 20 <= side * side * most + (40 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in kilobytes on Linux")
def test_a_refused_picture_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.new("L", (13_300, 13_300)).save(path)  # 177 million pixels, below Pillow's own error
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], env=ENVIRONMENT, capture_output=True, text=True
    )
    reason, peak = done.stdout.splitlines()
    assert f"has 13300 x 13300 pixels, at most {Image.MAX_IMAGE_PIXELS} are read" in reason
    assert int(peak) < 20
    assert os.path.getsize(path) < 1 << 20
