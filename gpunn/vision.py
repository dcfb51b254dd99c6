"""Photos in, class names out: what an image classifier needs around its network."""

from __future__ import annotations

import errno
import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.model import Model, Operand
from gpunn.types import Array, DType

MEAN = STD = 127.5  # bytes become -1 ... 1, the convention of the MobileNet family
MAX_LABEL_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class PhotoInput:
    """What a classifier takes: `batch` photos of height x width pixels, each value (byte - mean) / std."""

    batch: int
    height: int
    width: int
    channels: int
    mean: float
    std: float

    def values(self, photo: Image.Image) -> Array:
        """A photo as float32 [height, width, channels]; the whole photo is squashed to that size."""
        small = photo.resize((self.width, self.height), Image.Resampling.BILINEAR)
        pixels = np.asarray(small if self.channels == 3 else small.convert("L"), np.float32)
        return ((pixels - np.float32(self.mean)) / np.float32(self.std)).reshape(
            self.height, self.width, self.channels
        )

    def batches(self, photos: Iterator[Array]) -> Iterator[Array]:
        """Photos gathered into arrays of the model's batch size; zeros fill up the last one."""
        while rows := list(itertools.islice(photos, self.batch)):
            full = np.zeros((self.batch, self.height, self.width, self.channels), np.float32)
            full[: len(rows)] = rows
            yield full


@dataclass(frozen=True, slots=True)
class Guess:
    """One class and what the model gives for it."""

    index: int
    label: str
    score: float


def default_model() -> Path:
    """The classifier that is part of the package: ten classes of CIFAR-10."""
    return Path(str(files("gpunn") / "data" / "cifar10_mobilenet.tflite"))


def photo_input(model: Model, mean: float = MEAN, std: float = STD) -> PhotoInput:
    """What `model` takes; ModelError or UnsupportedError when that is no photo."""
    if not np.isfinite([mean, std]).all() or std == 0:
        raise ModelError(f"mean and std must be finite and std not 0, got mean {mean} and std {std}")
    operand = _only(model, model.inputs, "input")
    shape = operand.type.shape
    if len(shape) != 4 or shape[3] not in (1, 3) or 0 in shape:
        raise ModelError(
            f"{model.name} does not take photos: its input {operand.name!r} has shape {list(shape)}, "
            "expected [batch, height, width, 1 or 3]"
        )
    if operand.type.dtype is not DType.FLOAT32:
        raise UnsupportedError(
            f"{model.name}: input {operand.name!r} is {operand.type.dtype.value}, photos become float32 only"
        )
    return PhotoInput(*shape, mean, std)


def class_count(model: Model) -> int:
    """How many classes the output of `model` tells apart; ModelError when it is no classifier's output."""
    batch = photo_input(model).batch
    operand = _only(model, model.outputs, "output")
    shape = operand.type.shape
    if not shape or shape[-1] < 2 or operand.type.size != batch * shape[-1]:
        raise ModelError(
            f"{model.name} is not a classifier: its output {operand.name!r} has shape {list(shape)}, "
            "expected [batch, classes]"
        )
    if operand.type.dtype is not DType.FLOAT32:
        raise UnsupportedError(
            f"{model.name}: output {operand.name!r} is {operand.type.dtype.value}, scores must be float32"
        )
    return shape[-1]


def _only(model: Model, operands: Sequence[Operand], role: str) -> Operand:
    if len(operands) != 1:
        raise ModelError(f"{model.name} has {len(operands)} {role}s, a photo classifier has one")
    return operands[0]


def class_labels(model: Model, file: Path | None = None) -> tuple[str, ...]:
    """A name for each class: from `file`, else from the model, else "class 0", "class 1" ..."""
    count = class_count(model)
    if file is None and not model.labels:
        return tuple(f"class {index}" for index in range(count))
    labels = model.labels if file is None else _read_labels(file)
    if len(labels) != count:
        raise FormatError(f"{file or model.name} has {len(labels)} labels, the model has {count} classes")
    return labels


def _read_labels(file: Path) -> tuple[str, ...]:
    with file.open("rb") as stream:
        data = stream.read(MAX_LABEL_BYTES + 1)
    if len(data) > MAX_LABEL_BYTES:
        raise FormatError(f"{file}: more than {MAX_LABEL_BYTES} bytes, expected one label a line")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: not UTF-8 text, expected one label a line: {error.reason}") from None
    return tuple(line.strip() for line in text.rstrip().splitlines())


def top(scores: Array, labels: Sequence[str], count: int) -> tuple[Guess, ...]:
    """The `count` classes with the highest scores, best first; of equals the first class."""
    order = np.argsort(-scores, kind="stable")[:count]
    return tuple(Guess(int(index), labels[index], float(scores[index])) for index in order)


def are_probabilities(scores: Array) -> bool:
    """Whether scores are a distribution: none negative, 1 in sum."""
    return bool((scores >= 0).all() and abs(float(scores.sum(dtype=np.float64)) - 1) < 1e-3)


def load_photo(path: Path) -> Image.Image:
    """Any picture that Pillow reads as 8-bit RGB: upright as EXIF says, transparency on white, first frame.

    Raises FormatError when it is no picture, damaged, or larger than Pillow's limit against
    decompression bombs, and OSError when the file cannot be opened.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with path.open("rb") as stream, warnings.catch_warnings():
        # Pillow warns of what it repairs and of photos above half its limit; both are fine here.
        warnings.simplefilter("ignore")
        try:
            with Image.open(stream) as image:
                return _rgb(_eight_bit(ImageOps.exif_transpose(image)))
        except UnidentifiedImageError:
            raise FormatError(f"{path}: not a picture in a format that Pillow reads") from None
        except Exception as error:  # Pillow's decoders raise whatever a damaged file leads them to
            raise FormatError(f"{path}: cannot be read as a picture: {error}") from error


def _eight_bit(image: Image.Image) -> Image.Image:
    """Deep grey brought to 0..255.

    16 bits are divided by 257; 32 bits and floats, which state no range, go from the darkest to the lightest.
    """
    if image.mode.startswith("I;16"):
        scaled = np.asarray(image, np.float32) / 257
    elif image.mode in ("I", "F"):
        values = np.nan_to_num(np.asarray(image, np.float64))
        low, high = values.min(), values.max()
        scaled = (values - low) * (255 / (high - low) if high > low else 0)
    else:
        return image
    return Image.fromarray(np.rint(scaled).astype(np.uint8))


def _rgb(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque)
    return image.convert("RGB")
