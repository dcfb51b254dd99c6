"""Convolution over depth, height and width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.types import Array
from tests.ops.harness import ATOL, EPS, check, check_litert, model_of, random, take_candidate

ATTRS: list[dict[str, Any]] = [
    {},
    {"padding": "same"},
    {"padding": "same", "stride": (1, 2, 3), "activation": "relu"},
    {"padding": "same", "dilation": (2, 1, 3)},
    {"stride": (2, 1, 1), "dilation": (1, 2, 1), "activation": "tanh"},
]


def inputs(channels: int, outputs: int, bias: bool = True, batch: int = 2) -> list[Array]:
    """Values below 1, so that sums of up to 108 products stay within the general promise."""
    x = random(0, batch, 6, 5, 7, channels, low=-1, high=1)
    found = [x, random(1, 3, 2, 3, channels, outputs, low=-1, high=1)]
    return [*found, random(2, outputs)] if bias else found


@pytest.mark.parametrize("attrs", ATTRS)
@pytest.mark.parametrize(("channels", "outputs"), [(1, 1), (3, 4), (6, 5), (4, 8)])
def test_every_backend(attrs: dict[str, Any], channels: int, outputs: int, backend: str) -> None:
    check("conv3d", inputs(channels, outputs, bias=outputs != 5), attrs, backend=backend)


@pytest.fixture(params=[True, False], ids=["as conv2d", "as it is"])
def written_as_conv2d(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Tell whether constant filters convolve over height and width alone; else planes are too large."""
    if not request.param:
        monkeypatch.setattr("gpunn.ops.contraction.conv3d._MOST_SEEN", 0)
    return bool(request.param)


@pytest.mark.sample(2)
@pytest.mark.parametrize("attrs", ATTRS)
@pytest.mark.parametrize(("channels", "outputs"), [(1, 3), (3, 12), (4, 9), (8, 16)])
def test_constant_filters(
    attrs: dict[str, Any], channels: int, outputs: int, written_as_conv2d: bool, backend: str
) -> None:
    given = inputs(channels, outputs, bias=outputs != 9)
    terms = given[1][..., 0].size + 1
    constants = range(1, len(given))
    check("conv3d", given, attrs, backend=backend, constants=constants, atol=ATOL + terms**2 * EPS)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("channels", "body"), [(8, "conv_tile"), (3, "conv_direct")])
def test_candidates_for_large_planes(
    channels: int, body: str, place: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunn.ops.contraction.conv3d._MOST_SEEN", 0)
    take_candidate(monkeypatch, place)
    given, attrs = inputs(channels, 12), {"activation": "relu6"}
    with model_of("conv3d", given, attrs, (1, 2)).compile(gpu) as compiled:
        assert [row.kernel.body for row in compiled.plan_rows()] == [(body, "conv3d")[place]]
    terms = given[1][..., 0].size + 1
    check("conv3d", given, attrs, backend=gpu, constants=(1, 2), atol=ATOL + terms**2 * EPS)


@pytest.mark.parametrize(
    ("planes", "groups", "constants", "expected"),
    [
        (3, 1, (1,), ["pad", "strided_slice", "strided_slice", "strided_slice", "concat", "conv2d"]),
        (1, 1, (1,), ["conv2d"]),
        (16, 1, (1,), ["pad", *["strided_slice"] * 16, "concat", "conv2d"]),
        (17, 1, (1,), ["conv3d"]),
        (3, 2, (1,), ["conv3d"]),
        (3, 1, (), ["conv3d"]),
    ],
)
def test_which_are_written_as_conv2d(
    planes: int, groups: int, constants: tuple[int, ...], expected: list[str]
) -> None:
    given = [random(0, 1, 3, 4, 5, 8), random(1, planes, 2, 2, 8 // groups, 6)]
    model = model_of("conv3d", given, {"groups": groups, "padding": "same"}, constants)
    with model.compile("cpu") as compiled:
        found = [p.operation.op for p in compiled.placement]
    assert [op for op in found if op not in ("reshape", "transpose")] == expected


@pytest.mark.parametrize("stride", [(1, 1, 1), (2, 1, 1), (1, 1, 2)])
@pytest.mark.parametrize(("padding", "dilation"), [("same", 1), ("valid", 2)])
def test_windows_of_depth_alone(stride: Any, padding: str, dilation: int, backend: str) -> None:
    """Nothing is copied where each pixel of a plane has its own window."""
    given = [random(0, 2, 6, 3, 5, 3), random(1, 3, 1, 1, 3, 7), random(2, 7)]
    attrs = {"stride": stride, "padding": padding, "dilation": (dilation, 1, 1), "activation": "relu"}
    check("conv3d", given, attrs, backend=backend, constants=(1, 2))
    with model_of("conv3d", given, attrs, (1, 2)).compile("cpu") as compiled:
        found = {p.operation.op for p in compiled.placement} - {"reshape"}
    assert (found == {"conv2d"}) == (stride[2] == 1)


@pytest.mark.parametrize("groups", [1, 2])
def test_computed_filters_of_one_group_take_tiles(groups: int, gpu: str) -> None:
    """Channels that do not fill tiles are padded on the device."""
    for channels in (8, 6):
        given = [random(0, 1, 3, 4, 5, 8), random(1, 2, 2, 2, 8 // groups, channels)]
        with model_of("conv3d", given, {"groups": groups}).compile(gpu) as compiled:
            *copies, row = compiled.plan_rows()
        assert row.kernel.body == ("conv_tile" if groups == 1 else "conv3d")
        assert [c.kernel.body for c in copies] == ["strided_copy"] * (groups == 1 and channels == 6)


def test_empty_batches(backend: str) -> None:
    (y,) = check("conv3d", inputs(3, 4, batch=0), {"padding": "same"}, backend=backend)
    assert y.shape == (0, 6, 5, 7, 4)


@pytest.mark.parametrize("attrs", ATTRS)
@pytest.mark.parametrize(("groups", "channels", "outputs"), [(2, 6, 8), (3, 3, 3), (4, 4, 8), (2, 2, 16)])
def test_groups(groups: int, channels: int, outputs: int, attrs: dict[str, Any], backend: str) -> None:
    """Each group of output channels is a convolution of one group of input channels."""
    x = random(0, 2, 6, 5, 7, channels, low=-1, high=1)
    filter, bias = random(1, 3, 2, 3, channels // groups, outputs, low=-1, high=1), random(2, outputs)
    (y,) = check("conv3d", [x, filter, bias], {"groups": groups, **attrs}, backend=backend)
    parts = zip(*(np.split(v, groups, axis=-1) for v in (x, filter, bias)), strict=True)
    alone = [check("conv3d", part, attrs, backend=backend)[0] for part in parts]
    np.testing.assert_allclose(y, np.concatenate(alone, axis=-1), atol=1e-5)


def test_by_hand(backend: str) -> None:
    """A window of 2 x 1 x 2 over a row of cubes: what lies one plane down and one to the right, weighted."""
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2, 1)
    filter = np.array([[[1, 10]], [[100, 1000]]], np.float32).reshape(2, 1, 2, 1, 1)
    (y,) = check("conv3d", [x, filter, np.array([0.5], np.float32)], {}, backend=backend)
    assert y.reshape(-1).tolist() == [0 + 10 + 400 + 5000 + 0.5, 2 + 30 + 600 + 7000 + 0.5]
    (y,) = check("conv3d", [x, filter], {"padding": "same"}, backend=backend)
    assert y.reshape(-1).tolist() == [5410, 501, 7632, 703, 54, 5, 76, 7]


def test_agrees_with_litert() -> None:
    for attrs in ({"stride": (1, 1, 1)}, {"stride": (2, 1, 2), "padding": "same"}):
        strides = {f"stride_{axis}": n for axis, n in zip("dhw", attrs["stride"], strict=True)}
        options = {**strides, "padding": str(attrs.get("padding", "valid")).upper()}
        check_litert("conv3d", inputs(3, 4), attrs, "CONV_3D", options)


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        (((1, 2, 2, 2), (1, 1, 1, 2, 3)), {}, "input 0 must have rank 5"),
        (((1, 2, 2, 2, 2), (1, 1, 1, 3, 3)), {}, "filter has 3 input channels, input has 2"),
        (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3)), {"groups": 2}, "for each of 2 groups, input has 2"),
        (((1, 2, 2, 2, 4), (1, 1, 1, 2, 3)), {"groups": 2}, "3 channels cannot be divided into 2 groups"),
        (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3)), {"groups": 0}, "groups must be at least 1, got 0"),
        (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3), (2,)), {}, r"bias must have shape \[3\], got \[2\]"),
        (((1, 2, 2, 2, 2), (3, 1, 1, 2, 3)), {}, r"a window of \(3, 1, 1\) .* does not fit"),
        (((1, 2, 2, 2, 2), (0, 1, 1, 2, 3)), {}, r"a window of \(0, 1, 1\) .* does not fit"),
        (((1, 2, 2, 2, 2), (2, 1, 1, 2, 3)), {"padding": "same", "dilation": (9**9, 1, 1)}, "too wide"),
        (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3)), {"stride": (1, 0, 1)}, "stride must be at least 1"),
        (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3)), {"stride": (1, 1)}, "stride must have 3 entries"),
        *(
            (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3)), {name: (1, 1, number)}, f"{name} must be at most 2147483647")
            for name in ("stride", "dilation")
            for number in (2**31, 2**32 + 1, 2**64)
        ),
        (((1, 2, 2, 2, 2), (1, 1, 1, 2, 3)), {"padding": "full"}, "padding must be 'same' or 'valid'"),
    ],
)
def test_errors(shapes: Any, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"conv3d: .*{message}"):
        model_of("conv3d", [random(k, *shape) for k, shape in enumerate(shapes)], attrs)
