"""Quantised products whose rows a subgroup shares, and how sums are converted, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE, SUBGROUPS, DeviceProperties
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.ops.contraction.shared_integers import pack_centred, pack_words
from gpunn.ops.kernels.window import Pair
from tests.ops.contraction.quantized_product import ATTRS, DTYPES, Case
from tests.ops.contraction.test_broadcast_tile import WIDE, limit_subgroups
from tests.ops.harness import as_software, model_of, random, require_shared_rows, take_body
from tests.ops.integer_checks import integer_model
from tests.pairwise import pairwise

SOFTWARE = replace(BASELINE, software=True, subgroup_sizes=(8, 8), features=frozenset({SUBGROUPS}))
SHAPES = (
    ("fully_connected", (17, 8), (33, 8), "matmul_broadcast"),
    ("fully_connected", (9, 13), (64, 13), "matmul_broadcast"),
    ("conv2d", (2, 9, 7, 16), (12, 1, 1, 16), "matmul_broadcast"),
    ("conv2d", (1, 9, 11, 8), (35, 3, 3, 8), "conv_broadcast"),
    ("conv2d", (2, 10, 9, 3), (8, 3, 2, 3), "conv_direct_broadcast"),
    ("conv2d", (1, 8, 9, 12), (6, 2, 3, 12), "conv_direct_broadcast"),
)


@pytest.fixture(params=[4, 8, WIDE])
def subgroup(request: pytest.FixtureRequest, gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return limit_subgroups(monkeypatch, request.param)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("shape", "kind", "subgroup"), pairwise(SHAPES, [*DTYPES], (4, 8, WIDE)), indirect=["subgroup"]
)
def test_shared_rows(shape: Any, kind: str, subgroup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, x, filter, body = shape
    take_body(monkeypatch, body)
    number = SHAPES.index(shape) + len(kind)
    attrs = {"activation": "relu"} if body == "matmul_broadcast" else ATTRS[number % len(ATTRS)]
    case = Case(op, kind, x, filter, seed=number, bias=number % 3 > 0)
    values = np.unique(case.check(subgroup, attrs))
    assert values.size > 20 or "activation" in attrs


UNFOLDED: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    ((1, 11, 12, 3), (32, 3, 3, 3), {"stride": (2, 2), "padding": "same", "activation": "relu6"}),
    ((2, 9, 7, 5), (61, 2, 3, 5), {"padding": ((2, 0), (1, 3)), "dilation": (2, 1)}),
    ((3, 5, 6, 1), (30, 5, 1, 1), {"stride": (1, 2)}),
    ((1, 4, 9, 12), (29, 1, 2, 12), {"padding": "same", "stride": (2, 1), "dilation": (1, 3)}),
    ((2, 9, 7, 16), (32, 3, 3, 16), {"stride": (2, 2), "padding": ((0, 1), (1, 1)), "activation": "relu"}),
)


FORCED = [("unfold", case) for case in UNFOLDED] + [
    ("conv_direct", case) for case in UNFOLDED if case[0][3] % 4
]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("body", "case"), FORCED, ids=str)
def test_windows_over_few_channels(
    body: str, case: Any, kind: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_software(monkeypatch)
    if body == "unfold":
        require_shared_rows(8)
    x, filter, attrs = case
    take_body(monkeypatch, body)
    made = Case("conv2d", kind, x, filter, seed=len(kind), bias=filter[0] % 3 > 0)
    values = np.unique(made.check(gpu, {"stride": (1, 1), **attrs}))
    assert values.size > 20 or "activation" in attrs


@pytest.mark.parametrize("kind", DTYPES)
def test_sums_that_f32_does_not_hold(kind: str, subgroup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """900 products of up to 255 * 255 add up to more than 2^24."""
    take_body(monkeypatch, "matmul_broadcast")
    case = Case("fully_connected", kind, (16, 900), (32, 900), extreme=True, spread=30)
    x, filter, _ = case.inputs
    assert x is not None
    assert filter is not None
    # The zero points lie at one end: whole rows and channels at the other one are as far as possible from it.
    for values, type in zip((x, filter), case.types, strict=False):
        assert type is not None
        assert type.quantization is not None
        end = (
            np.iinfo(values.dtype).min if type.quantization.zero_point[0] > 0 else np.iinfo(values.dtype).max
        )
        values[:8] = end - np.arange(900) % 2 * (1 if end > 0 else -1)
    centred = case.centred()
    assert np.abs(centred[0] @ centred[1].T).max() > (1 << 24 if kind != "int8 per channel" else 1 << 23)
    case.check(subgroup, {})


@pytest.mark.parametrize("spread", [1e-4, 0.3, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("kind", ["uint8", "int8 per channel"])
def test_biases_of_any_size(spread: float, kind: str, gpu: str) -> None:
    """Sums take all of 32 bits, and wrap around; multipliers lie above 1/2 and below."""
    for op, x, filter in (
        ("conv2d", (1, 9, 7, 16), (32, 1, 1, 16)),
        ("conv2d", (1, 9, 7, 16), (9, 1, 1, 16)),
        ("depthwise_conv2d", (1, 9, 7, 8), (1, 3, 3, 8)),
    ):
        case = Case(op, kind, x, filter, seed=3, spread=spread)
        assert case.inputs[2] is not None
        sizes = np.random.default_rng(4).integers(0, 31, case.inputs[2].shape)
        case.inputs[2][:] = np.random.default_rng(5).integers(-1, 2, sizes.shape) * (
            2 ** sizes.astype(np.int64)
        )
        case.inputs[2][:3] = -(2**31), 2**31 - 1, -1
        case.check(gpu, {})


def test_a_filter_is_packed_without_its_zero_point() -> None:
    filter = np.array([[0, 255, 3], [7, 128, 250]], np.uint8)
    packed = pack_centred(filter, 128)
    assert (packed.dtype, packed.shape) == (np.float32, (1, 8, 32))
    np.testing.assert_array_equal(packed[0, :3, :2].T, filter.astype(int) - 128)
    assert not packed[0, 3:].any() and not packed[0, :, 2:].any()


@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, 128), (np.uint8, 3), (np.int8, -7)])
def test_a_filter_is_packed_in_words_with_signed_upper_bytes(dtype: type[np.generic], zero: int) -> None:
    filter = np.random.default_rng(0).integers(0, 256, (37, 3), np.uint8).view(dtype)
    packed = pack_words(filter, zero)
    assert (packed.dtype, packed.shape) == (np.int32, (2, 8, 8))
    lower = packed[..., None].view(np.uint8)[..., :3].astype(int) - 128
    low = 128 if dtype is np.uint8 else 0
    columns = np.concatenate([lower, packed[..., None] >> 24], -1) + low
    columns = columns.transpose(0, 2, 3, 1).reshape(64, 8)
    np.testing.assert_array_equal(columns[:37, :3], filter)
    assert (columns[37:] == zero).all() and (columns[:, 3:] == zero).all()


@pytest.mark.parametrize(
    ("device", "rows", "channels", "body"),
    [
        (SOFTWARE, 64, 32, "matmul_broadcast"),
        (SOFTWARE, 64, 16, "matmul_broadcast"),
        (SOFTWARE, 64, 8, "matmul_broadcast"),
        (SOFTWARE, 16, 16, "matmul_broadcast"),
        (SOFTWARE, 15, 16, "integer_product"),
        (SOFTWARE, 7, 512, "integer_row"),
        (replace(SOFTWARE, software=False), 64, 32, "integer_product"),
        (replace(SOFTWARE, features=frozenset()), 64, 32, "integer_product"),
    ],
)
def test_full_tiles_on_software_devices_come_first(
    device: DeviceProperties, rows: int, channels: int, body: str
) -> None:
    case = Case("fully_connected", "uint8", (rows, 16), (channels, 16))
    model = integer_model("fully_connected", case.inputs, case.types, {}, case.output, (1, 2))
    (kernel,) = lower(model.operations[-1], device)
    assert isinstance(kernel, Kernel)
    assert kernel.body == body


@pytest.mark.parametrize(
    ("device", "channels", "bodies"),
    [
        (SOFTWARE, 32, ["unfold", "matmul_broadcast"]),
        (SOFTWARE, 16, ["unfold", "matmul_broadcast"]),
        (SOFTWARE, 8, ["integer_product"]),
        (replace(SOFTWARE, subgroup_sizes=(4, 4)), 32, ["conv_direct_broadcast"]),
        (replace(SOFTWARE, subgroup_sizes=(4, 4)), 8, ["conv_direct"]),
        (replace(SOFTWARE, software=False), 32, ["integer_product"]),
    ],
)
def test_windows_over_few_channels_are_copied_where_pipelines_take_long(
    device: DeviceProperties, channels: int, bodies: list[str]
) -> None:
    case = Case("conv2d", "int8", (1, 17, 17, 3), (channels, 3, 3, 3))
    model = integer_model("conv2d", case.inputs, case.types, {"stride": (2, 2)}, case.output, (1, 2))
    assert [k.body for k in lower(model.operations[-1], device) if isinstance(k, Kernel)] == bodies


@pytest.mark.parametrize(("rows", "body"), [(256, "unfold"), (257, "integer_product")])
def test_up_to_2_mib_of_few_channels_in_bytes_is_copied(rows: int, body: str) -> None:
    """Each of 256 pixels in a row sees 27 elements, with zeros 32, and there are 24 channels."""
    case = Case("conv2d", "int8", (1, rows, 256, 3), (24, 3, 3, 3))
    model = integer_model("conv2d", case.inputs, case.types, {"padding": "same"}, case.output, (1, 2))
    assert first_body(model) == body


@pytest.mark.parametrize(("pixels", "body"), [(19021, "integer_product"), (19022, "conv_direct_broadcast")])
def test_a_large_layer_of_few_channels_is_worth_a_pipeline_of_its_own(pixels: int, body: str) -> None:
    """Sums have 147 products each, so 19,022 pixels of 24 channels have 2^26 and more."""
    case = Case("conv2d", "int8", (1, pixels, 1, 3), (24, 7, 7, 3))
    model = integer_model("conv2d", case.inputs, case.types, {"padding": "same"}, case.output, (1, 2))
    assert first_body(model) == body


def first_body(model: Model) -> str:
    kernel = lower(model.operations[-1], SOFTWARE)[0]
    assert isinstance(kernel, Kernel)
    return kernel.body


@pytest.mark.parametrize(
    ("quantised", "size", "body"),
    [
        (True, (140, 78), "unfold"),
        (True, (141, 78), "conv_broadcast"),
        (False, (70, 39), "unfold"),
        (False, (71, 39), "conv_broadcast"),
    ],
)
def test_up_to_1_mib_of_what_windows_see_is_copied(quantised: bool, size: Pair, body: str) -> None:
    """Each pixel sees 96 elements, so 10,922 pixels fill 2^20 bytes in int8."""
    x, filter = (1, *size, 16), (32, 2, 3, 16)
    if quantised:
        case = Case("conv2d", "int8", x, filter)
        attrs = {"padding": "same"}
        model = integer_model("conv2d", case.inputs, case.types, attrs, case.output, (1, 2))
    else:
        model = model_of("conv2d", [random(1, *x), random(2, *filter)], {"padding": "same"}, (1,))
    assert first_body(model) == body


@pytest.mark.parametrize(("dtype", "body"), [(np.float32, "unfold"), (np.float16, "conv_direct_broadcast")])
def test_what_windows_see_is_not_copied_in_float16(dtype: type, body: str) -> None:
    x, filter = (random(k, *shape).astype(dtype) for k, shape in enumerate(((1, 17, 17, 3), (32, 3, 3, 3))))
    assert first_body(model_of("conv2d", [x, filter], {"stride": (2, 2)}, (1,))) == body
