"""Winograd's convolution of quantised tensors: its kernels to the bit, and when it comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.device import BASELINE, DeviceProperties
from gpunn.kernel import Candidate
from gpunn.ops import OPS
from gpunn.ops.contraction.winograd_integers import pack_whole
from gpunn.types import Array
from tests.ops.contraction.quantized_product import DTYPES, Case
from tests.ops.contraction.test_broadcast_tile import WIDE, limit_subgroups
from tests.ops.contraction.test_winograd import SINGLY, SOFTWARE, take_way
from tests.ops.integer_checks import integer_model
from tests.pairwise import pairwise

CASES: tuple[tuple[tuple[int, ...], int, dict[str, Any]], ...] = (
    ((1, 4, 4, 8), 32, {"padding": "same"}),
    ((2, 9, 13, 16), 28, {"padding": ((0, 2), (3, 1)), "activation": "relu6"}),
    ((1, 3, 5, 24), 36, {"padding": "valid"}),
    ((3, 1, 7, 8), 4, {"padding": "same", "activation": "relu"}),
)


@pytest.fixture(params=[4, 8, WIDE])
def subgroup(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return limit_subgroups(monkeypatch, request.param)


def test_a_packed_filter() -> None:
    filter = np.random.default_rng(0).integers(0, 256, (33, 3, 3, 8), np.uint8)
    packed = pack_whole(filter, 4, 7)
    assert (packed.dtype, packed.shape) == (np.int32, (36, 2, 8, 32))
    rows = np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 1]])
    cells = rows @ (filter[32, :, :, 5].astype(int) - 7) @ rows.T
    np.testing.assert_array_equal(packed[:, 1, 5, 0], cells.ravel())
    assert not packed[:, 1, :, 1:].any()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("case", "kind", "loops", "edge", "subgroup"),
    pairwise(CASES, [*DTYPES], (True, False), (2, 4), (4, 8, WIDE)),
    indirect=["subgroup"],
)
def test_convolutions(
    case: Any, kind: str, loops: bool, edge: int, subgroup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, channels, attrs = case
    take_way(monkeypatch, edge, loops)
    made = Case("conv2d", kind, shape, (channels, 3, 3, shape[3]), seed=channels, bias=channels % 3 > 0)
    assert np.unique(made.check(subgroup, attrs)).size > 20 or "activation" in attrs


@pytest.mark.parametrize("edge", [2, 4])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_the_largest_sums(
    kind: str, sign: int, edge: int, subgroup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All products of the largest depth have the largest magnitude, and what lies between wraps around."""
    take_way(monkeypatch, edge, True)
    depth = 56
    case = Case("conv2d", kind, (1, 6, 6, depth), (8, 3, 3, depth), extreme=True, spread=30)
    x, filter, _ = case.inputs
    assert x is not None and filter is not None
    _far(x, case, 0, 1)
    _far(filter, case, 1, sign)
    largest = np.abs(case.centred()[0]).max() * np.abs(case.centred()[1]).max() * 9 * depth
    assert largest < 2**25
    assert largest > 2**24 or kind == "int8"
    case.check(subgroup, {"padding": "same"})


def _far(values: Array, case: Case, number: int, sign: int) -> None:
    """Set values as far as they can be from their zero point, in some of the last dimension or in all."""
    type = case.types[number]
    assert type is not None and type.quantization is not None
    limits, zero = np.iinfo(values.dtype), type.quantization.zero_point[0]
    near, far = sorted((limits.min, limits.max), key=lambda end: abs(end - zero))
    values[...] = far
    if sign < 0:
        values[..., ::2] = near


def reasons(shape: tuple[int, ...], channels: int, device: DeviceProperties, **attrs: Any) -> list[str]:
    """Return what the candidates say of themselves."""
    case = Case("conv2d", "int8", shape, (channels, 3, 3, shape[3]))
    model = integer_model(
        "conv2d", case.inputs, case.types, {"padding": "same", **attrs}, case.output, (1, 2)
    )
    facet = OPS["conv2d"].quantized
    assert facet is not None
    found = list(facet.kernel(replace(model.operations[0].call(), device=device)))  # type: ignore[arg-type]
    assert all(isinstance(candidate, Candidate) for candidate in found)
    return [candidate.reason for candidate in found if isinstance(candidate, Candidate)]


@pytest.mark.parametrize(
    ("shape", "channels", "device", "attrs", "place"),
    [
        ((1, 16, 16, 64), 64, SINGLY, {}, 0),
        ((1, 16, 16, 64), 64, SOFTWARE, {}, 3),
        ((1, 16, 16, 96), 64, SOFTWARE, {}, 0),
        ((1, 16, 16, 64), 64, replace(SOFTWARE, software=False), {}, None),  # without loops
        ((1, 16, 16, 64), 62, SINGLY, {}, None),
        ((1, 16, 16, 60), 64, SINGLY, {}, None),
        ((1, 16, 16, 256), 64, SINGLY, {}, None),  # sums of more than 26 bits
        ((1, 16, 16, 64), 64, SINGLY, {"stride": (2, 2)}, None),
        ((1, 16, 16, 64), 64, BASELINE, {}, None),
    ],
)
def test_where_tiles_of_4_x_4_come(
    shape: tuple[int, ...], channels: int, device: DeviceProperties, attrs: dict[str, Any], place: int | None
) -> None:
    found = reasons(shape, channels, device, **attrs)
    name = "Winograd's F(4 x 4, 3 x 3)"
    assert (found.index(name) if name in found else None) == place, found
