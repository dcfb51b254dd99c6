"""Results as plain data for JSON: dataclasses become objects, and all numbers are valid in JSON."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np


def as_document(value: Any) -> Any:
    """Convert `value` to dicts, lists, strings, numbers, booleans and None.

    Every field of a dataclass is an entry under the field's name. JSON has no NaN and no infinities: they
    become None and the strings "inf" and "-inf". Raises TypeError for values without such a form.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_document(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_document(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_document(item) for item in value]
    if isinstance(value, enum.Enum):
        return as_document(value.value)
    if isinstance(value, np.generic):
        return as_document(value.item())
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, PurePath):
        return str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "inf" if value > 0 else "-inf"
