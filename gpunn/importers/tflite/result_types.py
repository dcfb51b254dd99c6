"""The element types of operators' results for which the statement of a TFLite file does not count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# The number of the input whose type LiteRT's kernels give their results, or the type that these always have.
# Kernels that are missing here have the type from an option, refuse others, or take the bytes of one type for
# those of another.
RESULT_TYPES: Mapping[str, int | str] = {
    **dict.fromkeys(("ADD_N", "CEIL", "DYNAMIC_UPDATE_SLICE", "EXP", "EXPAND_DIMS", "FLOOR", "GATHER"), 0),
    **dict.fromkeys(("GATHER_ND", "MATRIX_DIAG", "MATRIX_SET_DIAG", "NEG", "PRELU", "RANGE"), 0),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "ROUND", "SPLIT_V", "ZEROS_LIKE"), 0),
    **dict.fromkeys(("ADD", "BITWISE_XOR", "DIV", "FILL", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM"), 1),
    **dict.fromkeys(("POW", "RIGHT_SHIFT", "SCATTER_ND", "SELECT", "SELECT_V2", "SPLIT"), 1),
    **dict.fromkeys(("SQUARED_DIFFERENCE", "SUB"), 1),
    **dict.fromkeys(("ONE_HOT", "SPARSE_TO_DENSE"), 2),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"), "BOOL"),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), "BOOL"),
    **dict.fromkeys(("DEQUANTIZE", "FAKE_QUANT"), "FLOAT32"),
    "RANK": "INT32",
    "WHERE": "INT64",
}

# Operators whose results have types that follow from inputs and options alone: their values are not known
# before a run. A file that states other types says what it computes nevertheless, though LiteRT refuses it.
DERIVED = ("BROADCAST_ARGS", "SKIP_GRAM", "UNIQUE")


def result_type(code: str, inputs: Sequence[str]) -> str:
    """Return the name of that type, given those of the inputs; "" where the file's word counts."""
    found = RESULT_TYPES.get(code, "")
    if isinstance(found, str):
        return found
    return inputs[found] if found < len(inputs) else ""
