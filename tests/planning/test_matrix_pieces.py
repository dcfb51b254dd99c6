"""Pieces of a tensor that are matrices of products: these begin where the pieces lie."""

from __future__ import annotations

import pytest

from gpunn.model import Model
from gpunn.types import float32
from tests.planning.joining import PIECES, clamped, copied, values
from tests.planning.preferring import prefer

BODIES = ("batch_matmul", "batch_matmul_tile", "matmul_workgroup", "matmul_broadcast")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("adj_a", "adj_b"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("count", "rows", "depth", "columns"), [(2, 8, 4, 8), (3, 67, 16, 20), (2, 9, 5, 7)])
def test_both_operands_are_read_where_they_are(
    body: str,
    adj_a: bool,
    adj_b: bool,
    count: int,
    rows: int,
    depth: int,
    columns: int,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prefer(monkeypatch, body)
    model = Model("products of pieces")
    left = (depth, rows) if adj_a else (rows, depth)
    right = (columns, depth) if adj_b else (depth, columns)
    stacks = [clamped(model, model.input(n, float32(3, count, *s))) for n, s in (("a", left), ("b", right))]
    a, b = ([*model.add("unstack", [stack], {"axis": 0})] for stack in stacks)
    for one, other in ((0, 2), (2, 0), (1, 1)):
        model.output(*model.add("batch_matmul", [a[one], b[other]], {"adj_a": adj_a, "adj_b": adj_b}))
    assert copied(model, values(model), PIECES) == 0


@pytest.mark.parametrize("body", ["matmul_workgroup", "matmul_broadcast"])
def test_a_filter_is_read_where_it_is(body: str, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, body)
    model = Model("computed filters")
    x, filters = model.input("x", float32(70, 16)), clamped(model, model.input("w", float32(2, 24, 16)))
    for filter in model.add("unstack", [filters], {"axis": 0}):
        model.output(*model.add("fully_connected", [x, filter]))
    assert copied(model, values(model), PIECES) == 0


def test_rows_of_matrices_that_lie_apart_are_copied(gpu: str) -> None:
    model = Model("apart")
    x = clamped(model, model.input("x", float32(2, 4, 12)))
    a, b = model.add("split", [x], {"axis": 2, "sizes": (8, 4)})
    model.output(*model.add("batch_matmul", [b, a], {"adj_a": True}))
    assert copied(model, values(model), PIECES) == 2
