"""Model -> Model: what is done to every graph before it is planned, in this order."""

from __future__ import annotations

from collections.abc import Callable

from gpunn.model import Model
from gpunn.passes.fold import fold
from gpunn.passes.fuse import fuse_activation, fuse_bias, fuse_pad
from gpunn.passes.prune import bypass, prune

Pass = Callable[[Model], Model]

PIPELINE: tuple[Pass, ...] = (
    fold,  # first: what is computed from constants becomes constant, which the patterns below ask for
    bypass,  # before fusing: an operation that changes nothing stands between neighbours that fit together
    prune,  # before fusing: a reader that is itself unread would make its input look shared
    fuse_pad,  # needs the convolution only, so its place among the fusions is free
    fuse_bias,  # before activations: after one, a convolution can take no bias any more
    fuse_activation,  # last: closes what it is fused into
)


def optimise(model: Model) -> Model:
    """The same function of the same inputs, in fewer operations; its inputs and outputs stay."""
    for step in PIPELINE:
        model = step(model)
    return model
