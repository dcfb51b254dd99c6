"""Pictures that show a class of CIFAR-10, and pictures that show none: for calibration.py, detectors.py."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import skimage.data
from PIL import Image, UnidentifiedImageError

from gpunn.types import Array

SIZE = 32
SAMPLES = Path(skimage.data.__file__).parent
TEXTURES = "brick.png", "grass.png", "gravel.png"
SHOW_A_CLASS = "chelsea.png", "horse.png"  # of scikit-image's pictures: a cat, and the outline of a horse
IDX_HEADER = 16  # bytes before the pixels of an MNIST file of pictures
DIGIT = 28


def cifar_pictures(
    archive: Path, labels: Sequence[str], part: str = "test", every: int = 1
) -> tuple[Array, Array]:
    """Return pictures of CIFAR-10 [N, 32, 32, 3] uint8, and the numbers of their classes, in order of names.

    part: test or train. every: take each picture whose number is a multiple of this.
    """
    found: dict[str, tuple[Array, int]] = {}
    with tarfile.open(archive) as files:
        for member in files:
            path = PurePosixPath(member.name)
            if path.suffix == ".jpg" and path.parts[-3] == part and (file := files.extractfile(member)):
                picture = np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB"))
                found[member.name] = picture, labels.index(path.parts[-2])
    rows = [found[name] for name in sorted(found)[::every]]
    return np.stack([picture for picture, _ in rows]), np.array([number for _, number in rows])


def unknown_pictures(digits: Path | None) -> dict[str, Array]:
    """Return groups [N, 32, 32, 3] uint8 of pictures outside CIFAR-10; `digits` is a file of MNIST's."""
    rng = np.random.default_rng(0)
    groups = {
        "photos and drawings": [small(picture) for picture in _samples()],
        "textures": [_crop(rng, SAMPLES / TEXTURES[n % len(TEXTURES)]) for n in range(300)],
        "faces": [small(Image.fromarray(np.uint8(face * 255))) for face in _faces()],
        "noise": [rng.integers(0, 256, (SIZE, SIZE, 3), np.uint8) for _ in range(300)],
        "coarse noise": [_coarse(rng, int(rng.integers(2, 17))) for _ in range(300)],
        "plain colours": [np.full((SIZE, SIZE, 3), rng.integers(0, 256, 3), np.uint8) for _ in range(100)],
    }
    if digits is not None:
        groups["digits"] = [small(Image.fromarray(digit)) for digit in _digits(digits)[:1000]]
    return {name: np.stack(pictures) for name, pictures in groups.items()}


def small(picture: Image.Image) -> Array:
    """Return a picture as a classifier of CIFAR-10 gets it, before it is scaled: [32, 32, 3] uint8."""
    return np.asarray(picture.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def _samples() -> Iterator[Image.Image]:
    """Yield scikit-image's pictures that show neither a class nor a texture."""
    for path in sorted(SAMPLES.iterdir()):
        if path.suffix in (".png", ".jpg", ".gif", ".tif") and path.name not in TEXTURES + SHOW_A_CLASS:
            with contextlib.suppress(UnidentifiedImageError), Image.open(path) as picture:  # an odd TIFF
                yield picture


def _faces() -> Array:
    """Return the 100 faces, [100, 25, 25] from 0 to 1, of scikit-image's part of LFW."""
    return np.asarray(np.load(SAMPLES / "lfw_subset.npy"))[:100]


def _crop(rng: np.random.Generator, path: Path) -> Array:
    side = int(rng.integers(64, 257))
    with Image.open(path) as picture:
        left, top = (int(rng.integers(0, extent - side + 1)) for extent in picture.size)
        return small(picture.crop((left, top, left + side, top + side)))


def _coarse(rng: np.random.Generator, cells: int) -> Array:
    return small(Image.fromarray(rng.integers(0, 256, (cells, cells, 3), np.uint8)))


def _digits(path: Path) -> Array:
    pixels = gzip.decompress(path.read_bytes())[IDX_HEADER:]
    return np.frombuffer(pixels, np.uint8).reshape(-1, DIGIT, DIGIT)
