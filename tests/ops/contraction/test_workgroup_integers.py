"""Quantised products whose operands a workgroup shares, to the bit; who is offered them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import candidates
from gpunn.ops.kernels.workgroup_tile import WorkgroupTile
from tests.ops.contraction.conftest import TILES
from tests.ops.contraction.quantized_product import ATTRS, DTYPES, Case
from tests.ops.contraction.test_workgroup_product import GPU, described_tile
from tests.ops.harness import take_body
from tests.ops.integer_checks import integer_model

BODY = "integer_workgroup"
# Words of a pixel that 4 divides and others; parts of tiles, several tiles; one or more steps of the depth.
SHAPES: tuple[tuple[str, Any, Any], ...] = (
    ("fully_connected", (70, 16), (33, 16)),
    ("fully_connected", (9, 12), (64, 12)),
    ("fully_connected", (130, 300), (70, 300)),
    ("conv2d", (2, 9, 7, 32), (12, 1, 1, 32)),
    ("conv2d", (1, 9, 11, 8), (140, 3, 3, 8)),
    ("conv2d", (2, 10, 9, 16), (9, 3, 2, 16)),
    ("conv2d", (1, 12, 12, 4), (6, 2, 3, 4)),
)
# Each shape and each dtype with each tile.
DRAWN = [
    (*shape, [*DTYPES][(s + t) % len(DTYPES)], tile)
    for (s, shape), (t, tile) in product(*map(enumerate, (SHAPES, TILES.values())))
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("op", "x", "filter", "kind", "tile"), DRAWN, indirect=["tile"])
def test_products_of_words(
    op: str,
    x: Any,
    filter: Any,
    kind: str,
    tile: WorkgroupTile,
    hardware_gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_body(monkeypatch, BODY)
    number = SHAPES.index((op, x, filter)) + len(kind)
    attrs = {"activation": "relu"} if op == "fully_connected" else ATTRS[number % len(ATTRS)]
    case = Case(op, kind, x, filter, seed=number, bias=number % 3 > 0)
    values = np.unique(case.check(hardware_gpu, attrs))
    assert values.size > 20 or "activation" in attrs


WORDS = "integer_product 4 rows", "integer_product"
SLICED, LARGE = f"{BODY} 32", f"{BODY} 128"


@pytest.mark.parametrize(
    ("pixels", "depth", "channels", "expected"),
    [
        (64, 64, 128, [BODY, *WORDS, LARGE]),
        (14, 512, 512, [*WORDS, BODY, SLICED]),
        (64, 3, 128, [*WORDS]),
    ],
)
def test_they_come_first_where_tiles_occupy_a_gpu(
    pixels: int, depth: int, channels: int, expected: list[str]
) -> None:
    case = Case("conv2d", "uint8", (1, pixels, pixels, depth), (channels, 1, 1, depth))
    model = integer_model("conv2d", case.inputs, case.types, {}, case.output, (1, 2))
    found = candidates(model.operations[0], GPU)
    assert [described_tile(candidate.kernels[0]) for candidate in found] == expected
