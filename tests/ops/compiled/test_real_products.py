"""The loop of products of float32: its errors, its bits, and when it is asked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpunn.ops import OPS, compiled
from gpunn.ops.compiled.tiles import VECTORS, WIDE, boxes
from gpunn.ops.compiled.vectors import Sizes
from gpunn.ops.contraction import product_loop
from gpunn.ops.contraction.prepared import PLAIN
from gpunn.ops.kernels.window import Window, resolve
from gpunn.types import Array
from tests.ops.compiled.plain import OF_CHANNELS, OF_TILES, REALS, Case, real_layer
from tests.ops.harness import random

OF_REALS: list[Case] = [
    ("conv2d", (2, 3, 5, 4), (37, 1, 1, 4), {"activation": "relu6"}),
    ("conv2d", (1, 5, 7, 8), (16, 1, 1, 8), {"stride": (2, 2), "activation": "relu"}),
    ("conv2d", (3, 6, 5, 3), (70, 3, 3, 3), {"padding": "same", "activation": "relu1"}),
    ("conv2d", (1, 7, 9, 5), (9, 2, 3, 5), {"padding": "same", "dilation": (2, 2)}),
    ("conv2d", (2, 7, 9, 4), (9, 3, 2, 4), {"stride": (1, 2)}),
    ("conv2d", (1, 7, 9, 4), (9, 3, 2, 4), {"padding": ((3, 2), (1, 4)), "stride": (2, 3)}),
    ("conv2d", (1, 5, 6, 4), (6, 3, 3, 4), {"activation": "tanh"}),  # no clamp
    ("conv2d", (1, 12, 1, 1), (33, 5, 1, 1), {"padding": "same"}),
    ("fully_connected", (31, 13), (5, 13), {"activation": "relu6"}),
    ("fully_connected", (4, 3, 26), (70, 26), {"activation": "tanh"}),
    ("conv2d", (1, 4, 5, 40), (5, 5, 5, 40), {"padding": "same"}),
    ("conv2d", (1, 5, 4, 4), (6, 3, 3, 2), {}),  # two groups
    ("conv2d", (2, 7, 9, 15), (105, 3, 2, 5), {"padding": "same", "stride": (1, 2), "activation": "relu"}),
    ("conv2d", (1, 7, 9, 60), (60, 3, 3, 4), {"padding": "same", "dilation": (2, 1)}),
    ("conv2d", (1, 9, 13, 64), (48, 1, 1, 16), {"stride": (1, 2)}),
    ("conv2d", (1, 1, 2, 2), (6, 1, 1, 2), {}),  # fewer pixels than in a tile
    ("fully_connected", (1, 13), (5, 13), {}),
    ("fully_connected", (2, 21), (347, 21), {"activation": "relu6"}),  # tiles of one pixel, some wide
    ("conv2d", (1, 2, 3, 60), (390, 2, 2, 20), {"activation": "relu"}),
]
SEVERAL_BLOCKS: list[Case] = [
    ("conv2d", (1, 29, 31, 40), (5, 5, 5, 40), {"padding": "same"}),
    ("conv2d", (1, 23, 29, 2), (1201, 3, 3, 2), {"activation": "relu"}),
    ("conv2d", (2, 47, 53, 64), (48, 1, 1, 16), {}),
]
SPARSE: list[Case] = [  # windows of which some see nothing
    ("conv2d", (1, 3, 2, 4), (5, 3, 4, 4), {"padding": ((5, 1), (4, 3)), "stride": (2, 1)}),
    ("conv2d", (2, 4, 5, 6), (8, 2, 3, 3), {"padding": ((3, 4), (1, 5)), "dilation": (2, 2)}),
]
NOT_OF_REALS: list[Case] = [
    ("conv2d", (0, 5, 4, 2), (6, 3, 3, 2), {}),
]


@pytest.mark.parametrize("case", [*OF_REALS, *OF_CHANNELS], ids=str)
def test_sums_of_reals_have_an_error_of_one_rounding_for_each_term(case: Case, found: compiled.Loops) -> None:
    check_errors(case)


@pytest.mark.parametrize("pixels", [1, 2, 3, 7])
@pytest.mark.parametrize(("channels", "groups"), [(347, 1), (390, 3), (24, 1), (6, 2)])
def test_boxes_of_several_parts_are_all_results(pixels: int, channels: int, groups: int) -> None:
    lanes, rows, found = 2, 3, np.zeros((pixels, channels), int)
    for among in (0, 20), (20, 36), (36, 1 << 62):
        for box in boxes((0, pixels), among, channels, groups, 5, 10, (rows, lanes)):
            assert box.width in (lanes, VECTORS * lanes, *([lanes * WIDE] if pixels < rows else []))
            found[box.begin : box.end, box.channel : min(box.behind, box.channel + box.width)] += 1
    np.testing.assert_array_equal(found, 1)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("case", SEVERAL_BLOCKS, ids=str)
def test_several_blocks(case: Case) -> None:
    check_errors(case)


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("case", [c for c in [*OF_REALS, *SPARSE] if "padding" in c[3]], ids=str)
def test_padding_is_copied_or_left_out(
    case: Case, copies: bool, found: compiled.Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_loop.ProductLoop, "_copies", lambda *_: copies)
    check_errors(case)


@pytest.mark.parametrize(
    ("side", "filter", "copies"),
    [
        (56, (32, 3, 3, 32), False),
        (14, (24, 3, 3, 24), False),
        (8, (64, 3, 3, 64), True),  # tiles of few pixels
        (28, (352, 3, 3, 352), True),  # many weights
        (64, (2, 9, 9, 2), True),  # many kinds of pixels
    ],
)
def test_padding_is_left_out_of_large_images(
    side: int, filter: tuple[int, ...], copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Window] = []
    monkeypatch.setattr(product_loop, "looped_pieces", lambda *_: asked.append(window) or [])
    loops = REALS._replace(of_tiles=compiled.OfReals(lambda *_: None, Sizes(16, 12)))
    product = product_loop.ProductLoop(
        loops, random(0, *filter), random(1, filter[0]), 1, PLAIN, row_is_cell=True
    )
    for padding in ("same", "valid"):
        asked.clear()
        window = resolve((side, side), filter[1:3], (1, 1), (1, 1), padding)
        product.pieces(window, (1, side, side, filter[3]), 1 << 14)
        assert bool(asked) == (copies and padding == "same")


def check_errors(case: Case) -> None:
    op, shape, filter, attrs = case
    channels = filter[3] if op == "depthwise_conv2d" else filter[0]
    terms = math.prod(filter) // channels + 1
    operands = [random(3, *shape), random(1, *filter), random(2, channels)]
    got = real_layer(case, *operands)
    plain = {k: v for k, v in attrs.items() if k != "activation"}
    # In float64, for which there are no loops
    expected = OPS[op].reference(*(a.astype(np.float64) for a in operands), **plain)
    sizes = OPS[op].reference(*(np.abs(a).astype(np.float64) for a in operands), **plain)
    if "activation" in attrs:
        expected = OPS[attrs["activation"]].reference(expected)
    assert np.all(np.abs(got - expected) <= terms * 2.0**-24 * sizes + 2.0**-22 * np.abs(expected))


def test_sums_of_reals_have_the_same_bits_among_any_others(found: compiled.Loops) -> None:
    filter = (35, 3, 3, 4)
    x, w, b = random(3, 3, 9, 8, 4), random(1, *filter), random(2, 35)
    case: Case = ("conv2d", x.shape, filter, {"padding": "same"})
    whole = real_layer(case, x, w, b)
    for k, image in enumerate(x):
        one = ("conv2d", (1, *image.shape), filter, {"padding": "same"})
        np.testing.assert_array_equal(real_layer(one, image[None], w, b)[0], whole[k])
    few = real_layer(("conv2d", x.shape, (3, 3, 3, 4), {"padding": "same"}), x, w[:3], b[:3])
    np.testing.assert_array_equal(few, whole[..., :3])


@pytest.mark.usefixtures("found")
def test_sums_of_reals_have_the_same_bits_everywhere() -> None:
    # Halves and their products are exact, so is each sum but those with the first number, where one rounding
    # takes away what two would keep: (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24.
    near = np.float32(1 + 2**-12)
    x = np.full((1, 3, 4, 2), near, np.float32)
    w = np.full((5, 1, 1, 2), near, np.float32)
    x[..., 0], w[..., 0] = -1, 1 + 2**-11
    got = real_layer(("conv2d", x.shape, w.shape, {}), x, w, np.zeros(5, np.float32))
    np.testing.assert_array_equal(got, np.full((1, 3, 4, 5), 2.0**-24, np.float32))


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("channels", [5, 8, 24, 35, 64])
@pytest.mark.parametrize("pixels", [1, 4])
def test_sums_of_channels_have_the_same_bits_everywhere(channels: int, pixels: int) -> None:
    # As above, with one product before
    near = np.float32(1 + 2**-12)
    x = np.full((2, pixels, 2, channels), near, np.float32)
    w = np.full((1, 1, 2, channels), near, np.float32)
    x[:, :, 0], w[:, :, 0] = -1, 1 + 2**-11
    for columns in (x, np.tile(x, (1, 1, 4, 1))):
        attrs = {"stride": (1, 2)} if columns is not x else {}
        case: Case = ("depthwise_conv2d", columns.shape, w.shape, attrs)
        got = real_layer(case, columns, w, np.zeros(channels, np.float32))
        np.testing.assert_array_equal(got, np.full(got.shape, 2.0**-24, np.float32))


def test_what_is_infinite_or_undefined_reaches_only_the_sums_that_see_it(found: compiled.Loops) -> None:
    x, w, b = random(3, 1, 5, 5, 2), random(1, 3, 3, 3, 2), random(2, 3)
    x[0, 0, 0], x[0, 4, 4, 1], w[1, 0, 0, 0] = np.nan, np.inf, np.inf
    for activation in (None, "relu6"):
        attrs: dict[str, Any] = {"padding": ((0, 1), (0, 1)), "activation": activation}
        got = real_layer(("conv2d", x.shape, w.shape, attrs), x, w, b)
        with compiled.in_use(None):
            expected = real_layer(("conv2d", x.shape, w.shape, attrs), x, w, b)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [*OF_REALS, *NOT_OF_REALS], ids=str)
def test_reals_are_multiplied_where_they_lie(case: Case) -> None:
    asked: list[Array] = []

    def products(ends: Array, x: Array, *operands: Any) -> None:
        asked.append(x)
        OF_TILES.products(ends, x, *operands)

    own = REALS._replace(of_tiles=compiled.OfReals(products, Sizes(2, 3)))
    _, shape, filter, _ = case
    with compiled.in_use(compiled.Loops(own, None)):
        real_layer(case, random(3, *shape), random(1, *filter), random(2, filter[0]))
    assert bool(asked) == (case not in NOT_OF_REALS)
