"""Photos as input of image classifiers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from gpunn.arguments import expect_model
from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.pixels import GivenNumbers, Numbers, PixelScale, given_scale, text_of, tuple_of
from gpunn.ops.fixed_point.affine import LIMITS, dequantize, quantize
from gpunn.types import Array, DType, Quantization, TensorType
from gpunn.vision.pictures import eight_bit_rgb, load_photo
from gpunn.wording import counted

MEAN = STD = 127.5  # bytes become -1 ... 1, the convention of the MobileNet family
QUANTISED = (DType.UINT8, DType.INT8)
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

    def described(self, option: str = "photo_input(mean=, std=)") -> str:
        """Say in one line how pixels become values, and who chose that; `option` is what changes it."""
        if self.origin == "model":
            return "pixels as 0..255 (the model scales them itself)"
        why = {
            "default": f"default; {option} changes it",
            "file": f"from the file's metadata; {option} changes it",
            "given": "as given",
        }[self.origin]
        return f"pixels as {self.scale} ({why})"

    def to_json(self) -> dict[str, Any]:
        """Return how pixels become values as plain data: as, mean, std, from; null where nothing is done."""
        mean, std = (None if n is None else list(tuple_of(n)) for n in (self.mean, self.std))
        return {"as": self.scale, "mean": mean, "std": std, "from": self.origin}

    @property
    def channels(self) -> int:
        """Return 3 for colour, 1 for grey."""
        return self.type.shape[3]

    def values(self, photo: Image.Image) -> Array:
        """Convert a photo to [height, width, channels]; the whole photo is resized to that size."""
        return self.stored(self.resized(photo))

    def resized(self, photo: Image.Image) -> Array:
        """Return the bytes of a photo in the size of the input, [height, width, channels]; see stored()."""
        height, width, channels = self.type.shape[1:]
        small = photo.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(small if channels == 3 else small.convert("L")).reshape(height, width, channels)

    def stored(self, pixels: Array) -> Array:
        """Convert bytes of any shape to values of the input; the last axis is the channels."""
        type = self.type.with_shape(pixels.shape)
        if self.mean is None or self.std is None:
            lowest, _ = LIMITS[type.dtype]
            return pixels if lowest == 0 else (pixels.astype(np.int16) + lowest).astype(type.dtype.numpy)
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


def photo_input(
    model: Graph, mean: GivenNumbers | None = None, std: GivenNumbers | None = None
) -> PhotoInput:
    """Describe the photos that `model` takes; raise ModelError or UnsupportedError if it does not take
    photos.

    mean, std: one number, or one for each channel. If neither is given, they are those of the model's file
    (`model.pixel_scale`); a quantised model takes the bytes, and so does a model that scales photos itself,
    which refuses other scales. Otherwise they are MEAN and STD.
    """
    expect_model(model, Graph)
    mean, std = given_scale(mean, std)
    operand = only(model, mandatory(model), "input")
    shape = operand.type.shape
    if len(shape) != 4 or shape[3] not in (1, 3) or 0 in shape:
        raise ModelError(
            f"{model.name} does not take photos: its input {operand.name!r} has shape {list(shape)}, "
            "expected [batch, height, width, 1 or 3]"
        )
    expect_numbers(model, operand, "input")
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
            f"{text_of(scale.mean)} and std {text_of(scale.std)} for {counted(shape[3], 'channel')}"
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
    mean: GivenNumbers | None = None,
    std: GivenNumbers | None = None,
) -> Array:
    """Return the input of a classifier for one photo; if its batch is more than 1, all rows hold the photo.

    photo: a file, or a picture of Pillow's; it is resized to the model's height and width. mean, std: as for
    photo_input(). The result is [batch, height, width, channels], of the dtype of the model's input.
    Raises what photo_input() and load_photo() raise.
    """
    wanted = photo_input(model, mean, std)
    picture = eight_bit_rgb(photo) if isinstance(photo, Image.Image) else load_photo(photo)
    return np.repeat(wanted.values(picture)[np.newaxis], wanted.batch, axis=0)


def expect_numbers(model: Graph, operand: Operand, role: str) -> None:
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


def only(model: Graph, operands: Sequence[Operand], role: str) -> Operand:
    """Return the one input or output (`role`); raise ModelError if there are more or none."""
    if len(operands) != 1:
        raise ModelError(f"{model.name} has {len(operands)} {role}s, a photo classifier has one")
    return operands[0]
