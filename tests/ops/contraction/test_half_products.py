"""Products in f16, of constant filters and of computed matrices, against float64 and a derived bound."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import candidates
from gpunn.comparison.compare import compare
from gpunn.comparison.sides import Arithmetic
from gpunn.device import HALF_PRECISION
from gpunn.graph.operation import Operation
from gpunn.graph.tolerance import bounds, half_products
from gpunn.model import Model
from gpunn.ops.contraction import workgroup_product
from gpunn.ops.contraction.half_products import pack_scaled, pack_scales
from gpunn.ops.kernels.workgroup_tile import LARGE_TILE, TILE
from gpunn.tuning import measurement
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.contraction.test_batch_matmul import ADJOINTS, matrices
from tests.ops.contraction.test_broadcast_tile import described
from tests.ops.contraction.test_workgroup_product import PRODUCTS, STACKS, WORKGROUP, convolutions
from tests.ops.harness import EPS, random, type_of
from tests.planning.preferring import prefer_kernel


@pytest.fixture
def halves(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let products be computed in f16."""
    if HALF_PRECISION not in open_device(None, False).properties.features:
        pytest.skip("the adapter has no shader-f16")
    prefer_kernel(monkeypatch, lambda kernel: kernel.halves)
    return hardware_gpu


HALF_TILES = TILE, LARGE_TILE


@pytest.fixture(params=HALF_TILES, ids=lambda tile: f"{tile.side}")
def packed_halves(request: pytest.FixtureRequest, halves: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let products of filters that are packed in f16 be computed so, in tiles of each size."""
    monkeypatch.setattr(workgroup_product, "TILE", request.param)
    return halves


def run_relaxed(op: str, inputs: list[Array], attrs: dict[str, Any], backend: str) -> tuple[Array, Operation]:
    """Run an operation whose x is computed, with products in f16; return the result and the operation.

    Of this, x and the filter are float16, and the result is float32.
    """
    model = Model()
    (x,) = model.add("neg", [model.input("x", type_of(inputs[0]))])
    constants = [model.constant(f"constant_{k}", value) for k, value in enumerate(inputs[1:])]
    model.output(*model.add(op, [x, *constants], attrs))
    with model.compile(backend, relaxed=True) as compiled:
        row = compiled.plan_rows()[-1]
        assert row.kernel.halves
        return np.asarray(compiled(-inputs[0])), row.operation


def rounded(inputs: list[Array]) -> list[Array]:
    """Return exact values of what is stored: x and the filter as float16, a bias as it is."""
    with np.errstate(over="ignore"):
        return [
            v.astype(np.float16 if k < 2 else np.float32).astype(np.float64) for k, v in enumerate(inputs)
        ]


def assert_within_bound(y: Array, inputs: list[Array]) -> None:
    """Assert that results of fully_connected have the errors of products in f16, and of sums in f32."""
    x, filter, *bias = rounded(inputs)
    sizes, depth = np.abs(x) @ np.abs(filter).T, x.shape[-1] + 1
    largest = np.abs(filter).max(axis=1)
    roundings = (1 + 2.0**-11) ** 8 - 1
    lost = (2.0**-14 + 2.0**-16 + 2.0**-17 * np.abs(x)).sum(axis=-1, keepdims=True) * largest
    exact = x @ filter.T + sum(bias)
    limit = (roundings + depth * EPS) * sizes + lost + 2 * EPS * np.abs(exact)
    assert (np.abs(y - exact) <= limit).all()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("shape", "packed_halves"), [*zip(PRODUCTS, cycle(HALF_TILES))], indirect=["packed_halves"]
)
def test_products_in_f16(shape: tuple[int, int, int], packed_halves: str) -> None:
    rows, depth, channels = shape
    inputs = [random(1, rows, depth), random(2, channels, depth), random(3, channels)][: 2 + rows % 2]
    inputs[1] *= np.float32(2.0) ** random(4, channels, 1, low=-20, high=12).round()
    y, _ = run_relaxed("fully_connected", inputs, {"keep_dims": True}, packed_halves)
    assert_within_bound(y, inputs)


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", convolutions(), ids=described)
def test_convolutions_in_f16(case: Any, packed_halves: str) -> None:
    inputs, attrs = case
    y, operation = run_relaxed("conv2d", inputs, attrs, packed_halves)
    given = rounded(inputs)
    (exact,) = operation.evaluate(given)
    wide = [*given, *[None] * (len(operation.inputs) - len(given))]
    (bound,) = bounds(operation, wide, (exact,), partial(half_products, operation))
    assert (np.abs(y - exact) <= bound.limit).all()
    (strict,) = bounds(operation, wide, (exact,))
    assert (bound.limit >= strict.limit).all()
    assert (bound.limit > 9 * strict.limit).any()


SPREAD = random(5, 70, 40) * np.float32(10.0) ** random(6, 70, 40, low=-7, high=0)
SOME_STEPS = np.isin(np.arange(112) // 16, (0, 4, 5)) * np.float32(1e4)  # of seven
EXTREMES = {
    "all large": (random(1, 70, 40, low=3e4, high=65504), random(2, 66, 40, low=-65504, high=65504)),
    "some large": (np.where(random(1, 70, 40) > 3, np.float32(65504), random(2, 70, 40)), random(3, 66, 40)),
    "large in some steps": (random(1, 70, 112) + SOME_STEPS, random(2, 66, 112)),
    "just too large": (random(1, 70, 40, low=250, high=260), random(2, 66, 40, low=0.9, high=0.999)),
    "as large as may be": (np.full((70, 40), 256, np.float32), np.full((66, 40), 15.99, np.float32)),
    "subnormal": (random(1, 70, 40, low=-6e-5, high=6e-5), random(2, 66, 40, low=-7e-5, high=7e-5)),
    "of all sizes": (SPREAD, SPREAD[:66, ::-1] * 100),
    "zeros": (random(1, 70, 40), np.zeros((66, 40), np.float32)),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_no_product_overflows_or_is_lost(name: str, packed_halves: str) -> None:
    inputs = [*EXTREMES[name]]
    y, _ = run_relaxed("fully_connected", inputs, {"keep_dims": True}, packed_halves)
    assert np.isfinite(y).all()
    assert_within_bound(y, inputs)


def test_what_is_too_large_is_computed_in_f32(halves: str) -> None:
    x, filter = EXTREMES["all large"]
    y, _ = run_relaxed("fully_connected", [x, filter], {"keep_dims": True}, halves)
    wide, weights = rounded([x, filter])
    assert (np.abs(y - wide @ weights.T) <= 40 * EPS * (wide @ np.abs(weights).T)).all()


def test_infinite_and_undefined_elements_stay_in_their_rows(halves: str) -> None:
    inputs = [random(1, 70, 40), random(2, 66, 40)]
    inputs[0][3, 20], inputs[0][50, 39] = np.inf, np.nan
    y, _ = run_relaxed("fully_connected", inputs, {"keep_dims": True}, halves)
    assert (y[3] == np.sign(inputs[1][:, 20]) * np.inf).all()
    assert np.isnan(y[50]).all()
    others = np.delete(np.arange(70), (3, 50))
    assert_within_bound(y[others], [inputs[0][others], inputs[1]])


def run_matrices(
    inputs: list[Array],
    attrs: dict[str, bool],
    narrow: tuple[bool, ...],
    backend: str,
    op: str = "batch_matmul",
) -> tuple[Array, Operation]:
    """Run a relaxed product of computed matrices in f16; return the result, float32, and the operation.

    narrow: which of the operands are float16. The others are inputs of the model, which stay float32.
    """
    model = Model()
    operands = [model.input(f"x{k}", type_of(x)) for k, x in enumerate(inputs)]
    given = [model.add("neg", [x])[0] if half else x for x, half in zip(operands, narrow, strict=True)]
    model.output(*model.add(op, given, attrs))
    with model.compile(backend, relaxed=True) as compiled:
        row = compiled.plan_rows()[-1]
        assert row.kernel.halves
        fed = [-x if half else x for x, half in zip(inputs, narrow, strict=True)]
        return np.asarray(compiled(*fed)), row.operation


def stored(inputs: list[Array], narrow: tuple[bool, ...]) -> list[Array]:
    """Return exact values of operands, of which some are stored as float16."""
    return [
        (x.astype(np.float16) if half else x).astype(np.float64)
        for x, half in zip(inputs, narrow, strict=True)
    ]


def assert_matrices_within_bound(
    y: Array, a: Array, b: Array, narrow: tuple[bool, bool], bias: Array | float = 0
) -> None:
    """Assert that products of a [..., M, K] and b [..., K, N] have the errors of products in f16.

    bias: the size of what has been added and taken away again.
    """
    a, b = stored([a, b], narrow)
    exact, sizes, depth = a @ b, np.abs(a) @ np.abs(b), a.shape[-1] + 1
    rows, columns = np.abs(a).max(axis=-1, keepdims=True), np.abs(b).max(axis=-2, keepdims=True)
    roundings = (1 + 2.0**-11) ** (8 + 2 - sum(narrow)) - 1
    lost = (2.0**-21 + 2.0**-23) * depth * rows * columns
    lost = lost + 2.0**-17 * np.abs(a).sum(axis=-1, keepdims=True) * columns
    limit = (roundings + depth * EPS) * sizes + lost + 2 * EPS * (np.abs(exact) + bias) + 2.0**-126
    assert (np.abs(y - exact) <= limit).all()


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "attrs"), [*zip(STACKS * 2, cycle(ADJOINTS))])
def test_computed_matrices_in_f16(shape: Any, attrs: dict[str, bool], halves: str) -> None:
    left, right, rows, depth, columns = shape
    narrow = (depth % 2 == 0, columns % 2 == 0)
    inputs = [
        matrices(left, rows, depth, attrs["adj_a"], 1),
        matrices(right, depth, columns, attrs["adj_b"], 2),
    ]
    y, operation = run_matrices(inputs, attrs, narrow, halves)
    a, b = (
        np.swapaxes(x, -1, -2) if adjoint else x for x, adjoint in zip(inputs, attrs.values(), strict=True)
    )
    assert_matrices_within_bound(y, a, b, narrow)
    given = stored(inputs, narrow)
    (exact,) = operation.evaluate(given)
    (bound,) = bounds(operation, given, (exact,), partial(half_products, operation))
    (strict,) = bounds(operation, given, (exact,))
    assert (np.abs(y - exact) <= bound.limit).all()
    assert (bound.limit > strict.limit).all()


@pytest.mark.parametrize("narrow", [(True, True), (False, True), (False, False)], ids=str)
def test_rows_times_a_computed_filter_in_f16(narrow: tuple[bool, bool], halves: str) -> None:
    """Rows are cut from x, which has another shape."""
    inputs, kinds = [random(1, 3, 23, 30), random(2, 70, 15), random(3, 70)], (*narrow, False)
    inputs[1] *= powers(4, 70, -20, 12)[:, None]
    y, operation = run_matrices(inputs, {}, kinds, halves, "fully_connected")
    rows = inputs[0].reshape(-1, 15)
    assert_matrices_within_bound(y - inputs[2], rows, inputs[1].T, narrow, np.abs(inputs[2]))
    given = stored(inputs, kinds)
    (exact,) = operation.evaluate(given)
    (bound,) = bounds(operation, given, (exact,), partial(half_products, operation))
    assert (np.abs(y - exact) <= bound.limit).all()


def powers(seed: int, count: int, low: int, high: int) -> Array:
    return np.ldexp(np.float32(1), np.random.default_rng(seed).integers(low, high, count))


HIGH = np.float32(3e38)
RANGES = {
    "rows and columns of all sizes": (
        random(1, 70, 40) * powers(2, 70, -100, 60)[:, None],
        random(3, 40, 66) * powers(4, 66, -100, 60),
    ),
    # Few of the small ones are subnormal numbers, which devices may take for 0 (WGSL, section 15.7.2).
    "large by small": (random(1, 70, 40) * np.float32(2e35), random(2, 40, 66) * np.float32(1e-35)),
    "elements of all sizes": (
        random(1, 70, 40) * powers(2, 70 * 40, -30, 30).reshape(70, 40),
        random(3, 40, 66) * powers(4, 40 * 66, -30, 30).reshape(40, 66),
    ),
    "the largest numbers": (np.full((8, 1), HIGH), np.full((1, 5), np.float32(1))),
    "subnormal": (random(1, 70, 40) * np.float32(1e-40), random(2, 40, 66) * np.float32(1e-3)),
    "zeros": (np.zeros((70, 40), np.float32), random(2, 40, 66)),
}


@pytest.mark.parametrize("name", RANGES)
def test_matrices_of_any_range_are_scaled(name: str, halves: str) -> None:
    a, b = RANGES[name]
    y, _ = run_matrices([a, b], {}, (False, False), halves)
    assert np.isfinite(y).all()
    assert_matrices_within_bound(y, a, b, (False, False))


def test_infinite_and_undefined_elements_stay_in_rows_and_columns(halves: str) -> None:
    a, b = random(1, 70, 40), random(2, 40, 66)
    a[3, 20], a[50, 39], b[11, 60] = np.inf, np.nan, -np.inf
    y, _ = run_matrices([a, b], {}, (True, False), halves)
    others = np.delete(np.arange(66), 60)
    assert (y[3, others] == np.sign(b[20, others]) * np.inf).all()
    assert np.isnan(y[50]).all()
    rows = np.delete(np.arange(70), (3, 50))
    assert (y[rows, 60] == -np.sign(a[rows, 11]) * np.inf).all()
    assert_matrices_within_bound(y[rows][:, others], a[rows], b[:, others], (True, False))


def attention(heads: int, length: int, width: int) -> Model:
    """Return softmax(q k^T / sqrt(width)) v of computed q, k and v."""
    model = Model()
    q, k, v = (
        model.add("neg", [model.input(name, float32(heads, length, width))])[0] for name in ("q", "k", "v")
    )
    (scores,) = model.add("batch_matmul", [q, k], {"adj_b": True})
    (scaled,) = model.add("mul", [scores, model.constant("scale", np.float32(width**-0.5))])
    (shares,) = model.add("softmax", [scaled], {"beta": 1.0, "axis": -1})
    model.output(*model.add("batch_matmul", [shares, v]))
    return model


def test_both_products_of_attention_are_in_f16(halves: str) -> None:
    model = attention(2, 70, 20)
    sample = tuple(random(k, 2, 70, 20) for k in range(3))
    with model.compile(halves, relaxed=True) as compiled:
        found = [row.kernel.halves for row in compiled.plan_rows() if row.operation.op == "batch_matmul"]
    assert found == [True, True]
    assert compare(model, [sample], backends=["webgpu-relaxed", "cpu-relaxed"]).ok


def test_the_largest_weight_of_a_channel_is_between_8_and_16() -> None:
    filter = np.float16([[0.25, -7, 0], [2.0**-24, 0, 0], [65504, 1, 1], [0, 0, 0], [np.inf, 1, 0]])
    packed, scales = pack_scaled(filter), pack_scales(filter)
    assert (packed.dtype, scales.dtype) == (np.float16, np.float32)
    np.testing.assert_array_equal(packed[:3, :5].T * scales[:5, None], filter)
    largest = np.abs(np.where(np.isfinite(packed), packed, 0)).max(axis=0)[:5]
    np.testing.assert_array_equal(largest, [14, 8, 15.9921875, 0, 8])


def test_a_tuner_allows_for_products_in_f16(hardware_gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuner asks whether results are right only of a way that wins, here the second one in any case."""
    monkeypatch.setattr(measurement, "MARGIN", 1e9)
    device, model = open_device(None, False), Model()
    if HALF_PRECISION not in device.properties.features:
        pytest.skip("the adapter has no shader-f16")
    x = model.input("x", TensorType(DType.FLOAT16, (70, 90)))
    filter = model.constant("filter", random(1, 40, 90).astype(np.float16))
    model.output(*model.add("fully_connected", [x, filter]))
    operation = replace(model.operations[0], relaxed=True)
    ways = candidates(operation, device.properties)
    halves, reals, *_ = (c for c in ways if c.kernels[0].body == WORKGROUP)
    assert (halves.kernels[0].halves, reals.kernels[0].halves) == (True, False)
    record = measurement.Bench(device).record(operation, [reals, halves])
    assert record is not None
    assert (record[0].chosen, record[0].dropped) == (1, ("", ""))


def test_a_comparison_allows_for_products_in_f16(halves: str) -> None:
    model = Model()
    (x,) = model.add("neg", [model.input("x", float32(70, 90))])
    model.output(*model.add("fully_connected", [x, model.constant("filter", random(1, 40, 90))]))
    found = compare(model, [random(2, 70, 90)], backends=["webgpu-relaxed", "cpu-relaxed"])
    assert found.ok
    assert [side.arithmetic for side in found.sides][1:] == [Arithmetic.HALF_PRODUCTS, Arithmetic.FLOAT16]
