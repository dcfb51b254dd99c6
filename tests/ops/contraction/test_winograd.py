"""Winograd's convolution: its transforms, its kernels against float64, its bound, and when it comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.comparison.sides import Arithmetic
from gpunn.comparison.tolerance import bounds
from gpunn.device import BASELINE, SUBGROUPS, DeviceProperties
from gpunn.graph.exact import evaluate, widen
from gpunn.kernel import Candidate, Kernel
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.ops.contraction.winograd import TRANSFORMS, pack_cells, pack_matrices
from gpunn.types import Array, DType, Shape, TensorType
from tests.ops.harness import check, limit_device, model_of, random, require_shared_rows, take_body

SAME, BORDERS = {"padding": "same"}, {"padding": ((0, 2), (3, 1))}
SOFTWARE = replace(BASELINE, software=True, subgroup_sizes=(8, 8), features=frozenset({SUBGROUPS}))
SINGLY = replace(SOFTWARE, subgroup_sizes=(4, 4))
GPU = replace(BASELINE, parallel_invocations=1 << 15)


@pytest.mark.parametrize("edge", TRANSFORMS)
def test_the_transforms_compute_a_convolution(edge: int) -> None:
    a, g, b = TRANSFORMS[edge]
    x, filter = random(1, edge + 2).astype(np.float64), random(2, 3).astype(np.float64)
    np.testing.assert_allclose(a @ ((g @ filter) * (b @ x)), np.correlate(x, filter), rtol=1e-14)


def test_a_packed_filter() -> None:
    filter = random(1, 33, 3, 3, 8)
    packed = pack_cells(filter, 2)
    _, g, _ = TRANSFORMS[2]
    assert packed.shape == (16, 2, 8, 32)
    cells = (g @ filter[32, :, :, 5] @ g.T).ravel()
    np.testing.assert_allclose(packed[:, 1, 5, 0], cells, rtol=1e-6)
    assert not packed[:, 1, :, 1:].any()


def test_a_filter_packed_as_matrices() -> None:
    filter = random(1, 45, 3, 3, 12)
    packed = pack_matrices(filter, 4)
    _, g, _ = TRANSFORMS[4]
    assert (packed.shape, packed.dtype) == ((36, 12, 48), np.float32)
    for channel in (0, 31, 32, 44):
        cells = (g @ filter[channel, :, :, 5] @ g.T).ravel()
        np.testing.assert_allclose(packed[:, 5, channel], cells, rtol=1e-6)
    assert not packed[..., 45:].any()


def limit(inputs: Sequence[Array], attrs: dict[str, Any]) -> Array:
    """Return the op's bound of the error of each result."""
    model = model_of("conv2d", inputs, attrs, (1, 2))
    operation = model.operations[0]
    values = {o: widen(x) for o, x in zip(operation.inputs, inputs, strict=True) if o is not None}
    found = bounds(operation, values, evaluate(operation, values), Arithmetic.FLOAT32)
    return np.asarray(found[0].limit)


CASES: tuple[tuple[Shape, int, dict[str, Any]], ...] = (
    ((1, 4, 4, 8), 32, SAME),
    ((2, 9, 13, 16), 29, BORDERS | {"activation": "relu6"}),
    ((1, 3, 5, 24), 36, {"padding": "valid"}),
    ((3, 1, 7, 8), 7, SAME | {"activation": "tanh"}),
)


def take_way(monkeypatch: pytest.MonkeyPatch, edge: int, loops: bool) -> None:
    """Make lowering take Winograd's algorithm for tiles of edge x edge, with loops or written out."""
    name = f"Winograd's F({edge} x {edge}, 3 x 3)" + ("" if loops else ", written out")

    def chosen(candidates: Iterator[Candidate], *_: object) -> Sequence[Kernel]:
        return next(c.kernels for c in candidates if c.reason == name)

    monkeypatch.setattr("gpunn.backends.webgpu.lower.choose", chosen)


@pytest.mark.sample(2)
@pytest.mark.parametrize("edge", TRANSFORMS)
@pytest.mark.parametrize("loops", [True, False], ids=["loops", "written out"])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("software", [True, False], ids=["software", "hardware"])
def test_convolutions(
    case: Any, software: bool, loops: bool, edge: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if software:
        require_shared_rows()  # which compute the products of the cells there
    shape, channels, attrs = case
    if loops and not software:
        pytest.skip("hardware takes no transforms with loops")
    limit_device(monkeypatch, software=software)
    take_way(monkeypatch, edge, loops)
    inputs = [random(1, *shape), random(2, channels, 3, 3, shape[3]), random(3, channels)]
    inputs = inputs[: 2 + channels % 2]
    check("conv2d", inputs, attrs, backend=gpu, constants=(1, 2), atol=limit(inputs, attrs), rtol=0)


@pytest.mark.parametrize("edge", TRANSFORMS)
def test_what_a_window_does_not_see_costs_accuracy(
    edge: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tile with one large number, also results whose windows are zero have rounding errors."""
    take_body(monkeypatch, f"winograd_input_{edge}")
    x, filter = np.zeros((1, 8, 8, 8), np.float32), random(2, 32, 3, 3, 8)
    x[0, 3::4, 3::4] = 1e6 * random(1, 2, 2, 8)
    bound = limit([x, filter], SAME)
    (found,) = check("conv2d", [x, filter], SAME, backend=gpu, constants=(1,), atol=bound, rtol=0)
    window = np.abs(found[0, 0, 0])
    assert window.max() <= bound[0, 0, 0].max()
    assert bound[0, 0, 0].max() > 1e-5, "the bound knows of what a tile shares"


def test_the_bound_of_other_convolutions_is_that_of_sums() -> None:
    x = random(1, 1, 6, 6, 8)
    strided, plain = (limit([x, random(2, 4, 3, 3, 8)], {"stride": (n, n)}) for n in (2, 1))
    assert (plain[:, ::2, ::2] > 2 * strided).all()
    grouped, whole = (limit([x, random(2, 4, 3, 3, depth)], {}) for depth in (4, 8))
    assert grouped.max() < whole.max() / 4


def bodies(
    shape: Shape, channels: int, device: DeviceProperties, dtype: DType = DType.FLOAT32, **attrs: Any
) -> list[str]:
    """Return the first bodies of the candidates for a relaxed convolution with 3 x 3 windows that a device
    supports; of Winograd's, what transforms the input, and whether it has loops.
    """
    x, filter = TensorType(dtype, shape), TensorType(dtype, (channels, 3, 3, shape[3]))
    given = {"stride": (1, 1), "dilation": (1, 1), "padding": "same", **attrs}
    call = Call("conv2d", "", (x, filter, None), given, (), (False, True, False), device, relaxed=True)
    call = replace(call, outputs=(OPS["conv2d"].infer(call),))  # type: ignore[arg-type]
    kernels = OPS["conv2d"].kernel
    assert kernels is not None
    found: Iterator[Candidate] = kernels(call)  # type: ignore[assignment]
    return [_first_body(candidate) for candidate in found if candidate.needs <= device.features]


def _first_body(candidate: Candidate) -> str:
    first = candidate.kernels[0]
    if first.body != "winograd_input":
        return first.body
    assert candidate.quick_to_compile is (first.loop_iterations > 0)
    return first.libraries[0] + ("" if candidate.quick_to_compile else ", written out")


TWO, FOUR = (
    (f"winograd_input_{edge}", f"winograd_input_{edge}, written out") for edge in (2, 4)
)  # of those who measure candidates nobody takes the first one
SHARED, DIRECT, TILE, GROUPED = "conv_broadcast", "conv_direct_broadcast", "conv_tile", "conv2d_grouped"
WORKGROUP = "conv_workgroup"
LARGE = "conv_direct", TILE  # with one and with four channels in a load


@pytest.mark.parametrize(
    ("shape", "channels", "device", "attrs", "expected"),
    [
        ((1, 28, 28, 128), 128, SOFTWARE, {}, [*FOUR, *TWO, SHARED, TILE, GROUPED]),
        ((1, 16, 16, 64), 64, SOFTWARE, {}, ["unfold", SHARED, TILE, *FOUR, *TWO, GROUPED]),
        ((1, 16, 16, 96), 64, SOFTWARE, {}, [*FOUR, *TWO, "unfold", SHARED, TILE, GROUPED]),
        ((1, 16, 16, 64), 64, SINGLY, {}, [*FOUR, *TWO, SHARED, TILE, TILE, GROUPED]),
        ((1, 7, 7, 512), 512, SOFTWARE, {}, [*TWO, "unfold", SHARED, TILE, *FOUR, GROUPED]),
        ((1, 192, 192, 16), 8, SOFTWARE, {}, [TILE, SHARED, *FOUR, *TWO, GROUPED]),
        ((1, 96, 96, 64), 16, SOFTWARE, {}, [*FOUR, SHARED, TILE, *TWO, SHARED, GROUPED]),
        ((1, 55, 55, 16), 64, SOFTWARE, {}, [*FOUR, SHARED, TILE, *TWO, GROUPED]),
        (
            (1, 28, 28, 128),
            128,
            replace(SOFTWARE, software=False),
            {},
            [FOUR[1], WORKGROUP, TILE, *LARGE, SHARED, TWO[1], GROUPED],
        ),
        ((1, 28, 28, 128), 128, BASELINE, {}, [FOUR[1], WORKGROUP, TILE, *LARGE, TWO[1], GROUPED]),
        ((1, 28, 28, 32), 64, BASELINE, {}, [WORKGROUP, TILE, *LARGE, FOUR[1], TWO[1], GROUPED]),
        ((32, 14, 14, 256), 256, GPU, {}, [FOUR[1], WORKGROUP, TILE, *LARGE, TWO[1], GROUPED]),
        ((1, 14, 14, 256), 256, GPU, {}, [WORKGROUP, TILE, TILE, WORKGROUP, FOUR[1], TWO[1], GROUPED]),
        ((1, 28, 28, 128), 128, SOFTWARE, {"stride": (1, 2)}, [SHARED, TILE, GROUPED]),
        ((1, 28, 28, 128), 128, SOFTWARE, {"dilation": (2, 1)}, [SHARED, TILE, GROUPED]),
        ((1, 17, 17, 32), 64, SOFTWARE, {"stride": (2, 2)}, ["unfold", SHARED, TILE, GROUPED]),
        ((1, 28, 28, 12), 128, SOFTWARE, {}, ["unfold", DIRECT, TILE, GROUPED]),
        ((1, 28, 28, 12), 108, SOFTWARE, {}, [DIRECT, TILE, GROUPED]),
        (
            (1, 28, 28, 12),
            128,
            replace(SOFTWARE, software=False),
            {},
            [WORKGROUP, TILE, *LARGE, DIRECT, GROUPED],
        ),
    ],
)
def test_the_way_of_least_work_comes_first(
    shape: Shape, channels: int, device: DeviceProperties, attrs: dict[str, Any], expected: list[str]
) -> None:
    assert bodies(shape, channels, device, **attrs) == expected
