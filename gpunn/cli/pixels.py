"""Options that say how a model wants the pixels of photos."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gpunn.graph.pixels import RANGES, given_scale

OPTION = "--pixels"
RangeName = Literal["-1..1", "0..1", "0..255"]

PixelRange = Annotated[
    RangeName | None,
    typer.Option(
        OPTION,
        show_default=False,
        help="The range that pixels get, instead of --mean and --std.  [default: the scale in the model "
        "file, else -1..1; models that are quantised, or scale photos themselves, take pixels as they are]",
    ),
]
Mean = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        show_default=False,
        help="Subtracted from each pixel value 0..255.  [default: see --pixels]",
    ),
]
Std = Annotated[
    float | None,
    typer.Option(
        metavar="X", show_default=False, help="Divides each pixel value after that.  [default: see --pixels]"
    ),
]


def mean_and_std(
    pixels: RangeName | None, mean: float | None, std: float | None
) -> tuple[float | None, float | None]:
    """Return the mean and the std that the options state; None for what they leave open.

    Raises ModelError for those that fit no model, also where they are for photos and none are given.
    """
    if pixels is None:
        given_scale(mean, std)
        return mean, std
    if mean is not None or std is not None:
        raise typer.BadParameter("a range and --mean or --std exclude each other", param_hint=OPTION)
    return RANGES[pixels]
