"""Cases of operators that compute, choose, convert, create and look up values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpunn.types import Array, DType, Quantization, TensorType
from tests.importers.tflite.case import Case, Fed, ints
from tests.ops.harness import random

F32, F16, I32, I64, U8, I8, BOOL = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.INT32,
    DType.INT64,
    DType.UINT8,
    DType.INT8,
    DType.BOOL,
)


def truths(seed: int, *shape: int) -> Array:
    return random(seed, *shape) > 0


def number(value: float, dtype: DType = F32) -> Array:
    return np.array(value, dtype.numpy)


X = random(1, 2, 3, 4, 5)
POSITIVE = np.abs(X) + np.float32(0.01)
ROUNDED = np.round(X)
WHOLE = np.random.default_rng(0).integers(-9, 10, (3, 7), dtype=np.int32)
WIDE = np.random.default_rng(1).integers(-(2**63), 2**63, (3, 7))
DIVISOR = np.where(WHOLE[0] == 0, 4, WHOLE[0]).astype(np.int32)
IMAGE = random(2, 2, 4, 6, 8)
NARROW = {"min": -4.0, "max": 4 - 1 / 32, "num_bits": 8}
LIST = {"keys": ints(1, 2, 5, 8, 9), "lookups": ints(5, 4, 9, 0, 1)}
HITS = TensorType(U8, (1,), Quantization((1.0,), (0,)))

# Operator, inputs, which are constants (besides the scalars), dtypes of the outputs (or a type), options.
ROWS: list[tuple[str, Sequence[Array], Sequence[int], Sequence[DType | TensorType], Mapping[str, Any]]] = [
    *(
        (name, [X], [], [F32], {})
        for name in ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "NEG", "ROUND", "SIGN", "SIN", "SQUARE")
    ),
    *((name, [POSITIVE], [], [F32], {}) for name in ("LOG", "RSQRT", "SQRT")),
    *((name, [WHOLE], [], [I32], {}) for name in ("ABS", "NEG", "ZEROS_LIKE")),
    *((name, [WHOLE.astype(np.int64)], [], [I64], {}) for name in ("NEG", "ZEROS_LIKE")),
    ("ZEROS_LIKE", [X], [], [F32], {}),
    ("FAKE_QUANT", [X], [], [F32], NARROW),
    ("FAKE_QUANT", [X], [], [F32], {**NARROW, "num_bits": 4, "min": -1, "max": 2.75, "narrow_range": False}),
    ("GELU", [X], [], [F32], {}),
    ("GELU", [X], [], [F32], {"approximate": True}),
    ("LOGICAL_NOT", [truths(0, 3, 5)], [], [BOOL], {}),
    *((name, [truths(0, 3, 5), truths(1, 5)], [], [BOOL], {}) for name in ("LOGICAL_AND", "LOGICAL_OR")),
    ("POW", [POSITIVE, random(3, 5)], [1], [F32], {}),
    ("POW", [POSITIVE, number(2)], [], [F32], {}),
    ("POW", [WHOLE, np.abs(WHOLE) % 4], [], [I32], {}),
    *((name, [X[:, :0]], [], [F32], {}) for name in ("ABS", "EXP", "SQRT")),
    ("DIV", [WHOLE, DIVISOR], [1], [I32], {}),
    *((name, [X, POSITIVE], [], [F32], {}) for name in ("FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")),
    *((name, [WHOLE, DIVISOR], [1], [I32], {}) for name in ("FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")),
    *(
        (name, [a, b], [], [BOOL], {})
        for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
        for a, b in (
            (ROUNDED, np.round(random(4, 5))),
            (WHOLE, WHOLE[1]),
            (WHOLE.astype(np.int64), WHOLE[:, :1].astype(np.int64)),
        )
    ),
    *((name, [truths(0, 3, 5), truths(1, 3, 5)], [], [BOOL], {}) for name in ("EQUAL", "NOT_EQUAL")),
    *(
        ("SELECT", [truths(0, *shape), a, a[::-1].copy()], [], [DType.of(a.dtype)], {})
        for shape, a in (((3, 7), WHOLE), ((3,), WHOLE), ((), WHOLE), ((2,), X), (X.shape, X))
    ),
    ("SELECT", [truths(0, 9), truths(1, 9), truths(2, 9)], [], [BOOL], {}),
    *(
        ("SELECT_V2", [truths(0, *shape), X, number(0.5)], [], [F32], {})
        for shape in ((5,), (3, 1, 1), (2, 3, 4, 5))
    ),
    ("SELECT_V2", [truths(0, 7), WHOLE, WHOLE[:, :1]], [2], [I32], {}),
    ("WHERE", [truths(0, 3, 5)], [0], [I64], {}),
    *(
        ("CAST", [source], [], [target], {})
        for source in (np.round(X * 20) / 4, WHOLE, WHOLE.astype(np.int64), WIDE, truths(0, 3, 5))
        for target in (F32, I32, I64, BOOL)
    ),
    ("PADV2", [WIDE, ints([1, 2], [0, 3]), np.array([-(2**62) - 1])], [1, 2], [I64], {}),
    *(("CAST", [np.arange(256).astype(np.uint8)], [], [target], {}) for target in (F32, I32, I8, BOOL)),
    *(("CAST", [np.arange(256).astype(np.int32)], [], [target], {}) for target in (U8, I8)),
    *(("CAST", [np.abs(X) * 30], [], [target], {}) for target in (U8, I8, F16)),
    ("CAST", [X.astype(np.float16)], [], [F32], {}),
    ("CAST", [WHOLE.astype(np.int16)], [], [F32], {}),
    *(("FILL", [ints(2, 3, 5), number(7, d)], [0], [d], {}) for d in (F32, I32, BOOL)),
    *(
        ("RANGE", [number(a, d) for a in bounds], [0, 1, 2], [d], {})
        for d, bounds in ((I32, (3, 18, 4)), (I32, (9, -2, -3)), (F32, (0, 1, 0.1)), (F32, (2, -1, -0.4)))
    ),
    ("RANGE", [number(a, I64) for a in (0, 6, 2)], [0, 1, 2], [I64], {}),
    *(
        ("ONE_HOT", [indices, ints(4)[0], number(on, d), number(off, d)], [1], [d], {"axis": axis})
        for indices in (ints([0, 3, 1], [-1, 4, 2]), np.array([[2, 0, 1]], np.int64))
        for axis in (-1, 0, 1)
        for on, off, d in ((2.5, -1, F32), (1, 0, I32))
    ),
    ("L2_NORMALIZATION", [X], [], [F32], {}),
    ("L2_NORMALIZATION", [X[0, 0]], [], [F32], {}),
    (
        "LOCAL_RESPONSE_NORMALIZATION",
        [IMAGE],
        [],
        [F32],
        {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
    ),
    (
        "LOCAL_RESPONSE_NORMALIZATION",
        [IMAGE],
        [],
        [F32],
        {"radius": 5, "bias": 2.0, "alpha": 0.01, "beta": 0.5},
    ),
    ("SPACE_TO_DEPTH", [IMAGE], [], [F32], {"block_size": 2}),
    ("DEPTH_TO_SPACE", [IMAGE], [], [F32], {"block_size": 2}),
    ("SPACE_TO_BATCH_ND", [IMAGE, ints(2, 3), ints([1, 1], [0, 3])], [1, 2], [F32], {}),
    ("BATCH_TO_SPACE_ND", [random(5, 12, 2, 2, 3), ints(2, 3), ints([1, 0], [0, 2])], [1, 2], [F32], {}),
    ("EMBEDDING_LOOKUP", [ints(2, 0, 2), random(6, 3, 4)], [], [F32], {}),
    ("EMBEDDING_LOOKUP", [ints(1, 1), random(6, 3, 4, 5)], [], [F32], {}),
    *(
        (
            "EMBEDDING_LOOKUP_SPARSE",
            [ints(2, 0, 2), ints([0, 1], [0, 2], [3, 0]), ints(4, 3), random(6, 3), random(7, 3, 4)],
            [2],
            [F32],
            {"combiner": combiner},
        )
        for combiner in range(3)
    ),
    ("HASHTABLE_LOOKUP", [LIST["lookups"], LIST["keys"], random(7, 5, 4)], [], [F32, HITS], {}),
    ("HASHTABLE_LOOKUP", [LIST["lookups"], LIST["keys"], random(7, 5)], [], [F32, HITS], {}),
    ("LSH_PROJECTION", [ints([1, -2, 3], [4, 5, 6]), ints(7, 8, 9), random(10, 3)], [], [I32], {"type": 2}),
    *(
        ("LSH_PROJECTION", [random(8, 3, 4), random(9, 5, 2), random(10, 5)], [], [I32], {"type": kind})
        for kind in (1, 2)
    ),
]


def _case(
    operator: str,
    inputs: Sequence[Array],
    constants: Sequence[int],
    outputs: Sequence[DType | TensorType],
    options: Mapping[str, Any],
) -> Case:
    items = [v if k in constants or v.ndim == 0 else Fed(v) for k, v in enumerate(inputs)]
    return Case(operator, items, outputs, options)


CASES = [_case(*row) for row in ROWS]
