"""Arguments: numbers and lists that callers give, checked before anything is done with them."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from gpunn.errors import ModelError


def integer(value: Any) -> int | None:
    """Return an integer of Python's or numpy's as an int, and None for anything else, also a bool."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:  # also a list, or an array of several numbers
        return None


def expect_integer(what: str, value: Any, least: int | None = None) -> int:
    """Return `value` as an int. Raises ModelError unless it is an integer, and `least` or more."""
    found = integer(value)
    if found is None or (least is not None and found < least):
        range = "" if least is None else f" of {least} or more"
        raise ModelError(f"{what} must be an integer{range}, got {value!r}")
    return found


def expect_flag(what: str, value: Any) -> bool:
    """Return `value` as a bool. Raises ModelError unless it is True or False, or 1 or 0."""
    if not isinstance(value, (bool, np.bool_)) and integer(value) not in (0, 1):
        raise ModelError(f"{what} must be True or False, got {value!r}")
    return bool(value)


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite real number, or NaN, and no bool."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isinf(float(value))
    except OverflowError:  # an integer beyond float64
        return False


def expect_model(model: Any, kind: type) -> None:
    """Raise ModelError unless `model` is of a class of models, as a path or the bytes of a file are not."""
    if not isinstance(model, kind):
        raise ModelError(f"expected a gpunn.Model, as gpunn.load() returns it, got {type(model).__name__}")


def expect_path(what: str, value: Any) -> None:
    """Raise ModelError for what is no path of a file or folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise ModelError(f"{what} must be a path, got {value!r}")


def expect_list(what: str, value: Any, of: str) -> None:
    """Raise ModelError for what cannot be gone through, and for one name instead of a list of them."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ModelError(f"{what} must be a list of {of}, got {value!r}")


def expect_function(what: str, value: Any) -> None:
    """Raise ModelError unless `value` can be called, or is None."""
    if value is not None and not callable(value):
        raise ModelError(f"{what} must be a function, got {value!r}")


def expect_number(what: str, value: Any, end: float = math.inf) -> None:
    """Raise ModelError unless `value` is a number from 0 to an end, without the end."""
    if not is_number(value) or not 0 <= value < end:
        less = "" if math.isinf(end) else f", and less than {end:g}"
        raise ModelError(f"{what} must be 0 or more{less}, got {value!r}")
