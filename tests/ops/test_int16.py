"""int16 tensors: two elements share a word on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import check


def short(seed: int, *shape: int) -> Array:
    """Return numbers of all int16, with both ends of the range."""
    values = np.random.default_rng(seed).integers(-(2**15), 2**15, shape, dtype=np.int16)
    values.ravel()[:2] = (-(2**15), 2**15 - 1)[: values.size]
    return values


def indices(*values: int) -> Array:
    return np.array(values, np.int32)


Case = tuple[str, list[Array], dict[str, Any]]

# Every body that int16 goes through, with rows whose length is divisible by four and others.
CASES: list[Case] = [
    *(
        (op, [short(1, *a), short(2, *b)], {})
        for op in ("maximum", "minimum", "bitwise_xor", "less", "equal", "floor_div", "floor_mod")
        for a, b in (((3, 7), (3, 7)), ((3, 8), (8,)), ((3, 5), ()), ((3, 1, 5), (1, 2, 5)), ((0, 3), (3,)))
    ),
    *(
        ("right_shift", [short(1, *shape), short(2, *shape) >> np.int16(11)], {})
        for shape in ((3, 7), (3, 1, 4))
    ),
    *(
        ("select", [short(1, *shape) > 0, short(2, *shape), short(3, *shape)], {})
        for shape in ((3, 5), (2, 4))
    ),
    *(
        ("cast", [short(1, *shape)], {"dtype": to})
        for shape in ((3, 5), (1027,))
        for to in ("float32", "float16", "int32", "int8", "uint8", "bool")
    ),
    *(
        ("cast", [(short(1, 3, 7) * scale).astype(dtype)], {"dtype": "int16"})
        for dtype, scale in ((np.float32, 1.5), (np.int32, 3), (np.int8, 1), (np.float16, 1), (np.bool_, 1))
    ),
    *(("transpose", [short(1, *shape)], {"perm": (2, 0, 1)}) for shape in ((3, 5, 7), (4, 8, 2))),
    ("strided_slice", [short(1, 9, 8)], {"begin": (1, 0), "end": (8, 8), "strides": (2, 1)}),
    ("strided_slice", [short(1, 9, 5)], {"begin": (8, 1), "end": (None, 4), "strides": (-3, 1)}),
    *(
        (op, [short(1, *shape)], {"paddings": ((1, 0), (0, 0), (2, 1)), **more})
        for op, more in (("pad", {"value": -(2**15)}), ("mirror_pad", {"mode": "reflect"}))
        for shape in ((3, 2, 5), (3, 2, 4))
    ),
    *(("concat", [short(1, 3, n), short(2, 3, m)], {"axis": 1}) for n, m in ((5, 2), (4, 8))),
    ("tile", [short(1, 3, 5)], {"multiples": (2, 3)}),
    ("broadcast_to", [short(1, 3, 1)], {"shape": (2, 3, 5)}),
    *(("gather", [short(1, 6, n), indices(5, 0, 2)], {"axis": axis}) for n in (6, 8) for axis in (0, 1)),
    ("gather_nd", [short(1, 6, 3, 5), indices(5, 0, 2, 1).reshape(2, 2)], {}),
    ("embedding_lookup", [indices(3, 1), short(1, 6, 7)], {}),
    ("one_hot", [indices(2, 0, 1), short(1), short(2)], {"depth": 3}),
    ("space_to_batch_nd", [short(1, 1, 3, 4, 3)], {"block_shape": (2, 2), "paddings": ((1, 0), (0, 0))}),
    *(("resize_nearest", [short(1, 1, 3, 4, c)], {"size": (5, 9)}) for c in (5, 8)),
    *(
        (op, [short(1, *shape)], {"axes": axes})
        for op in ("reduce_max", "reduce_min")
        for shape, axes in (((3, 70, 5), (1,)), ((3, 5, 8), (0, 1)))
    ),
    *((op, [short(1, 3, 70)], {"axis": axis}) for op in ("arg_max", "arg_min") for axis in (0, 1)),
    ("top_k", [short(1, 3, 9)], {"k": 4}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{[v.shape for v in case[1]]}")
def test_ops(case: Case, backend: str) -> None:
    op, inputs, attrs = case
    check(op, inputs, attrs, backend=backend)


def test_stores_keep_the_other_element_of_a_word(gpu: str) -> None:
    """Invocations copy one element each of rows of seven into rows of ten, over old values."""
    model = Model()
    rows = model.input("x", TensorType(DType.INT16, (300, 7)))
    fives = model.constant("c", np.full((300, 3), -5, np.int16))
    (joined,) = model.add("concat", [rows, fives], {"axis": 1})
    model.output(*model.add("bitwise_xor", [joined, model.constant("0", np.zeros((), np.int16))]))
    x = short(1, 300, 7)
    with model.compile(gpu) as compiled:
        compiled(~x)
        y = np.asarray(compiled(x))
    np.testing.assert_array_equal(y[:, :7], x)
    assert (y[:, 7:] == -5).all()
