"""Random graphs with many transposes: the same results before and after arrange, and no more moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpunn.graph.operation import Operand
from gpunn.graph.structure import structure
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.layout import arrange
from gpunn.types import float32
from tests import evaluator
from tests.passes.channels_first import FIRST, LAST, constant
from tests.passes.same import same
from tests.passes.test_layout import moved

UNARY = ("relu", "tanh", "neg", "abs")
PERMS = {
    3: [(0, 2, 1), (1, 2, 0), (2, 1, 0)],
    4: [FIRST, LAST, (0, 2, 1, 3), (3, 2, 1, 0)],
    5: [(0, 1, 3, 4, 2), (0, 1, 4, 2, 3), (0, 2, 1, 3, 4)],
}


class Drawn:
    """A graph of random operations on reals, in which transposes are frequent."""

    def __init__(self, data: st.DataObject, size: int) -> None:
        self.data, self.model = data, Model()
        extents = data.draw(st.sampled_from([(1, 3, 4, 2), (2, 3, 1, 4), (2, 2, 3), (1, 1, 3, 2, 2)]))
        self.tensors = [self.model.input("x", float32(*extents)) for _ in range(2)]
        for _ in range(size):
            self.step()
        count = data.draw(st.integers(1, 3))
        self.model.output(*data.draw(st.lists(st.sampled_from(self.tensors), min_size=1, max_size=count)))
        self.model.output(self.tensors[-1])

    def one(self, *values: Any) -> Any:
        return self.data.draw(st.sampled_from(values))

    def step(self) -> None:
        x: Operand = self.data.draw(st.sampled_from(self.tensors[-6:]))
        shape, rank = x.type.shape, x.type.rank
        kind = self.one(
            "transpose", "transpose", "unary", "binary", "constant", "axis", "reshape", "part", "fixed"
        )
        if not rank or x.type.size > 5000:
            kind = "unary"
        add_ = getattr(self, f"_{kind}")
        self.tensors += add_(x, shape, rank)

    def _put(self, op: str, *inputs: Operand, **attrs: Any) -> list[Operand]:
        return list(self.model.add(op, inputs, attrs))

    def _transpose(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        perms = PERMS.get(rank, [tuple(reversed(range(rank)))])
        return self._put("transpose", x, perm=self.one(*perms))

    def _unary(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        return self._put(self.one(*UNARY), x)

    def _binary(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        fitting = [t for t in self.tensors if _broadcasts(t.type.shape, shape)]
        return self._put(
            self.one("add", "sub", "maximum"), *self.one([x, self.one(*fitting)], [self.one(*fitting), x])
        )

    def _constant(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        start = self.data.draw(st.integers(0, rank))
        extents = tuple(self.one(1, n) for n in shape[start:])
        return self._put("add", x, constant(self.model, *extents))

    def _axis(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        axis = self.data.draw(st.integers(-rank, rank - 1))
        op = self.one("mean", "reduce_max", "softmax", "cumsum", "concat", "stack")
        if op in ("mean", "reduce_max"):
            return self._put(op, x, axes=(axis,), keep_dims=self.one(True, False))
        alike = [t for t in self.tensors if t.type.shape == shape]
        return self._put(op, *([x, self.one(*alike)] if op in ("concat", "stack") else [x]), axis=axis)

    def _reshape(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        k = self.data.draw(st.integers(0, rank))
        merged = (
            (*shape[: max(0, k - 1)], shape[k - 1] * shape[k], *shape[k + 1 :]) if 0 < k < rank else shape
        )
        halved = tuple(m for n in shape for m in ((2, n // 2) if n % 2 == 0 and n > 2 else (n,)))
        without = tuple(n for n in shape if n != 1)
        return self._put("reshape", x, shape=self.one((*shape[:k], 1, *shape[k:]), merged, halved, without))

    def _part(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        axis = self.data.draw(st.integers(0, rank - 1))
        op = self.one("split", "pad", "slice", "unstack")
        if op == "split":
            return self._put("split", x, sizes=(1, shape[axis] - 1) if shape[axis] > 1 else (1,), axis=axis)
        if op == "unstack":
            return self._put("unstack", x, axis=axis)
        if op == "pad":
            return self._put("pad", x, paddings=tuple((int(k == axis), 0) for k in range(rank)), value=0.5)
        begin, strides = [None] * rank, [1] * rank
        strides[axis] = -1
        shrink = [k for k in range(rank) if shape[k] == 1 and k != axis][:1]
        ends = tuple(None if k not in shrink else 1 for k in range(rank))
        starts = tuple(0 if k in shrink else b for k, b in enumerate(begin))
        return self._put(
            "strided_slice", x, begin=starts, end=ends, strides=tuple(strides), shrink_axes=tuple(shrink)
        )

    def _fixed(self, x: Operand, shape: tuple[int, ...], rank: int) -> list[Operand]:
        """An operation that needs its axes as they are."""
        return self._put("top_k", x, k=shape[-1])[:1]


STEPS, TERMS = 14, 100  # operations of a graph; terms of a sum in it, more than nearly all have
ROUNDINGS = STEPS * TERMS * 2.0**-24


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= 5000
    except ValueError:
        return False


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_graph_computes_the_same_and_moves_no_more(data: st.DataObject) -> None:
    model = Drawn(data, data.draw(st.integers(2, 14))).model
    result = same(model, arrange)
    assert moved(result) <= moved(model)
    assert structure(arrange(model)) == structure(result)
    assert moved(arrange(result)) <= moved(result)
    same(model, optimise)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_graph_has_the_same_results_on_both_backends(data: st.DataObject, backend: str) -> None:
    model = Drawn(data, data.draw(st.integers(2, 14))).model
    inputs = evaluator.random_inputs(model)
    expected = evaluator.run(model, inputs)
    everything = model.with_operations(model.operations)
    everything.outputs = [o for operation in model.operations for o in operation.outputs]
    peak = max(float(np.abs(value).max(initial=1)) for value in evaluator.run(everything, inputs))
    with model.compile(backend) as compiled:
        results = compiled(*inputs)
    for found, wanted in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=ROUNDINGS * peak)
