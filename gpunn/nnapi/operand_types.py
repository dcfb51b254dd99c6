"""Checks of the operand types that callers give."""

from __future__ import annotations

import math
import operator
from dataclasses import replace

from gpunn.importers.nnapi.codes import OperandCode, OperandType, SymmPerChannelQuantParams
from gpunn.nnapi.values import bad, expect_code, expect_kind
from gpunn.types import MAX_ELEMENTS, Shape

UNRANKED_SINCE = 29  # the first feature level that has tensors whose rank is not specified


def checked(type: OperandType, level: int) -> OperandType:
    """Return `type` with clean members.

    Raises BAD_DATA if they contradict each other, or if a later feature level added the type.
    """
    code = expect_code("the type of an operand", type.type, OperandCode)
    try:
        dimensions = tuple(operator.index(d) for d in type.dimensions)
        scale, zero_point = float(type.scale), operator.index(type.zero_point)
    except (TypeError, ValueError, OverflowError) as error:
        bad(f"{type!r} is no operand type: {error}")
    form = code.form
    if form.since > level:
        bad(f"there is no operand type {code.name} at feature level {level}, only from {form.since} on")
    unranked = form.is_tensor and level >= UNRANKED_SINCE
    if form.is_tensor != bool(dimensions) and not unranked:
        bad(f"{code.name} must have {'' if form.is_tensor else 'no '}dimensions, got {list(dimensions)}")
    if any(d < 0 for d in dimensions) or math.prod(dimensions) > MAX_ELEMENTS:
        bad(f"dimensions must not be negative, nor elements over {MAX_ELEMENTS}, got {list(dimensions)}")
    fits = {"over 0": scale > 0, "0 or more": scale >= 0, "0": scale == 0}
    if not fits[form.scale] or not math.isfinite(scale):
        bad(f"the scale of {code.name} must be {form.scale}, got {scale}")
    low, high = form.zero_points
    if not low <= zero_point <= high:
        allowed = f"{low} to {high}" if low < high else str(low)
        bad(f"the zero point of {code.name} must be {allowed}, got {zero_point}")
    clean = OperandType(code, dimensions, scale, zero_point)
    return clean if type.channels is None else with_channels(clean, type.channels)


def with_channels(type: OperandType, channels: SymmPerChannelQuantParams) -> OperandType:
    """Return a TENSOR_QUANT8_SYMM_PER_CHANNEL with its scales; raise BAD_DATA if they do not fit it."""
    if type.type is not OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        bad(f"scales per channel are for TENSOR_QUANT8_SYMM_PER_CHANNEL, got {type}")
    try:
        dimension = operator.index(channels.channel_dim)
        scales = tuple(float(scale) for scale in channels.scales)
    except (TypeError, ValueError, OverflowError) as error:
        bad(f"{channels!r} are no scales per channel: {error}")
    if not 0 <= dimension < len(type.dimensions):
        bad(f"channel_dim must be a dimension of {type}, got {dimension}")
    if len(scales) != type.dimensions[dimension]:
        bad(
            f"{type} needs {type.dimensions[dimension]} scales along dimension {dimension}, got {len(scales)}"
        )
    if not all(0 < scale < math.inf for scale in scales):
        bad(f"scales per channel must be over 0, got {_some(scales)}")
    return replace(type, channels=SymmPerChannelQuantParams(dimension, scales))


def _some(values: tuple[float, ...]) -> list[float]:
    """Return the first values that are not over 0, for a message."""
    return [value for value in values if not 0 < value < math.inf][:3]


def bound_type(declared: OperandType, type: OperandType | None, level: int, what: str) -> OperandType:
    """Return an operand's declared type with the dimensions of `type`, which an execution gives.

    From feature level 29 on a dimension that the model leaves open may be given as 0, which is its size then.
    Raises BAD_DATA unless all dimensions are specified, and all else is as declared.
    """
    found, sizes = declared, 1
    if type is not None:
        expect_kind(f"the type of {what}", type, OperandType)
        try:
            found = replace(declared, dimensions=tuple(operator.index(d) for d in type.dimensions))
            fits = _same(declared, type) and _opens(declared, found.dimensions)
        except (TypeError, ValueError):  # an array for a scale is equal to nothing
            fits = False
        sizes = 0 if level >= UNRANKED_SINCE else 1
        if not fits:
            bad(f"{what} must be {declared} with dimensions in place of 0, got {type!r}")
    if not found.ranked or min(found.dimensions, default=1) < sizes:
        bad(f"{what} must have all dimensions specified, got {found}")
    return found


def _same(declared: OperandType, type: OperandType) -> bool:
    """Tell whether two types have the same elements."""
    ends = [replace(t, dimensions=(), channels=None) for t in (declared, type)]
    return ends[0] == ends[1] and type.channels in (None, declared.channels)


def _opens(declared: OperandType, dimensions: Shape) -> bool:
    """Tell whether dimensions agree with the declared ones that are not open."""
    if not declared.ranked:
        return True
    return len(dimensions) == len(declared.dimensions) and all(
        old in (0, new) for old, new in zip(declared.dimensions, dimensions, strict=True)
    )
