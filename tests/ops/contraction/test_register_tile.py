"""Register tiles of other sizes than the rule's, which the tuner tries on GPUs, against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunn.comparison import compare
from gpunn.device import BASELINE
from gpunn.model import Model
from gpunn.ops.kernels.register_tile import LARGE_TILES, SMALL_TILE, RegisterTile, other_tiles
from gpunn.ops.kernels.tiling import tiles
from gpunn.types import float32
from tests.ops.contraction.test_broadcast_tile import described, windows
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import check, model_of, random
from tests.planning.preferring import has_tile, prefer_tile

GPU = replace(BASELINE, parallel_invocations=1 << 12)


@pytest.fixture(params=[SMALL_TILE, *LARGE_TILES], ids=str)
def tile(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> RegisterTile:
    """Let lowering take tiles of that size."""
    size: RegisterTile = request.param
    prefer_tile(monkeypatch, size)
    return size


def run(
    tile: RegisterTile, op: str, inputs: list[Any], attrs: dict[str, Any], constants: tuple[int, ...]
) -> None:
    """Check an operation whose kernel has such tiles."""
    filter = inputs[1].T if op == "batch_matmul" else inputs[1]
    check(op, inputs, attrs, backend="webgpu", constants=constants, atol=tolerance(inputs[0], filter))
    with model_of(op, inputs, attrs, constants).compile("webgpu") as compiled:
        kernels = [row.kernel for row in compiled.plan_rows()]
        assert any(has_tile(tile, kernel) for kernel in kernels), [kernel.reason for kernel in kernels]


# Rows, depths and channels: whole tiles and parts of tiles; sums that several invocations share, and others.
PRODUCTS = ((16, 12, 8), (17, 4, 13), (9, 40, 4), (35, 132, 61), (48, 64, 24))


@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
def test_products(shape: tuple[int, int, int], tile: RegisterTile) -> None:
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)][: 2 + rows % 2]
    run(tile, "fully_connected", inputs, {"activation": "relu6"} if channels % 2 else {}, (1, 2))


@pytest.mark.parametrize("rows", [4, 7])
def test_products_of_few_rows(rows: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer_tile(monkeypatch, SMALL_TILE)
    run(SMALL_TILE, "fully_connected", [random(1, rows, 36), random(2, 11, 36), random(3, 11)], {}, (1, 2))


@pytest.mark.parametrize("depth", [5, 39])
@pytest.mark.parametrize("size", [SMALL_TILE, LARGE_TILES[0]], ids=str)
def test_what_lies_behind_a_row_is_not_in_its_sums(
    size: RegisterTile, depth: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of four goes beyond the end of a row, where the next one begins: here with infinities."""
    prefer_tile(monkeypatch, size)
    x, filter = random(1, 17, depth), random(2, 9, depth, low=1)
    atol = tolerance(x, filter)
    x[1::2] = float("inf")
    check("fully_connected", [x, filter], backend=gpu, constants=(1,), atol=atol)


def test_products_with_a_computed_matrix(tile: RegisterTile) -> None:
    run(tile, "batch_matmul", [random(1, 2, 19, 20), random(2, 20, 24)], {}, ())


@pytest.mark.parametrize("case", [*windows((8, 16, 3, 12, 5))], ids=described)
def test_convolutions(case: Any, tile: RegisterTile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels that 4 does not divide are loaded one by one, with tiles of any size."""
    inputs, attrs = case
    if inputs[0].shape[3] % 4:
        tile = replace(tile, step=1)
        prefer_tile(monkeypatch, tile)
    run(tile, "conv2d", inputs, attrs, (1, 2))


@pytest.mark.parametrize("constants", [(1, 2), ()], ids=["constant", "computed"])
@pytest.mark.parametrize("size", [(1, 1), (2, 3)], ids=str)
def test_convolutions_of_points_and_windows(
    size: tuple[int, int], constants: tuple[int, ...], tile: RegisterTile
) -> None:
    inputs = [random(1, 2, 5, 7, 12), random(2, 13, *size, 12), random(3, 13)]
    attrs = {"padding": "same", "activation": "relu"}
    run(tile, "conv2d", inputs, attrs, constants)


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [1, 3])
def test_a_sum_behind_them_and_halves_between_them(size: int, tile: RegisterTile) -> None:
    """The second convolution computes the sum, too, also of a relaxed model, which stores halves."""
    model = Model("residual")
    x = model.input("x", float32(1, 7, 5, 8))
    first, second = (model.constant(name, random(k, 8, size, size, 8)) for k, name in enumerate("ab"))
    (y,) = model.add("conv2d", [x, first], {"padding": "same", "activation": "relu6"})
    (z,) = model.add("conv2d", [y, second], {"padding": "same"})
    (total,) = model.add("add", [z, y], {"activation": "relu"})
    model.output(total)
    assert compare(model, [random(3, 1, 7, 5, 8)], backends=["webgpu", "webgpu-relaxed"]).ok
    for relaxed in (False, True):
        with model.compile("webgpu", relaxed=relaxed) as compiled:
            rows = compiled.plan_rows()
            assert len(rows) == 2 and all(has_tile(tile, row.kernel) for row in rows)


@pytest.mark.parametrize(
    ("rows", "channels", "depth", "expected"),
    [
        (3, 8, 8, ()),
        (0, 8, 8, ()),
        (4, 8, 8, (SMALL_TILE,)),
        (16 * 1023, 8, 8, (SMALL_TILE,)),
        (16 * 1024, 8, 8, LARGE_TILES),
        (16 * 1024, 8, 6, LARGE_TILES[:1]),
    ],
)
def test_large_tiles_are_for_results_that_occupy_a_gpu(
    rows: int, channels: int, depth: int, expected: tuple[RegisterTile, ...]
) -> None:
    assert other_tiles(rows, channels, depth, GPU) == expected
    assert other_tiles(rows, channels, depth, replace(GPU, software=True, subgroup_sizes=(8, 8))) == ()


def test_sums_of_large_tiles_are_not_divided() -> None:
    """They are offered where four invocations for each would occupy the device."""
    device = replace(GPU, parallel_invocations=4)
    assert [tiles(16, 8, 64, device, tile).splits for tile in LARGE_TILES] == [1, 1]
    assert tiles(4, 4, 64, device, SMALL_TILE).splits == 4


@pytest.mark.parametrize(("rows", "depth", "expected"), [(63, 8, ()), (64, 8, LARGE_TILES[1:]), (64, 6, ())])
def test_software_with_subgroups_of_four_has_large_tiles(
    rows: int, depth: int, expected: tuple[RegisterTile, ...]
) -> None:
    device = replace(BASELINE, software=True, subgroup_sizes=(4, 4))
    assert other_tiles(rows, 8, depth, device) == expected
