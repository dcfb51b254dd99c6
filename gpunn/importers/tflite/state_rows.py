"""The rows of state: a file states them for its own batch, and they follow the batch of a run."""

from __future__ import annotations

from typing import Any

import tflite as schema

from gpunn.importers.tflite.file import CORRUPT
from gpunn.importers.tflite.subgraph import FileOperator
from gpunn.types import TensorType

# Operators that keep a row of state for each sample, by the end of their names.
_STATEFUL = ("RNN", "LSTM", "SVDF")


def rows_of_state(operator: FileOperator, state: TensorType, stored: TensorType, x: TensorType) -> int:
    """Return how many rows the state of an operator has for an input x, which is `stored` in the file.

    If it has a row for each sample there, it has one for each sample of x; other state stays as it is.
    """
    axis = 1 if x.rank == 3 and _time_major(operator) else 0
    follows = operator.code.endswith(_STATEFUL) and state.rank == 2 and stored.rank == x.rank > axis
    samples = follows and state.shape[0] == stored.shape[axis]
    return x.shape[axis] if samples else state.shape[0] if state.rank else 0


def _time_major(operator: FileOperator) -> bool:
    """Tell whether the first axis of a sequence is time; the operator's rule refuses damaged options."""
    table: Any = getattr(schema, operator.options_type, object)()
    if operator.options_table is None or not hasattr(table, "TimeMajor"):
        return False
    try:
        table.Init(*operator.options_table)
        return bool(table.TimeMajor())
    except CORRUPT:
        return False
