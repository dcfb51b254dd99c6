"""Products whose operands a workgroup shares, against float64; when they come first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE, HALF_PRECISION, SUBGROUPS, DeviceProperties
from gpunn.kernel import Kernel, Read, Write
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.ops.contraction.workgroup_product import workgroup_stack
from gpunn.ops.kernels.workgroup_tile import WorkgroupTile
from gpunn.types import DType, TensorType, float32
from tests.ops.contraction.conftest import TILES
from tests.ops.contraction.test_batch_matmul import ADJOINTS, bound, matrices
from tests.ops.contraction.test_broadcast_tile import described, windows
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import check, limit_device, random, take_body
from tests.pairwise import pairwise

MEMORY = {**BASELINE.limits, "max-compute-workgroup-storage-size": 1 << 15}
FEATURES = frozenset({SUBGROUPS, HALF_PRECISION})
GPU = replace(BASELINE, limits=MEMORY, features=FEATURES, parallel_invocations=1 << 15)
WORKGROUP, TILE = "matmul_workgroup", "matmul_tile"


# Rows, depths and channels: whole tiles, parts of tiles, several of either; steps of 16 that are full or not.
PRODUCTS = ((64, 16, 64), (8, 1, 1), (65, 12, 3), (130, 37, 70), (9, 50, 128), (200, 96, 61), (129, 70, 140))


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
def test_products(
    shape: tuple[int, int, int], hardware_gpu: str, tile: WorkgroupTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_body(monkeypatch, WORKGROUP)
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)][: 2 + rows % 2]
    attrs = {"activation": "relu6"} if depth % 2 else {}
    check(
        "fully_connected", inputs, attrs, backend=hardware_gpu, constants=(1, 2), atol=tolerance(*inputs[:2])
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("shape", "constants", "tile"), pairwise(PRODUCTS, [(), (2,), (1,)], [*TILES.values()]), indirect=["tile"]
)
def test_products_with_computed_filters(
    shape: tuple[int, int, int],
    constants: tuple[int, ...],
    hardware_gpu: str,
    tile: WorkgroupTile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_body(monkeypatch, WORKGROUP)
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)]
    attrs = {"activation": "relu6"} if depth % 2 else {}
    atol = tolerance(*inputs[:2])
    check("fully_connected", inputs, attrs, backend=hardware_gpu, constants=constants, atol=atol)


def test_products_with_a_computed_matrix(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_body(monkeypatch, WORKGROUP)
    inputs = [random(1, 2, 35, 20), random(2, 20, 72)]
    check("batch_matmul", inputs, {}, backend=hardware_gpu, atol=tolerance(inputs[0], inputs[1].T))


# Stacks of a and b, rows, depth and columns of each matrix: whole tiles and others, broadcast stacks.
STACKS: tuple[tuple[tuple[int, ...], tuple[int, ...], int, int, int], ...] = (
    ((2, 3), (2, 3), 64, 16, 64),
    ((2,), (2,), 65, 13, 70),
    ((3,), (1,), 9, 50, 12),
    ((2, 1), (3,), 8, 7, 5),
    ((), (2, 2), 70, 36, 61),
    ((1, 2, 1), (4, 1, 3), 8, 20, 8),
)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("shape", "attrs", "tile"), pairwise(STACKS, ADJOINTS, [*TILES.values()]), indirect=["tile"]
)
def test_stacks_of_computed_matrices(
    shape: Any,
    attrs: dict[str, bool],
    hardware_gpu: str,
    tile: WorkgroupTile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_body(monkeypatch, WORKGROUP)
    left, right, rows, depth, columns = shape
    a, b = (
        matrices(left, rows, depth, attrs["adj_a"], 1),
        matrices(right, depth, columns, attrs["adj_b"], 2),
    )
    check("batch_matmul", [a, b], attrs, backend=hardware_gpu, atol=bound(a, b, depth))


def convolutions() -> list[Any]:
    """Draw convolutions of as many channels as an input may have: multiples of four, and others."""
    return [*windows((1, 4, 3, 12, 17))]


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", convolutions(), ids=described)
def test_convolutions(
    case: Any, hardware_gpu: str, tile: WorkgroupTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, attrs = case
    take_body(monkeypatch, "conv_direct_workgroup" if inputs[0].shape[3] % 4 else "conv_workgroup")
    check("conv2d", inputs, attrs, backend=hardware_gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))


@pytest.fixture
def wide_gpu(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let sums be divided, and lowering take these ways."""
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 12)
    take_body(monkeypatch, PARTS)
    return hardware_gpu


# Rows, depths and channels: two parts of two steps, four parts of which the last one is shorter.
DIVIDED = ((64, 64, 64), (9, 130, 70), (65, 145, 3))


@pytest.mark.parametrize("shape", DIVIDED, ids=str)
@pytest.mark.parametrize("constants", [(1, 2), (2,)], ids=str)
def test_sums_in_parts(shape: tuple[int, int, int], constants: tuple[int, ...], wide_gpu: str) -> None:
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)]
    attrs, atol = {"activation": "relu6"}, tolerance(*inputs[:2])
    check("fully_connected", inputs, attrs, backend=wide_gpu, constants=constants, atol=atol)
    check("fully_connected", inputs[:2], {}, backend=wide_gpu, constants=(1,), atol=atol)


@pytest.mark.parametrize("attrs", ADJOINTS, ids=str)
def test_sums_of_a_stack_in_parts(attrs: dict[str, bool], wide_gpu: str) -> None:
    a, b = matrices((2, 1), 9, 75, attrs["adj_a"], 1), matrices((1, 3), 75, 70, attrs["adj_b"], 2)
    check("batch_matmul", [a, b], attrs, backend=wide_gpu, atol=bound(a, b, 75))


@pytest.mark.parametrize("depth", [12, 11])
def test_sums_of_windows_in_parts(depth: int, wide_gpu: str) -> None:
    inputs = [random(1, 2, 6, 5, depth), random(2, 7, 3, 2, depth), random(3, 7)]
    attrs = {"padding": "same", "stride": (2, 1), "activation": "relu"}
    check("conv2d", inputs, attrs, backend=wide_gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))


def test_parts_are_whole_steps_and_add_up() -> None:
    """144 elements of the depth are nine steps of 16; four parts of three steps would be one too many."""
    call = Call(
        "fully_connected",
        "",
        (float32(64, 144), float32(64, 144), None),
        {"keep_dims": False, "activation": "relu6"},
        (float32(64, 64),),
        (False, True, False),
        replace(GPU, parallel_invocations=1 << 10),
    )
    (parts, total), *_ = (c.kernels for c in OPS[call.op].kernel(call) if c.kernels[-1].body == PARTS)  # type: ignore
    assert (parts.params["PARTS"], parts.params["PART"], total.params["parts"]) == (3, 12, 3)
    assert (parts.threads, parts.functions) == ((3 * 256, 1, 1), {})
    assert "apply" in total.functions


def kinds(
    rows: int, channels: int, device: DeviceProperties, relaxed: bool = True, depth: int = 64
) -> list[str]:
    """Return the bodies of the candidates for a product of halves, in their order; "f16" where these are."""
    types = TensorType(DType.FLOAT16, (rows, depth)), TensorType(DType.FLOAT16, (channels, depth)), None
    y, given = float32(rows, channels), {"keep_dims": False}
    call = Call("fully_connected", "", types, given, (y,), (False, True, False), device, relaxed)
    return bodies_of(call)


def bodies_of(call: Call) -> list[str]:
    """Return the bodies of a call's candidates, in their order; "f16" where products are, or "add_parts".

    Tiles of other sizes than the rule's are described by their rows and step, or by their side.
    """
    kernels = OPS[call.op].kernel
    assert kernels is not None
    found = [(c.kernels[0], c.kernels[-1].body) for c in kernels(call)]  # type: ignore[union-attr]
    return [PARTS if end == PARTS else described_tile(one) for one, end in found]


def described_tile(kernel: Kernel) -> str:
    if side := kernel.constants.get("SIDE"):
        return ("f16" if kernel.halves else kernel.body) + ("" if side == 64 else f" {side}")
    rows, single = kernel.constants.get("ROWS", 8), "single_steps" in kernel.libraries
    return kernel.body if rows == 8 else f"{kernel.body} {rows} rows{' singly' if single else ''}"


SMALL_TILE = "matmul_tile 4 rows"
SMALL_TILES = [SMALL_TILE, TILE]
LARGE_TILES = ["matmul_tile 16 rows singly", "matmul_tile 16 rows"]
SLICED, LARGE, LARGE_HALVES = f"{WORKGROUP} 32", f"{WORKGROUP} 128", "f16 128"


PLAIN, PARTS = "matmul_any", "add_parts"
CONV_TILE = "conv_tile"


@pytest.mark.parametrize(
    ("rows", "channels", "device", "relaxed", "expected"),
    [
        (4096, 128, GPU, True, ["f16", WORKGROUP, *SMALL_TILES, LARGE_HALVES, LARGE, PLAIN]),
        (4096, 128, GPU, False, [WORKGROUP, *SMALL_TILES, LARGE, PLAIN]),
        (4032, 128, GPU, True, [*SMALL_TILES, "f16", WORKGROUP, SLICED, PARTS, PLAIN]),
        (8192, 31, GPU, True, [*SMALL_TILES, "f16", WORKGROUP, SLICED, PLAIN]),
        (16384, 64, GPU, False, [WORKGROUP, TILE, *LARGE_TILES, LARGE, PLAIN]),
        (12288, 128, GPU, False, [WORKGROUP, TILE, *LARGE_TILES, LARGE, PLAIN]),
        (12160, 128, GPU, False, [WORKGROUP, TILE, *LARGE_TILES, LARGE, PLAIN]),
        (12288, 128, GPU, True, ["f16", WORKGROUP, TILE, *LARGE_TILES, LARGE_HALVES, LARGE, PLAIN]),
        (32, 128, GPU, False, [*SMALL_TILES, WORKGROUP, SLICED, PARTS, PLAIN]),
        (7, 8192, GPU, True, ["matmul_row", "matmul_row", SMALL_TILE, PLAIN]),
        (4096, 128, replace(GPU, software=True), True, [TILE, PLAIN]),
        (4096, 128, replace(GPU, limits=BASELINE.limits), False, [WORKGROUP, *SMALL_TILES, PLAIN]),
        (32, 128, replace(GPU, limits=BASELINE.limits), False, [*SMALL_TILES, WORKGROUP, PARTS, PLAIN]),
    ],
)
def test_they_come_first_where_tiles_occupy_a_gpu(
    rows: int, channels: int, device: DeviceProperties, relaxed: bool, expected: list[str]
) -> None:
    assert kinds(rows, channels, device, relaxed) == expected


@pytest.mark.parametrize(("depth", "first"), [(128, WORKGROUP), (132, LARGE)])
def test_large_tiles_come_first_where_they_multiply_for_long(depth: int, first: str) -> None:
    assert kinds(12288, 128, GPU, relaxed=False, depth=depth)[0] == first


@pytest.mark.parametrize(("depth", "first"), [(1152, SMALL_TILE), (2044, SMALL_TILE), (2048, PARTS)])
def test_parts_of_rows_come_first_where_they_are_deep(depth: int, first: str) -> None:
    assert kinds(49, 512, GPU, relaxed=False, depth=depth)[0] == first


@pytest.mark.parametrize(
    ("image", "channels", "first"),
    [
        ((128, 32), 32, CONV_TILE),
        ((128, 32), 48, "conv_workgroup"),
        ((224, 3), 16, "conv_direct_workgroup"),
        ((224, 3), 12, "conv_direct 4 rows singly"),
        ((55, 16), 64, f"{CONV_TILE} 4 rows"),
        ((64, 32), 64, CONV_TILE),
        ((28, 128), 128, PARTS),
    ],
)
def test_tiles_of_windows(image: tuple[int, int], channels: int, first: str) -> None:
    """Few register tiles become smaller ones. Tiles that a workgroup shares have few idle channels."""
    side, depth = image
    stride = 2 if depth == 3 else 1
    types = float32(1, side, side, depth), float32(channels, 3, 3, depth), None
    attrs = {"stride": (stride, stride), "dilation": (1, 1), "padding": "same"}
    y = float32(1, side // stride, side // stride, channels)
    call = Call("conv2d", "", types, attrs, (y,), (False, True, False), GPU)
    assert bodies_of(call)[0] == first


def ways_of_stacks(
    stack: int, sizes: tuple[int, int, int], device: DeviceProperties, relaxed: bool, matrices: int = 0
) -> list[str]:
    """Return kinds() for the products of a stack of matrices. sizes: rows, depth and columns of each."""
    rows, depth, columns = sizes
    shapes = (stack, rows, depth), (matrices or stack, depth, columns)
    types = tuple(TensorType(DType.FLOAT16, shape) for shape in shapes)
    y, given = float32(stack, rows, columns), {"adj_a": False, "adj_b": False}
    call = Call("batch_matmul", "", types, given, (y,), (False, False), device, relaxed)
    return bodies_of(call)


NAIVE, SMALL = "batch_matmul", "batch_matmul_tile"


@pytest.mark.parametrize(
    ("stack", "sizes", "device", "relaxed", "expected"),
    [
        (12, (197, 64, 197), GPU, True, ["f16", WORKGROUP, NAIVE, SMALL, LARGE]),
        (12, (197, 64, 197), GPU, False, [WORKGROUP, NAIVE, SMALL, LARGE]),
        (12, (197, 197, 64), GPU, True, [SLICED, NAIVE, SMALL, "f16", WORKGROUP, PARTS]),
        (12, (197, 63, 64), GPU, True, [NAIVE, SMALL, "f16", WORKGROUP, SLICED, PARTS]),
        (64, (197, 197, 64), GPU, True, ["f16", WORKGROUP, SMALL, NAIVE]),
        (400, (33, 64, 31), GPU, True, [NAIVE, SMALL, "f16", WORKGROUP, SLICED]),
        (4000, (7, 64, 64), GPU, True, [SMALL, NAIVE]),
        (12, (197, 64, 197), replace(GPU, software=True), True, [NAIVE, SMALL]),
    ],
)
def test_they_come_first_where_stacks_of_tiles_occupy_a_gpu(
    stack: int, sizes: tuple[int, int, int], device: DeviceProperties, relaxed: bool, expected: list[str]
) -> None:
    assert ways_of_stacks(stack, sizes, device, relaxed) == expected


def test_rows_of_a_stack_that_share_a_matrix_are_one_product() -> None:
    """Of 8 rows each, tiles would be idle; all 512 rows fill them. The columns do not fit other tiles."""
    device = replace(GPU, parallel_invocations=1 << 11)
    assert ways_of_stacks(64, (8, 64, 62), device, True, 1)[0] == "f16"
    assert ways_of_stacks(64, (8, 64, 62), device, True)[0] == SMALL


@pytest.mark.parametrize(
    ("sizes", "device", "side"),
    [
        ((36, 784, 128, 128), GPU, 128),
        ((36, 784, 64, 64), GPU, 64),
        ((36, 49, 512, 512), GPU, 64),
        ((16, 16, 512, 512), GPU, 32),
        ((36, 784, 128, 128), replace(GPU, limits=BASELINE.limits), 64),
        ((16, 16, 512, 512), replace(GPU, limits=BASELINE.limits), 64),
    ],
)
def test_stacks_of_packed_matrices_have_tiles_by_their_sizes(
    sizes: tuple[int, int, int, int], device: DeviceProperties, side: int
) -> None:
    call = Call("conv2d", "", (), {"activation": "relu"}, (), (), device)
    kernel = workgroup_stack(call, sizes, Read("x", 3), Read("w", 1, 4), Write(output=2))
    assert kernel.constants["SIDE"] == side
    assert (kernel.reads[0].operand, kernel.writes[0].output, dict(kernel.functions)) == (3, 2, {})


def test_devices_without_f16_take_the_next_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    halves = TensorType(DType.FLOAT16, (4096, 64))
    filter = model.constant("filter", np.ones((128, 64), np.float16))
    model.add("fully_connected", [model.input("x", halves), filter], {"keep_dims": True})
    operation = replace(model.operations[0], relaxed=True)
    (without,) = lower(operation, replace(GPU, features=frozenset({SUBGROUPS})))
    (with_f16,) = lower(operation, GPU)
    assert isinstance(without, Kernel) and isinstance(with_f16, Kernel)
    assert (without.body, without.halves, with_f16.halves) == (WORKGROUP, False, True)
