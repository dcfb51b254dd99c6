"""Model -> Model: what is done to every graph before it is planned, in this order."""

from __future__ import annotations

from collections.abc import Callable

from gpunn.model import Model
from gpunn.passes.fold import fold_constants
from gpunn.passes.fuse import fuse_activation, fuse_bias, fuse_pad
from gpunn.passes.prune import bypass_identities, prune_unread

Pass = Callable[[Model], Model]

PIPELINE: tuple[Pass, ...] = (
    # First: what is computed from constants becomes constant, which the fusions ask for.
    fold_constants,
    # Before the fusions: an operation that changes nothing keeps apart neighbours that fit together.
    bypass_identities,
    # Before the fusions: a reader that is itself unread makes its input look shared.
    prune_unread,
    # The fusions follow the order of the arithmetic: padding, sum, bias, activation. The bias comes before
    # the activation, after which an operation can take no bias any more.
    fuse_pad,
    fuse_bias,
    fuse_activation,
)


def optimise(model: Model) -> Model:
    """The same function of the same inputs, in fewer operations; its inputs and outputs stay."""
    for step in PIPELINE:
        model = step(model)
    return model
