"""Compiled loops compute sums and products with a number for each channel as fixed point does."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.ops import compiled
from gpunn.ops.fixed_point.channel_lines import of_channels
from gpunn.types import DType, Quantization
from tests.ops.compiled.plain import PLAIN
from tests.ops.fixed_point.test_pair_sums import SCALES
from tests.ops.quantized import quantized, stored

SHAPES = [
    ((1, 40, 50, 40), (1, 1, 1, 40)),
    ((2, 3, 256, 51), (2, 1, 1, 51)),
    ((70000, 2), (2,)),
    ((4, 20, 7, 130), (4, 1, 1, 130)),
]


@pytest.mark.sample(12)
@pytest.mark.parametrize("made", ["plain", "compiled"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_results_have_the_bits_of_fixed_point(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    scales: tuple[float, ...],
    op: str,
    dtype: DType,
    activation: str | None,
    turned: bool,
    made: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if made == "compiled":
        pytest.importorskip("numba", reason="numba, of the extra fast-cpu, is not installed")
    shift = 0 if dtype is DType.INT8 else 128
    model = Model(op)
    types = [
        quantized(dtype, shape, scale, zero + shift)
        for shape, scale, zero in zip(shapes[::-1] if turned else shapes, scales, (3, -20), strict=False)
    ]
    to = Quantization((float(np.float32(scales[2])),), (7 + shift,))
    attrs = {} if activation is None else {"activation": activation}
    operands = [model.input(name, type) for name, type in zip("ab", types, strict=True)]
    model.output(*model.add(op, operands, attrs, quantization=[to]))
    (given,) = model.operations
    values = [stored(k, type) for k, type in enumerate(types)]
    asked = []
    loops = PLAIN if made == "plain" else compiled.load()
    assert loops is not None and loops.integers is not None
    lines = loops.integers.lines
    own = loops.integers._replace(lines=lambda *operands: (asked.append(operands), lines(*operands)))
    with compiled.in_use(compiled.Loops(None, own)):
        (got,) = given.prepared()(values)
    np.testing.assert_array_equal(got, given.facet.reference(given.call(), *values))
    assert asked


@pytest.mark.parametrize("scales", [(1e30, 1e30, 1e-30), (1e-30, 1e-30, 1e30), (3e38, 1.0, 3e38)], ids=str)
def test_extreme_scales_have_the_bits_of_fixed_point(scales: tuple[float, ...]) -> None:
    model = Model("mul")
    types = [quantized(DType.INT8, shape, scale, 3) for shape, scale in zip(SHAPES[0], scales, strict=False)]
    operands = [model.input(name, type) for name, type in zip("ab", types, strict=True)]
    to = Quantization((float(np.float32(scales[2])),), (7,))
    model.output(*model.add("mul", operands, quantization=[to]))
    (given,) = model.operations
    values = [stored(k, type) for k, type in enumerate(types)]
    with compiled.in_use(PLAIN):
        (got,) = given.prepared()(values)
    np.testing.assert_array_equal(got, given.facet.reference(given.call(), *values))


@pytest.mark.parametrize(
    "x, channels, expected",
    [
        ((2, 5, 5, 3), (2, 1, 1, 3), True),
        ((2, 5, 5, 3), (1, 1, 1, 3), True),
        ((2, 5, 5, 3), (1, 5, 1, 3), False),
        ((2, 5, 5, 3), (2, 5, 5, 3), False),
        ((2, 5, 5, 3), (2, 1, 1, 1), False),
        ((5, 3), (3,), True),
        ((3,), (5, 3), False),
        ((3,), (3,), False),
        ((0, 3), (1, 3), False),
        ((), (), False),
    ],
)
def test_what_has_numbers_of_channels(x: tuple[int, ...], channels: tuple[int, ...], expected: bool) -> None:
    assert of_channels(x, channels) == expected
