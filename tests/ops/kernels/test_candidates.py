"""Every candidate computes the same, also where lowering prefers another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.ops.contraction.quantized_product import Case
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import (
    as_software,
    check,
    limit_device,
    model_of,
    random,
    require_shared_rows,
    shares_rows,
    take_candidate,
)
from tests.ops.reduction.test_order import awkward

# Op, shapes of the input and the filter, and the bodies of the candidates in order of preference, as of
# software: there are others on a GPU.
REALS = (
    (
        "conv2d",
        (1, 3, 4, 8),
        (6, 1, 1, 8),
        ("matmul_tile", "conv_tile", "matmul_broadcast", "conv2d_grouped"),
    ),
    ("conv2d", (1, 1, 1, 8), (5, 1, 1, 8), ("matmul_row", "conv_tile", "conv2d_grouped")),
    ("conv2d", (1, 1, 1, 10), (5, 1, 1, 10), ("matmul_row", "conv_direct", "conv2d_grouped")),
    ("conv2d", (2, 6, 5, 8), (7, 3, 2, 8), ("conv_tile", "conv_broadcast", "conv2d_grouped")),
    ("conv2d", (2, 6, 5, 3), (8, 3, 2, 3), ("conv_direct", "conv_direct_broadcast", "conv2d_grouped")),
    ("conv2d", (2, 6, 5, 8), (4, 3, 2, 4), ("conv_tile", "conv2d_grouped")),
    ("fully_connected", (1, 8), (5, 8), ("matmul_row", "matmul_any")),
    ("fully_connected", (1, 7), (5, 7), ("matmul_row", "matmul_any")),
    ("fully_connected", (3, 7), (5, 7), ("matmul_tile", "matmul_any")),
    ("fully_connected", (17, 9), (9, 9), ("matmul_tile", "matmul_broadcast", "matmul_any")),
)
INTEGERS = (
    ("conv2d", (2, 6, 5, 9), (8, 3, 2, 9), ("integer_product", "conv_direct_broadcast", "conv2d_grouped")),
    ("fully_connected", (3, 12), (5, 12), ("integer_row", "conv2d_grouped")),
)


SHARED = ("matmul_broadcast", "conv_broadcast", "conv_direct_broadcast")
TOP_K = ((100, ("extremes", "top_k")), (300, ("extremes", "take_sorted")))


def each(cases: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Parametrise over each case, and over the places of its candidates."""
    pairs = [(case, place) for case in cases for place in range(len(case[-1]))]
    return pytest.mark.parametrize(("case", "place"), pairs, ids=str)


def take(monkeypatch: pytest.MonkeyPatch, bodies: Sequence[str], place: int) -> None:
    """Make lowering take the candidate at a place; skip the test if the adapter is not offered it."""
    if bodies[place] in SHARED:
        require_shared_rows()
    offered = [body for body in bodies if body not in SHARED or shares_rows()]
    take_candidate(monkeypatch, offered.index(bodies[place]))


@each(REALS)
def test_candidates_on_reals(case: Any, place: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, x, filter, bodies = case
    as_software(monkeypatch)
    take(monkeypatch, bodies, place)
    inputs = [random(1, *x), random(2, *filter), random(3, filter[0])]
    attrs: dict[str, Any] = {"activation": "relu6"}
    with model_of(op, inputs, attrs, (1, 2)).compile(gpu) as compiled:
        assert [row.kernel.body for row in compiled.plan_rows()] == [bodies[place]]
    check(op, inputs, attrs, backend=gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))


@pytest.mark.parametrize("kind", ["uint8", "int8 per channel"])
@each(INTEGERS)
def test_candidates_on_integers(
    case: Any, place: int, kind: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *shapes, bodies = case
    limit_device(monkeypatch, software=False, parallel_invocations=1)  # software has one more, large GPUs too
    take(monkeypatch, bodies, place)
    product = Case(shapes[0], kind, *shapes[1:])
    assert product.body({}) == bodies[place]
    product.check(gpu, {})


@each(TOP_K)
def test_candidates_of_top_k(case: Any, place: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    length, bodies = case
    take_candidate(monkeypatch, place)
    x = awkward(3, length)
    with model_of("top_k", [x], {"k": 5}).compile(gpu) as compiled:
        assert compiled.plan_rows()[-1].kernel.body == bodies[place]
    check("top_k", [x], {"k": 5}, backend=gpu, atol=0, rtol=0)
