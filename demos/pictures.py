"""Helpers of the demos: a photo to begin with, class names, text on pictures, and errors of one line."""

from __future__ import annotations

import colorsys
import tarfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

import gpunn

GOLDEN = 0.618034  # hues this far apart, round the circle, never come close to the ones before them
Colour = tuple[int, int, int]


def the_cat() -> Path:
    """Return the path of chelsea.png, scikit-image's photo of a cat."""
    try:
        import skimage.data
    except ImportError:
        raise SystemExit("give a PHOTO, or install the cat's: pip install 'gpunn[demo]'") from None
    return Path(skimage.data.__file__).with_name("chelsea.png")


def run(main: Callable[[], None]) -> None:
    """Run a demo; what is wrong with its files or its models ends it with one line instead of a traceback."""
    try:
        main()
    except UnicodeDecodeError as error:
        raise SystemExit(f"a file is not UTF-8 text: {error.reason}") from None
    except tarfile.TarError as error:
        raise SystemExit(f"the archive is damaged: {str(error).splitlines()[0]}") from None
    except (gpunn.GpunnError, OSError) as error:
        file = error.filename if isinstance(error, OSError) and error.strerror else None
        text = str(error) if file is None else f"{file}: {error.strerror}"
        raise SystemExit(" ".join(text.split())) from None


def open_archive(path: Path) -> tarfile.TarFile:
    """Open an archive of tar; SystemExit if it is none, which its own error does not name."""
    try:
        return tarfile.open(path)
    except tarfile.TarError:
        raise SystemExit(f"{path}: no archive that tar can read") from None


def class_names(model: gpunn.Model, file: Path | None, count: int) -> list[str]:
    """Return `count` names: from `file`, one a line, else from the model, else "class 0", "class 1" ..."""
    lines = file.read_text("utf-8").splitlines() if file else list(model.labels)
    names = [line.strip() for line in lines[:count]]
    return names + [f"class {index}" for index in range(len(names), count)]


def colour(index: int) -> Colour:
    """Return a bright colour for a class, the same in every picture."""
    red, green, blue = colorsys.hsv_to_rgb(index * GOLDEN % 1, 0.75, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)


def text_size(picture: Image.Image) -> int:
    """Return the height of letters that suits a picture, in pixels."""
    return max(12, min(picture.size) // 24)


def write(draw: ImageDraw.ImageDraw, x: float, y: float, text: str, ground: Colour, size: int) -> None:
    """Write text in black or white on a box of colour `ground` with its top left corner at (x, y).

    If it does not fit into the picture on the right, it begins further left.
    """
    font = ImageFont.load_default(size)
    gap = size // 4
    width = draw.textlength(text, font=font) + 2 * gap
    x = max(0, min(x, draw.im.size[0] - width))
    draw.rectangle((x, y, x + width, y + size + 2 * gap), fill=ground)
    brightness = 0.299 * ground[0] + 0.587 * ground[1] + 0.114 * ground[2]  # ITU-R BT.601
    draw.text((x + gap, y + gap), text, fill="black" if brightness > 128 else "white", font=font)
