"""The options of custom operators, read with checks from the flexbuffer that they are in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpunn.custom import flexbuffer_map
from gpunn.errors import FormatError
from gpunn.importers.tflite.node import Node


class Options(NamedTuple):
    """The options of an operator, by name, read with checks."""

    node: Node
    values: Mapping[str, Any]

    def number(self, name: str, default: float | None = None) -> float:
        """Return a finite number."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.node.corrupt(f"option {name} must be a number, got {value!r}")
        return value

    def positive(self, name: str) -> float:
        """Return a number over 0."""
        value = self.number(name)
        if value <= 0:
            self.node.corrupt(f"option {name} must be over 0, got {value}")
        return value

    def ints(self, name: str, count: int | None = None, least: int = 0) -> tuple[int, ...]:
        """Return a list of one or more integers, each `least` or more."""
        values = self.values.get(name)
        found = values if isinstance(values, tuple) else ()
        right = len(found) == count if count is not None else len(found) > 0
        if not right or not all(type(v) is int and v >= least for v in found):
            what = "integers" if count is None else f"{count} integers"
            self.node.corrupt(f"option {name} must be {what} of {least} or more, got {values!r}")
        return found

    def integer(self, name: str, default: int | None = None, least: int = 0) -> int:
        """Return an integer of `least` or more."""
        value = self.values.get(name, default)
        if type(value) is not int or value < least:
            self.node.corrupt(f"option {name} must be an integer of {least} or more, got {value!r}")
        return value


def options_of(node: Node) -> Options:
    """Return the options of an operator; refuse it if they cannot be read."""
    try:
        return Options(node, flexbuffer_map(node.custom_options))
    except FormatError as error:
        node.corrupt(f"the custom options cannot be read: {error}")


def expect_counts(node: Node, inputs: int, outputs: int) -> None:
    """Refuse an operator that has other numbers of inputs and outputs."""
    if (len(node.inputs), len(node.outputs)) != (inputs, outputs):
        node.corrupt(
            f"takes {inputs} inputs and gives {outputs}, got {len(node.inputs)} and {len(node.outputs)}"
        )
