"""Quantised products whose operands a workgroup shares, to the bit; who is offered them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import candidates
from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.ops.kernels.workgroup_tile import WorkgroupTile
from gpunn.types import DType
from tests.ops.contraction.conftest import TILES
from tests.ops.contraction.quantized_product import ATTRS, DTYPES, Case
from tests.ops.contraction.test_batch_matmul import over_all, stacks
from tests.ops.contraction.test_workgroup_product import GPU, described_tile
from tests.ops.harness import take_body
from tests.ops.integer_checks import check_integer, integer_model
from tests.ops.quantized import quantized

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


ADJOINTS = [{"adj_a": a, "adj_b": b} for a in (False, True) for b in (False, True)]
LIBRARY = "workgroup_integers"
# Rows, depths and columns that 4 divides and others; one matrix for all, several, stacks of several axes.
STACKS: tuple[tuple[Any, Any, int, int, int], ...] = (
    ((2,), (2,), 70, 20, 65),
    ((3,), (), 9, 33, 12),
    ((2, 1), (3,), 8, 64, 70),
    ((1, 2), (1, 2), 33, 131, 9),
    ((2, 1), (2, 1), 66, 1, 8),
)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("attrs", ADJOINTS, ids=str)
@pytest.mark.parametrize("shape", STACKS, ids=str)
def test_products_of_computed_stacks(
    shape: tuple[Any, Any, int, int, int],
    attrs: dict[str, bool],
    dtype: DType,
    tile: WorkgroupTile,
    hardware_gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_body(monkeypatch, LIBRARY)
    inputs, types, _ = stacks(dtype, shape, attrs, seed=shape[2] + attrs["adj_a"])
    y = over_all(inputs, types, attrs)
    (found,) = check_integer("batch_matmul", inputs, types, attrs, y, backend=hardware_gpu)
    assert np.unique(found).size > 20 or y.zero_point[0] in LIMITS[dtype]


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_the_largest_products_of_computed_stacks(
    dtype: DType, tile: WorkgroupTile, hardware_gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All products are 255 * 255; zeros behind the depth of 301 lie 255 from one zero point or the other."""
    take_body(monkeypatch, LIBRARY)
    low, high = LIMITS[dtype]
    for zero, element in ((low, high), (high, low)):
        types = [quantized(dtype, shape, 1.0, zero) for shape in ((2, 9, 301), (2, 301, 10))]
        inputs = [np.full(t.shape, element, dtype.numpy) for t in types]
        y = quantized(dtype, (2, 9, 10), 301 * 65025 / 200, low).quantization
        (found,) = check_integer("batch_matmul", inputs, types, {}, y, backend=hardware_gpu)
        np.testing.assert_array_equal(found, low + 200)


def test_who_is_offered_tiles_of_computed_stacks() -> None:
    """Attention of a vision transformer takes them first: 197 rows, three heads of 64."""
    for sizes, adjoint in (((197, 64, 197), True), ((197, 197, 64), False)):
        rows, depth, columns = sizes
        attrs = {"adj_a": False, "adj_b": adjoint}
        inputs, types, y = stacks(DType.INT8, ((3,), (3,), rows, depth, columns), attrs, seed=0)
        model = integer_model("batch_matmul", inputs, types, attrs, y.quantization)
        first, *others = candidates(model.operations[0], GPU)
        assert described_tile(first.kernels[0]) == "matmul_workgroup 32"
        assert [described_tile(c.kernels[0]) for c in others] == ["batch_matmul", "matmul_workgroup"]
