"""Photo files as 8-bit RGB pictures, bounded in size."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from gpunn.arguments import expect_path
from gpunn.errors import FormatError
from gpunn.files import open_regular
from gpunn.types import Array

_LIMIT = "at most {} are read (PIL.Image.MAX_IMAGE_PIXELS)"
_PART = 1 << 20  # pixels that are converted at a time: all at once would take 32 bytes for each


def load_photo(path: str | os.PathLike[str]) -> Image.Image:
    """Load any picture that Pillow reads, as 8-bit RGB: upright as EXIF says, transparency on white, first
    frame.

    A picture of more pixels than PIL.Image.MAX_IMAGE_PIXELS is refused before its pixels are decoded, except
    that a JPEG file of up to twice as many is decoded at half its height and width. Raises FormatError for
    that, and if the file is not a picture, is damaged, or is not a regular file; OSError if it cannot be
    opened, of it MissingFileError if it does not exist.
    """
    expect_path("a photo", path)
    path = Path(path)
    with open_regular(path) as stream, warnings.catch_warnings():
        # Pillow warns of what it repairs, and of pictures above its limit, which are refused here.
        warnings.simplefilter("ignore")
        try:
            with Image.open(stream) as image:
                _expect_few_pixels(path, image)
                ImageOps.exif_transpose(image, in_place=True)
                return eight_bit_rgb(image)
        except UnidentifiedImageError:
            raise FormatError(f"{path}: not a picture in a format that Pillow reads") from None
        except FormatError:
            raise
        except Image.DecompressionBombError:  # of twice as many pixels, while Pillow opens a picture
            limit = _LIMIT.format(Image.MAX_IMAGE_PIXELS)
            raise FormatError(f"{path}: has too many pixels, {limit}") from None
        except Exception as error:  # Pillow's decoders raise whatever a damaged file leads them to
            raise FormatError(f"{path}: cannot be read as a picture: {error}") from error


def _expect_few_pixels(path: Path, image: Image.Image) -> None:
    """Raise FormatError for a picture of too many pixels, unless it can be decoded in a smaller size."""
    most, (width, height) = Image.MAX_IMAGE_PIXELS, image.size
    if most is None:
        return
    if width * height > most:
        image.draft("RGB", (width // 2, height // 2))  # which only the decoder of JPEG can
    if image.width * image.height > most:
        raise FormatError(f"{path}: has {width} x {height} pixels, {_LIMIT.format(most)}")


def eight_bit_rgb(image: Image.Image) -> Image.Image:
    """Convert a picture to 8-bit RGB, with transparency on white."""
    image = _eight_bit(image)
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque)
    return image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scale deep grey to 0..255.

    16 bits are divided by 257. 32 bits and floats state no range, and are scaled from the darkest to the
    lightest.
    """
    if image.mode.startswith("I;16"):
        scaled = np.asarray(image, np.float32) / 257
        return Image.fromarray(np.rint(scaled).astype(np.uint8))
    if image.mode not in ("I", "F"):
        return image
    stored = np.asarray(image)
    parts = [stored.reshape(-1)[start : start + _PART] for start in range(0, stored.size, _PART)]
    low = min(float(_finite(part).min()) for part in parts)
    high = max(float(_finite(part).max()) for part in parts)
    scale = 255 / (high - low) if high > low else 0
    found = [np.rint((_finite(part) - low) * scale).astype(np.uint8) for part in parts]
    return Image.fromarray(np.concatenate(found).reshape(stored.shape))


def _finite(values: Array) -> Array:
    """Convert to float64, NaN to 0 and infinities to the largest numbers."""
    found: Array = np.nan_to_num(values.astype(np.float64))
    return found
