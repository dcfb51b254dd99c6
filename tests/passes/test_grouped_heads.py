"""share_heads: products broadcast keys and values that several heads share; nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.grouped_heads import share_heads
from gpunn.types import float32
from tests.passes.same import ops, same
from tests.passes.test_layer_norm import add
from tests.passes.unrolled import weights

GROUPS, HEADS, KEYS, DEPTH = 2, 3, 5, 4


@dataclass
class Attention:
    """Builds attention; `change` names a part of it that is another.

    columns: keys are transposed, and no product transposes them. scale: the shape of a number for queries and
    for keys. mask: its shape. copied: dimensions around the copies are kept, as LiteRT Torch has them.
    """

    queries: int = 6
    columns: bool = True
    scale: tuple[int, ...] | None = ()
    mask: tuple[int, ...] | None = (1, 6, KEYS)
    copied: bool = True
    change: str = ""

    def copies(self, model: Model, x: Operand) -> Operand:
        """Copy matrices [groups, rows, columns] for each head: [groups x heads, rows, columns]."""
        rows, columns = x.type.shape[1:]
        between = (GROUPS, 1, rows, columns)
        shape = (GROUPS, HEADS, rows, columns)
        if self.change == "order":
            between, shape = (1, GROUPS, rows, columns), (HEADS, GROUPS, rows, columns)
        if self.copied:
            between, shape = (1, *between), (1, *shape)
        copied = add(model, "broadcast_to", add(model, "reshape", x, shape=between), shape=shape)
        return add(model, "reshape", copied, shape=(GROUPS * HEADS, rows, columns))

    def model(self) -> Model:
        model, heads = Model(), GROUPS * HEADS
        q = model.input("q", float32(heads, self.queries, DEPTH))
        k, v = (model.input(n, float32(GROUPS, KEYS, DEPTH)) for n in "kv")
        if self.columns:
            k = add(model, "transpose", k, perm=(0, 2, 1))
        k, v = self.copies(model, k), self.copies(model, v)
        if self.scale is not None:
            number = model.constant("scale", np.full(self.scale, 0.7, np.float32))
            q, k = (add(model, "mul", x, number) for x in (q, k))
        scores = add(model, "batch_matmul", q, k, adj_b=not self.columns)
        if self.mask is not None:
            scores = add(model, "add", scores, model.constant("mask", weights(3, *self.mask)))
        if self.change == "rows":  # each head has two rows of half of the keys
            scores = add(model, "reshape", scores, shape=(heads, self.queries // 2, 2 * KEYS))
        total = add(model, "softmax", scores, axis=-2 if self.change == "axis" else -1)
        if self.change == "between":
            total = add(model, "abs", total)
        if total.type.rank > 3 or self.change == "rows":
            total = add(model, "reshape", total, shape=(heads, self.queries, KEYS))
        y = add(model, "batch_matmul", total, v)
        model.output(y, *([scores] if self.change == "read" else []))
        return model


@pytest.mark.parametrize(
    "attention",
    [
        Attention(),
        Attention(columns=False, scale=None),
        Attention(scale=(1,)),
        Attention(mask=None, copied=False),
        Attention(mask=(KEYS,)),
        Attention(mask=(1, 1)),
        Attention(mask=(1, 1, 6, KEYS)),
        Attention(queries=1, mask=(1, 1, KEYS)),
        Attention(queries=1, mask=None, columns=False),
    ],
    ids=str,
)
def test_shared_keys_and_values_are_not_copied(attention: Attention, backend: str) -> None:
    model = attention.model()
    found = same(model, share_heads)
    assert "broadcast_to" not in ops(found)
    products = [o for o in found.operations if o.op == "batch_matmul"]
    rows = HEADS if attention.queries == 1 else attention.queries
    assert [o.outputs[0].type.shape[-2] for o in products] == [rows, rows]
    assert all(o.outputs[0].type.rank == (3 if attention.queries == 1 else 4) for o in products)
    chain = [o for o in ops(found) if o not in ("reshape", "transpose", "mul")]
    assert chain == ["batch_matmul", *["add"] * (attention.mask is not None), "softmax", "batch_matmul"]
    inputs = [weights(5 + k, *i.type.shape) for k, i in enumerate(model.inputs)]
    (expected,) = model.evaluate([v.astype(np.float64) for v in inputs])
    with model.compile(backend) as compiled:
        np.testing.assert_allclose(compiled(*inputs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("change", ["read", "between", "axis", "rows"])
def test_products_apart_have_the_heads_of_a_group_as_rows(change: str) -> None:
    found = same(replace(Attention(), change=change).model(), share_heads)
    assert "broadcast_to" not in ops(found)
    products = [o for o in found.operations if o.op == "batch_matmul"]
    assert [o.outputs[0].type.shape[:2] for o in products] == [(GROUPS, HEADS * 6)] * 2


def test_transposed_weights_of_one_query_are_no_rows() -> None:
    """Weights of one query and N keys, as a column for each head, times one row of values."""
    model, heads, attention = Model(), GROUPS * HEADS, Attention()
    q, k = model.input("q", float32(heads, 1, DEPTH)), model.input("k", float32(GROUPS, DEPTH, KEYS))
    v = model.input("v", float32(GROUPS, 1, 7))
    scores = add(model, "batch_matmul", q, attention.copies(model, k))
    weights = add(model, "softmax", scores, axis=-1)
    model.output(add(model, "batch_matmul", weights, attention.copies(model, v), adj_a=True))
    assert "broadcast_to" not in ops(same(model, share_heads))


def test_a_mask_for_each_head_keeps_the_products_apart() -> None:
    found = same(Attention(mask=(GROUPS * HEADS, 6, KEYS)).model(), share_heads)
    products = [o for o in found.operations if o.op == "batch_matmul"]
    assert [o.outputs[0].type.rank for o in products] == [3, 3]


def test_a_number_that_adds_axes_stays_behind_the_copies() -> None:
    found = same(Attention(scale=(1, 1, 1, 1)).model(), share_heads)
    assert ops(found).count("broadcast_to") == 1  # of the keys


def test_heads_in_another_order_stay() -> None:
    model = Attention(change="order").model()
    assert share_heads(model) is model


@pytest.mark.parametrize("shape", [(1, 6, DEPTH), (6, DEPTH)])
def test_a_broadcast_first_factor_stays(shape: tuple[int, ...]) -> None:
    model = Model()
    x, k = model.input("x", float32(*shape)), model.input("k", float32(GROUPS, DEPTH, KEYS))
    model.output(add(model, "batch_matmul", x, Attention().copies(model, k)))
    assert share_heads(model) is model


def test_copies_along_rows_stay() -> None:
    model = Model()
    x, k = model.input("x", float32(GROUPS, 6, DEPTH)), model.input("k", float32(GROUPS, 1, KEYS))
    copies: Any = add(model, "broadcast_to", k, shape=(GROUPS, DEPTH, KEYS))
    model.output(add(model, "batch_matmul", x, copies))
    assert share_heads(model) is model
    assert "broadcast_to" in ops(model) and "batch_matmul" in ops(optimise(model))
