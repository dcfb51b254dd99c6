"""Photos in, class names out: the input and output of image classifiers."""

from __future__ import annotations

import errno
import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from gpunn.errors import FormatError, MissingFileError, ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.pixels import Numbers, PixelScale, text_of
from gpunn.ops.fixed_point.affine import LIMITS, dequantize, quantize
from gpunn.types import Array, DType, Quantization, TensorType

MEAN = STD = 127.5  # bytes become -1 ... 1, the convention of the MobileNet family
QUANTISED = (DType.UINT8, DType.INT8)
ROUNDING = 1e-3  # that float32 scores may be from 1 in sum
MAX_LABEL_BYTES = 1 << 24
PIXEL_ERROR = 0.01  # how far a float32 value may be from a byte, scaled back
BYTES = Quantization((1.0,), (0,))  # of an input whose values are the bytes of a photo


ScaleOrigin = Literal["given", "file", "default", "model"]


@dataclass(frozen=True, slots=True)
class PhotoInput:
    """The input of a classifier: tensors `type` of [batch, height, width, channels].

    A value stands for the real number (byte - mean) / std; both may be one number for each channel. If mean
    and std are None, which a quantised type allows, the bytes are stored unchanged, in int8 less 128.
    `origin` says who chose the scale: the caller, the file's metadata, the default, or the model, which
    scales the bytes itself.
    """

    type: TensorType
    mean: Numbers | None
    std: Numbers | None
    origin: ScaleOrigin = "given"

    @property
    def batch(self) -> int:
        """Return the number of photos in a batch."""
        return self.type.shape[0]

    @property
    def scale(self) -> str:
        """Describe the values of pixels: "-1..1", "0..255", "bytes" for a quantised type, ..."""
        return "bytes" if self.mean is None or self.std is None else str(PixelScale(self.mean, self.std))

    @property
    def channels(self) -> int:
        """Return 3 for colour, 1 for grey."""
        return self.type.shape[3]

    def values(self, photo: Image.Image) -> Array:
        """Convert a photo to [height, width, channels]; the whole photo is resized to that size."""
        one = self.type.with_shape(self.type.shape[1:])
        height, width, channels = one.shape
        small = photo.resize((width, height), Image.Resampling.BILINEAR)
        return self.stored(np.asarray(small if channels == 3 else small.convert("L")).reshape(one.shape))

    def stored(self, pixels: Array) -> Array:
        """Convert bytes of any shape to values of the input; the last axis is the channels."""
        type = self.type.with_shape(pixels.shape)
        if self.mean is None or self.std is None:
            lowest, _ = LIMITS[type.dtype]
            return (pixels.astype(np.int16) + lowest).astype(type.dtype.numpy)
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        return quantize((pixels.astype(np.float32) - mean) / std, type)

    def pixels(self, values: Array) -> Array:
        """Convert values of the input back to bytes.

        Raises ModelError if they stand for other numbers than 0 to 255.
        """
        if self.mean is None or self.std is None:
            lowest, _ = LIMITS[self.type.dtype]
            return (values.astype(np.int16) - lowest).astype(np.uint8)
        real = dequantize(values, self.type.with_shape(values.shape)).astype(np.float64)
        std = np.asarray(self.std, np.float64)
        found = real * std + np.asarray(self.mean, np.float64)
        nearest = np.clip(np.rint(np.nan_to_num(found)), 0, 255)
        step = 0.0 if self.type.quantization is None else self.type.quantization.scale[0]
        if not (np.abs(found - nearest) <= PIXEL_ERROR + np.abs(step * std)).all():
            raise ModelError(
                f"the values are no pixels 0 to 255, less mean {text_of(self.mean)} and divided by std "
                f"{text_of(self.std)}"
            )
        return nearest.astype(np.uint8)

    def batches(self, photos: Iterator[Array]) -> Iterator[Array]:
        """Collect photos into arrays of the model's batch size; zeros fill up the last one."""
        while rows := list(itertools.islice(photos, self.batch)):
            full = np.zeros(self.type.shape, self.type.dtype.numpy)
            full[: len(rows)] = rows
            yield full


@dataclass(frozen=True, slots=True)
class ScoreOutput:
    """The output of a classifier: tensors `type` with a score for each of `classes`."""

    type: TensorType
    classes: int

    def scores(self, stored: Array) -> Array:
        """Convert the scores of one photo to float32."""
        return dequantize(stored, self.type.with_shape(stored.shape))

    def are_probabilities(self, scores: Array) -> bool:
        """Tell whether scores are a distribution: none is negative, and the sum is 1 up to quantisation.

        A quantised score is off by at most half a step, the largest one by a whole step, because 1 itself
        cannot be stored. Scores stored as 0 cannot have made the sum larger.
        """
        step = 0.0 if self.type.quantization is None else self.type.quantization.scale[0]
        if 255 * step > 1 + ROUNDING:
            return False  # the type is made for more than 0 to 1
        total = float(scores.sum(dtype=np.float64))
        least = 1 - step / 2 * (self.classes + 1)
        most = 1 + step / 2 * np.count_nonzero(scores)
        return bool((scores >= 0).all() and least - ROUNDING < total < most + ROUNDING)


@dataclass(frozen=True, slots=True)
class Guess:
    """One class and its score."""

    index: int
    label: str
    score: float


def default_model(*, quantised: bool = False) -> Path:
    """Return the classifier in the package: ten classes of CIFAR-10, float32 or `quantised` to int8."""
    name = "cifar10_mobilenet_int8.tflite" if quantised else "cifar10_mobilenet.tflite"
    return Path(str(files("gpunn") / "data" / name))


def photo_input(model: Graph, mean: Numbers | None = None, std: Numbers | None = None) -> PhotoInput:
    """Describe the photos that `model` takes; raise ModelError or UnsupportedError if it does not take
    photos.

    mean, std: one number, or one for each channel. If neither is given, they are those of the model's file
    (`model.pixel_scale`); a quantised model takes the bytes, and so does a model that scales photos itself,
    which refuses other scales. Otherwise they are MEAN and STD.
    """
    operand = _only(model, mandatory(model), "input")
    shape = operand.type.shape
    if len(shape) != 4 or shape[3] not in (1, 3) or 0 in shape:
        raise ModelError(
            f"{model.name} does not take photos: its input {operand.name!r} has shape {list(shape)}, "
            "expected [batch, height, width, 1 or 3]"
        )
    _expect_numbers(model, operand, "input")
    if operand.type.quantization is not None and mean is None and std is None:
        return PhotoInput(operand.type, None, None, "model" if scales_photos(model) else "default")
    if scales_photos(model) and (mean or 0, 1 if std is None else std) != (0, 1):
        raise ModelError(
            f"{model.name} takes pixels as they are and scales them itself: leave out mean and std"
        )
    if scales_photos(model):
        return PhotoInput(operand.type, 0.0, 1.0, "model")
    origin: ScaleOrigin = "default" if mean is None and std is None else "given"
    scale = PixelScale(MEAN if mean is None else mean, STD if std is None else std)
    if origin == "default" and model.pixel_scale is not None:
        origin, scale = "file", model.pixel_scale
    if not scale.usable(shape[3]):
        raise ModelError(
            "mean and std must be finite and std not 0, each one number or one for each channel, got mean "
            f"{text_of(scale.mean)} and std {text_of(scale.std)} for {shape[3]} channels"
        )
    return PhotoInput(operand.type, scale.mean, scale.std, origin)


def mandatory(model: Graph) -> list[Operand]:
    """Return the inputs that every run must give: those without a default."""
    return [operand for operand in model.inputs if operand.default is None]


def scales_photos(model: Graph) -> bool:
    """Tell whether the model takes the bytes of photos, as one with an image input of Core ML does."""
    types = [operand.type for operand in mandatory(model)]
    return len(types) == 1 and types[0].dtype is DType.UINT8 and types[0].quantization == BYTES


def preprocess(
    model: Graph,
    photo: str | os.PathLike[str] | Image.Image,
    mean: Numbers | None = None,
    std: Numbers | None = None,
) -> Array:
    """Return the input of a classifier for one photo; if its batch is more than 1, all rows hold the photo.

    photo: a file, or a picture of Pillow's; it is resized to the model's height and width. mean, std: as for
    photo_input(). The result is [batch, height, width, channels], of the dtype of the model's input.
    Raises what photo_input() and load_photo() raise.
    """
    wanted = photo_input(model, mean, std)
    picture = _rgb(_eight_bit(photo)) if isinstance(photo, Image.Image) else load_photo(photo)
    return np.repeat(wanted.values(picture)[np.newaxis], wanted.batch, axis=0)


def score_output(model: Graph) -> ScoreOutput:
    """Describe the scores that `model` gives; ModelError or UnsupportedError if it is not a classifier."""
    batch = photo_input(model).batch
    operand = _only(model, model.outputs, "output")
    shape = operand.type.shape
    if not shape or shape[-1] < 2 or operand.type.size != batch * shape[-1]:
        raise ModelError(
            f"{model.name} is not a classifier: its output {operand.name!r} has shape {list(shape)}, "
            "expected [batch, classes]"
        )
    _expect_numbers(model, operand, "output")
    return ScoreOutput(operand.type, shape[-1])


def _expect_numbers(model: Graph, operand: Operand, role: str) -> None:
    """Raise UnsupportedError unless the tensor is float32, or uint8 or int8 with one scale."""
    dtype, quantization = operand.type.dtype, operand.type.quantization
    one_scale = quantization is not None and quantization.per_tensor
    if (dtype is DType.FLOAT32 and quantization is None) or (dtype in QUANTISED and one_scale):
        return
    scales = "" if one_scale else " without a scale" if quantization is None else " with many scales"
    raise UnsupportedError(
        f"{model.name}: {role} {operand.name!r} is {dtype.value}{scales}, expected float32, "
        "or uint8 or int8 with one scale"
    )


def _only(model: Graph, operands: Sequence[Operand], role: str) -> Operand:
    if len(operands) != 1:
        raise ModelError(f"{model.name} has {len(operands)} {role}s, a photo classifier has one")
    return operands[0]


def class_labels(model: Graph, file: Path | None = None) -> tuple[str, ...]:
    """Return a name for each class: from `file`, else from the model, else "class 0", "class 1" ..."""
    count = score_output(model).classes
    if file is None and not model.labels:
        return tuple(f"class {index}" for index in range(count))
    labels = model.labels if file is None else _read_labels(file)
    if len(labels) != count:
        raise FormatError(f"{file or model.name} has {len(labels)} labels, the model has {count} classes")
    return labels


def _read_labels(file: Path) -> tuple[str, ...]:
    if not file.exists():
        raise MissingFileError(file)
    with file.open("rb") as stream:
        data = stream.read(MAX_LABEL_BYTES + 1)
    if len(data) > MAX_LABEL_BYTES:
        raise FormatError(f"{file}: more than {MAX_LABEL_BYTES} bytes, expected one label a line")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: not UTF-8 text, expected one label a line: {error.reason}") from None
    return tuple(line.strip() for line in text.rstrip().splitlines())


def top_k(scores: Array, labels: Sequence[str], count: int) -> tuple[Guess, ...]:
    """Return the `count` classes with the highest scores, best first; for equal scores the first class."""
    order = np.argsort(-scores, kind="stable")[:count]
    return tuple(Guess(int(index), labels[index], float(scores[index])) for index in order)


def load_photo(path: str | os.PathLike[str]) -> Image.Image:
    """Load any picture that Pillow reads, as 8-bit RGB: upright as EXIF says, transparency on white, first
    frame.

    Raises FormatError if it is not a picture, is damaged, or exceeds Pillow's limit against decompression
    bombs; OSError if the file cannot be opened, of it MissingFileError if it does not exist.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(path)
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
    """Scale deep grey to 0..255.

    16 bits are divided by 257. 32 bits and floats state no range, and are scaled from the darkest to the
    lightest.
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
