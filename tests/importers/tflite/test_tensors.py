"""Operators that reduce, order, cut and move tensors, on both backends, against ai-edge-litert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, ModelError
from gpunn.model import load
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.case import ints, values
from tests.importers.tflite.cases_tensors import I32, IMAGE, MATRIX, int32
from tests.ops.integer_checks import litert_integer
from tests.tflite_builder import Graph, single_op


def test_shapes_computed_in_the_graph_are_constants() -> None:
    """Converters write SHAPE -> STRIDED_SLICE -> PACK -> RESHAPE to flatten any batch."""
    graph = Graph()
    x = graph.input(float32(2, 3, 4))
    (shape,) = graph.add("SHAPE", [x], [int32(3)], {"out_type": "INT32"})
    bounds = [graph.constant(ints(k)) for k in (0, 1, 1)]
    (batch,) = graph.add("STRIDED_SLICE", [shape, *bounds], [int32()], {"shrink_axis_mask": 1})
    minus_one = graph.constant(np.array(-1, np.int32))
    (target,) = graph.add("PACK", [batch, minus_one], [int32(2)], {"axis": 0, "values_count": 2})
    (y,) = graph.add("RESHAPE", [x, target], [float32(2, 12)])
    model = load(graph.build([y]))
    assert [o.op for o in model.operations] == ["reshape"]
    with model.compile(backend="cpu") as compiled:
        assert compiled(values(float32(2, 3, 4), 0)).shape == (2, 12)


def test_a_constant_can_be_an_output() -> None:
    with load(single_op("SHAPE", [IMAGE], [int32(4)], {"out_type": "INT32"})).compile(
        backend="cpu"
    ) as compiled:
        assert compiled(values(IMAGE, 0)).tolist() == list(IMAGE.shape)


def test_constants_that_are_no_shapes_stay_operations() -> None:
    """Short constants may give a huge result, which is not computed while a file is read."""
    multiples = ints(1 << 15, 1 << 15)
    file = single_op("TILE", [ints([1]), multiples], [int32(1 << 15, 1 << 15)])
    assert [o.op for o in load(file).operations] == ["tile"]


@pytest.mark.parametrize(
    ("dtype", "per_channel"), [(DType.UINT8, False), (DType.INT8, False), (DType.INT8, True)]
)
def test_quantised_transpose_conv_agrees_with_litert(dtype: DType, per_channel: bool, backend: str) -> None:
    """Scales that are powers of two give many halves; these have the same bits, too."""
    low, zero = (-128, 0) if dtype is DType.INT8 else (0, 120)
    scales = (0.25, 0.5, 0.125, 0.75) * 3 if per_channel else (0.25,)
    x = TensorType(dtype, (2, 14, 15, 3), Quantization((0.5,), (low + 100,)))
    filter = TensorType(dtype, (12, 3, 3, 3), Quantization(scales, (zero,) * len(scales), 0))
    y = TensorType(dtype, (2, 28, 30, 12), Quantization((32.0,), (low + 90,)))
    bias = TensorType(I32, (12,), Quantization(tuple(0.5 * s for s in scales), (0,) * len(scales)))
    fed, weights, biases = values(x, 0), values(filter, 1), ints(*(100, -200, 300, 50) * 3)
    shape, extents = ints(2, 28, 30, 12), TensorType(I32, (4,))
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
    types, given = [extents, filter, x, bias], [shape, weights, fed, biases]
    (expected,) = litert_integer(
        "TRANSPOSE_CONV", given, types, [y], options, constants=(0, 1, 3), version=3, reference=False
    )
    graph = Graph()
    numbers = [
        graph.input(t) if t is x else graph.tensor(t, data=v.tobytes())
        for t, v in zip(types, given, strict=True)
    ]
    model = load(graph.build(graph.add("TRANSPOSE_CONV", numbers, [y], options, version=3)))
    with model.compile(backend=backend) as compiled:
        assert all(p.backend == backend for p in compiled.placement)
        np.testing.assert_array_equal(compiled(fed), expected)


WRONG: dict[str, tuple[str, Sequence[Array | TensorType], int, Mapping[str, Any] | None, str]] = {
    "float index": (
        "ARG_MAX",
        [MATRIX, ints(1)],
        1,
        {},
        "output type should be INT32 or INT64, got number 0",
    ),
    "transposed to what": (
        "TRANSPOSE_CONV",
        [ints(2, 8, 10, 4), np.zeros((3, 3, 2, 5), np.float32), float32(2, 4, 5, 5)],
        1,
        {"stride_h": 2, "stride_w": 2},
        "an output of 2 images x 4 channels does not fit",
    ),
    "transposed padding": (
        "TRANSPOSE_CONV",
        [ints(2, 8, 10, 3), np.zeros((3, 3, 2, 5), np.float32), float32(2, 4, 5, 5)],
        1,
        {"padding": 5},
        "no padding number 5",
    ),
    "gathered axis": ("GATHER", [MATRIX, ints(0)], 1, {"axis": 2}, "axis 2 is out of range"),
    "two axes": ("ARG_MIN", [MATRIX, ints(0, 1)], 1, {"output_type": "INT32"}, "expected 1 axes, got 2"),
    "new axis": ("EXPAND_DIMS", [MATRIX, ints(3)], 1, {}, "axis 3 is out of range for a result of rank 3"),
    "mirror mode": ("MIRROR_PAD", [MATRIX, ints([0, 0], [0, 0])], 1, {"mode": 2}, "no mirror mode number 2"),
    "mirror paddings": (
        "MIRROR_PAD",
        [MATRIX, ints([0, 0])],
        1,
        {},
        r"should have shape \[2, 2\], got \[1, 2\]",
    ),
    "mirrored too far": ("MIRROR_PAD", [MATRIX, ints([4, 0], [0, 0])], 1, {}, "4 elements has 3 to mirror"),
    "values": ("PACK", [MATRIX, MATRIX], 1, {"values_count": 3}, "packs 3 values, got 2 inputs"),
    "packed shapes": ("PACK", [MATRIX, IMAGE], 1, {"values_count": 2}, "must have one type"),
    "floats for any": ("REDUCE_ANY", [MATRIX, ints(0)], 1, {}, "must be bool, got float32"),
    "integers for mean": (
        "MEAN",
        [TensorType(DType.BOOL, (3,)), ints(0)],
        1,
        {},
        "must be float32 or float16 or int32",
    ),
    "reversed axis": ("REVERSE_V2", [MATRIX, ints(2)], 1, {}, r"axes \[2\] are out of range for rank 2"),
    "shape type": ("SHAPE", [MATRIX], 1, {"out_type": "FLOAT32"}, "output type should be INT32 or INT64"),
    "slice": ("SLICE", [MATRIX, ints(0, 0), ints(5, 1)], 1, {}, r"leave shape \[4, 6\]"),
    "negative slice": ("SLICE", [MATRIX, ints(-1, 0), ints(1, 1)], 1, {}, r"leave shape \[4, 6\]"),
    "unequal split": ("SPLIT", [ints(0), MATRIX], 3, {"num_splits": 3}, "splits 4 slices into 3 equal parts"),
    "no split": ("SPLIT", [ints(0), MATRIX], 0, {"num_splits": 0}, "into 0 equal parts and 0 outputs"),
    "split axis": ("SPLIT", [ints(2), MATRIX], 2, {"num_splits": 2}, "axis 2 is out of range for rank 2"),
    "many splits": (
        "SPLIT",
        [ints(0), float32(0)],
        1,
        {"num_splits": 2**31 - 1},
        "equal parts and 1 outputs",
    ),
    "split outputs": (
        "SPLIT_V",
        [MATRIX, ints(1, 3), ints(0)],
        2,
        {"num_splits": 3},
        "into 3 parts, 2 sizes",
    ),
    "split sizes": ("SPLIT_V", [MATRIX, ints(1, 4), ints(0)], 2, {"num_splits": 2}, "add up to 4"),
    "multiples": ("TILE", [MATRIX, ints(1)], 1, {}, "expected 2 multiples, got 1"),
    "k": ("TOPK_V2", [MATRIX, ints(7)], 2, {}, r"k must be in 0 \.\.\. 6, got 7"),
    "slices": ("UNPACK", [MATRIX], 2, {"num": 2}, "unpacks 4 slices as 2 values into 2 outputs"),
    "unpack axis": ("UNPACK", [MATRIX], 2, {"num": 2, "axis": 5}, "axis 5 is out of range"),
}


@pytest.mark.parametrize(("operator", "inputs", "outputs", "options", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_operators_are_refused(
    operator: str,
    inputs: Sequence[Array | TensorType],
    outputs: int,
    options: Mapping[str, Any] | None,
    reason: str,
) -> None:
    with pytest.raises((FormatError, ModelError), match=reason) as caught:
        load(single_op(operator, inputs, [float32(1)] * outputs, options))
    assert f"model: operation 0, {operator}" in str(caught.value)
