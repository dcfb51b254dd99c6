"""The facet Axes: an op that states it computes the same on operands whose axes come in another order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.graph.operation import Operation
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.passes.arrangement import Arrangement, View, own
from gpunn.passes.orders import Ordered
from gpunn.types import Array, DType, Quantization, TensorType

STATED = [op for op in OPS.values() if op.algebra.axes is not None]

# For each op the shapes of its inputs, and its attributes. An array is an input of integers.
SHAPES: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {
    "select": [([(2, 3, 1), (3, 4), (2, 1, 4)], {}), ([(4,), (2, 3, 4), ()], {})],
    "leaky_relu": [([(2, 3, 4)], {"alpha": 0.25})],
    "fake_quant": [([(2, 3, 4)], {"min": -1.0, "max": 2.0})],
    "cast": [([(2, 3, 4)], {"dtype": "int32"})],
    "bucketize": [([(2, 3, 4)], {"boundaries": (-0.5, 0.0, 1.0)})],
    "quantize": [([(2, 3, 4)], {"dtype": "int8", "scale": 0.02})],
    "dequantize": [([TensorType(DType.FLOAT16, (2, 3, 4))], {})],
    "lut": [([TensorType(DType.UINT8, (2, 3, 4))], {"table": tuple(reversed(range(256)))})],
    "prelu": [([(2, 3, 4), (3, 1)], {})],
    "concat": [([(2, 3, 4), (2, 1, 4)], {"axis": -2}), ([(2, 1, 1, 3)] * 3, {"axis": 1})],
    "split": [([(2, 5, 3)], {"sizes": (1, 4), "axis": 1}), ([(4, 1, 3)], {"sizes": (1, 3), "axis": -3})],
    "unstack": [([(2, 3, 4)], {"axis": 1}), ([(2, 1, 3, 4)], {"axis": -3})],
    "stack": [([(2, 3)] * 4, {"axis": 1}), ([(2, 3)], {"axis": -1})],
    "pad": [([(2, 3, 1)], {"paddings": ((0, 0), (1, 2), (0, 3)), "value": 7.0})],
    "mirror_pad": [([(2, 3, 4)], {"paddings": ((0, 0), (1, 2), (3, 0)), "mode": "reflect"})],
    "roll": [([(2, 3, 4)], {"shifts": (0, 2, -1)})],
    "strided_slice": [
        (
            [(4, 3, 5, 2)],
            {
                "begin": (3, None, 1, 1),
                "end": (None, -1, 9, 0),
                "strides": (-2, 1, 2, 1),
                "shrink_axes": (3,),
            },
        ),
        ([(4, 1, 5)], {"begin": (1, 0, None), "end": (3, 1, None), "strides": (1, 1, -1)}),
    ],
    "tile": [([(2, 3, 1)], {"multiples": (1, 2, 3)})],
    "broadcast_to": [([(3, 1)], {"shape": (2, 3, 4)}), ([(2, 3, 4)], {"shape": (2, 3, 4)})],
    "reshape": [
        ([(2, 3, 4)], {"shape": (2, 12)}),
        ([(2, 6, 4, 5)], {"shape": (2, 3, 2, 20)}),
        ([(2, 1, 6, 5)], {"shape": (1, 4, 3, 5)}),
        ([(4, 6)], {"shape": (6, 4)}),
    ],
    "cumsum": [([(2, 3, 4)], {"axis": -2, "exclusive": True})],
    "arg_max": [([(2, 3, 4)], {"axis": 1})],
    "arg_min": [([(2, 3, 4)], {"axis": -1})],
    "local_response_normalization": [
        ([(2, 5, 4)], {"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.5, "axis": 1})
    ],
    "gather": [
        ([(2, 5, 3), np.array([[4, 0], [1, 1]], np.int32)], {"axis": 1}),
        ([(2, 5, 3), np.array(2, np.int32)], {"axis": -1}),
        ([(2, 5, 3), np.array([1, 1, 0], np.int32)], {}),
    ],
    **{name: [([(2, 5, 4)], {"axis": 1})] for name in ("softmax", "log_softmax", "l2_normalization")},
    "layer_normalization": [([(2, 5, 4)], {"axes": (1,), "epsilon": 1e-3})],
    "rotary_embedding": [
        ([(2, 3, 4), (3, 4), (2,)], {"axis": -1}),
        ([(2, 6, 4), (6, 1), (2, 3, 4)], {"axis": 1}),
    ],
}
REDUCED = [
    ([(2, 3, 4, 5)], {"axes": (-1, 1), "keep_dims": True}),
    ([(2, 3, 4, 5)], {"axes": (0, 2), "keep_dims": False}),
    ([(2, 1, 4)], {"axes": (1,), "keep_dims": False}),
]


def inputs_of(op: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """The cases of an op."""
    definition = OPS[op]
    if op in SHAPES:
        return SHAPES[op]
    if "axes" in definition.attributes:
        return REDUCED
    if len(definition.operands) == 2:
        return [([(2, 3, 1), (3, 4)], {}), ([(4,), (2, 1, 4)], {}), ([(), (2, 3)], {})]
    return [([(2, 3, 4)], {}), ([(1, 3, 1, 2)], {})]


def built(op: str, given: list[Any], attrs: dict[str, Any]) -> tuple[Operation, list[Array]]:
    """An operation, and values for its inputs: of the first of these types that it takes."""
    rng = np.random.default_rng(5)
    for dtype in (DType.FLOAT32, DType.INT32, DType.BOOL, DType.COMPLEX64):
        model, values = Model(), []
        for k, shape in enumerate(given):
            if isinstance(shape, np.ndarray):
                value, type = shape, TensorType(DType.of(shape.dtype), shape.shape)
            else:
                type = shape if isinstance(shape, TensorType) else TensorType(dtype, shape)
                type = TensorType(DType.BOOL, type.shape) if op == "select" and k == 0 else type
                value = (rng.integers(1, 9, type.shape) / (2 if type.dtype is DType.FLOAT32 else 1)).astype(
                    type.dtype.numpy
                )
            model.input("x", type)
            values.append(value)
        try:
            model.add(op, model.inputs, attrs)
        except ModelError:
            continue
        return model.operations[0], values
    raise AssertionError(f"{op} takes neither numbers nor truth values")


def moved(value: Array, arrangement: Arrangement) -> Array:
    """An array with its axes in another order."""
    order = [a for a in arrangement if a is not None]
    rest = [a for a in range(value.ndim) if a not in order]
    assert all(value.shape[a] == 1 for a in rest)
    whole = value.transpose([*rest, *order])
    return whole.reshape([1 if a is None else value.shape[a] for a in arrangement])


def orders(count: int, single: tuple[int, ...], named: frozenset[int]) -> list[tuple[int | None, ...]]:
    """Orders of shared axes, some with a new axis, some without one of extent 1."""
    found: list[tuple[int | None, ...]] = list(itertools.permutations(range(count)))[-14:]
    found.append((*reversed(range(count)), None))
    found += [tuple(a for a in reversed(range(count)) if a != left) for left in single if left not in named]
    return found


@pytest.mark.parametrize("op", [op.name for op in STATED])
def test_a_call_on_axes_in_another_order_gives_the_same_elements(op: str) -> None:
    tested = 0
    for given, attrs in inputs_of(op):
        operation, values = built(op, given, attrs)
        views = tuple(None if i is None else View(i, own(i.type.shape)) for i in operation.inputs)
        member = Ordered(operation, views, {})
        shared = member.shared
        assert shared is not None
        expected = operation.evaluate(values)
        definition = operation.definition
        for order in orders(shared.count, shared.single, shared.named):
            reads, writes = member.form(order)
            results = [moved(e, a) for e, a in zip(expected, writes, strict=True)]
            model = Model()
            turned = [moved(v, a) for v, a in zip(values, reads, strict=True)]
            for value, operand in zip(turned, operation.inputs, strict=True):
                assert operand is not None
                model.input("x", operand.type.with_shape(value.shape))
            member.order = order
            model.add(op, model.inputs, member.attributes(results[0].shape))
            for found, wanted in zip(model.operations[0].evaluate(turned), results, strict=True):
                assert found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted, rtol=1e-6)
                tested += 1
    assert tested
    assert definition.name == op


def test_no_case_is_left_over() -> None:
    assert SHAPES.keys() <= {op.name for op in STATED}


def test_integers_that_round_by_their_place_need_their_order() -> None:
    model = Model()
    for extent, free in ((16, True), (17, False)):
        x = model.input("x", TensorType(DType.INT8, (2, extent), Quantization((0.1,), (0,))))
        model.add("quantize", [x], {"dtype": "int8", "scale": 0.2})
        member = Ordered(model.operations[-1], (View(x, own(x.type.shape)),), {})
        assert (member.shared is not None) is free
        model.add("mean", [x], {"axes": (1,)})
        assert Ordered(model.operations[-1], (View(x, own(x.type.shape)),), {}).shared is None
