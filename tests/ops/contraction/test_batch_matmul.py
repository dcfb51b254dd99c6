"""Products of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.check import QUANTIZED
from gpunn.ops.contraction.broadcast_tile import measured
from gpunn.ops.fixed_point.affine import LIMITS, dequantize
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.harness import ATOL, EPS, check, check_litert, model_of, random, take_body
from tests.ops.integer_checks import check_integer, integer_model, litert_integer
from tests.ops.quantized import quantized, stored

SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...], int, int, int], ...] = (
    # Batch dimensions of a and of b; rows, depth, columns.
    ((), (), 3, 5, 4),
    ((2,), (2,), 1, 7, 3),
    ((2, 3), (2, 3), 4, 4, 4),
    ((2, 1), (3,), 2, 3, 5),
    ((3,), (), 5, 70, 2),
    ((), (2, 2), 2, 1, 9),
    ((2, 1, 3), (4, 1), 2, 3, 1),
    ((2, 3), (2, 1), 3, 4, 5),
    ((2, 3, 2), (1, 1), 2, 5, 4),
    ((0,), (1,), 2, 3, 4),
    ((2, 0), (2, 1), 2, 3, 4),
    ((2,), (2,), 2, 0, 3),
)


def bound(a: Array, b: Array, depth: int) -> float:
    """Return how far a sum of `depth` products can be off: see tolerance() in test_conv.py."""
    largest = float(np.abs(a).max(initial=0) * np.abs(b).max(initial=0))
    return max(ATOL, depth * depth * EPS / 2 * largest)


def matrices(batch: tuple[int, ...], rows: int, columns: int, adjoint: bool, seed: int) -> Array:
    """Return a stack of matrices, transposed if adj_a or adj_b says so."""
    return random(seed, *batch, *((columns, rows) if adjoint else (rows, columns)))


@pytest.mark.parametrize("adj_a", [False, True])
@pytest.mark.parametrize("adj_b", [False, True])
def test_batch_matmul(adj_a: bool, adj_b: bool, backend: str) -> None:
    for left, right, rows, depth, columns in SHAPES:
        a, b = matrices(left, rows, depth, adj_a, 0), matrices(right, depth, columns, adj_b, 1)
        attrs = {"adj_a": adj_a, "adj_b": adj_b}
        check("batch_matmul", [a, b], attrs, backend=backend, atol=bound(a, b, depth))


# Stacks, rows, depth and columns: whole tiles, and rows and columns that do not fill the last ones.
TILES: tuple[tuple[tuple[int, ...], tuple[int, ...], int, int, int], ...] = (
    ((2, 3), (2, 3), 8, 5, 8),
    ((2, 1), (3,), 9, 7, 12),
    ((3,), (1,), 6, 1, 11),
    ((1, 2, 3), (4, 1, 3), 7, 9, 6),
    ((2, 3), (2, 1), 5, 8, 8),
    ((2,), (2,), 5, 66, 5),
)


@pytest.mark.parametrize("adj_a", [False, True])
@pytest.mark.parametrize("adj_b", [False, True])
@pytest.mark.parametrize(("left", "right", "rows", "depth", "columns"), TILES, ids=str)
def test_tiles_of_each_matrix_compute_the_same_sums(
    left: tuple[int, ...],
    right: tuple[int, ...],
    rows: int,
    depth: int,
    columns: int,
    adj_a: bool,
    adj_b: bool,
    gpu: str,
) -> None:
    """Both add up in one order, but a driver may contract products and sums in its own way."""
    a, b = matrices(left, rows, depth, adj_a, 0), matrices(right, depth, columns, adj_b, 1)
    attrs, found = {"adj_a": adj_a, "adj_b": adj_b}, list[Array]()
    for body in ("batch_matmul_tile", "batch_matmul"):
        with pytest.MonkeyPatch.context() as patch:
            take_body(patch, body)
            with model_of("batch_matmul", [a, b], attrs).compile(gpu) as compiled:
                assert [row.kernel.body for row in compiled.plan_rows()] == [body]
                found.append(np.asarray(compiled(a, b)))
            check("batch_matmul", [a, b], attrs, backend=gpu, atol=bound(a, b, depth))
    assert np.abs(found[0] - found[1]).max() <= 2 * bound(a, b, depth)


@pytest.mark.parametrize("adj_b", [False, True])
def test_matrices_with_the_same_second_factor_are_rows_of_one(adj_b: bool, gpu: str) -> None:
    """The kernels are those of fewer matrices with more rows."""
    found = []
    for left, right, rows in (((2, 3), (2, 1), 8), ((2,), (2,), 24)):
        a, b = matrices(left, rows, 8, False, 0), matrices(right, 8, 12, adj_b, 1)
        with model_of("batch_matmul", [a, b], {"adj_b": adj_b}).compile(gpu) as compiled:
            kernels = [
                (row.kernel.body, row.kernel.threads, row.kernel.params) for row in compiled.plan_rows()
            ]
            found.append((kernels, compiled(a, b).reshape(2, 24, 12)))
    (one, y), (other, z) = found
    assert one == other
    np.testing.assert_array_equal(y, z)


def test_batches_that_cannot_be_merged_run_on_the_host(backend: str) -> None:
    a, b = random(0, 2, 1, 2, 1, 2, 2, 3), random(1, 1, 2, 1, 2, 1, 3, 2)
    check("batch_matmul", [a, b], backend=backend, host="5 batch dimensions", atol=bound(a, b, 3))


ADJOINTS = [{"adj_a": a, "adj_b": b} for a in (False, True) for b in (False, True)]


def stacks(
    dtype: DType,
    shape: tuple[tuple[int, ...], tuple[int, ...], int, int, int],
    attrs: dict[str, bool],
    seed: int,
) -> tuple[list[Array], list[TensorType], TensorType]:
    """Stored values and types of a and b, and the type of their product, whose range its values fill.

    Scales of odd seeds are powers of two, which makes halves of many results.
    """
    left, right, rows, depth, columns = shape
    rng = np.random.default_rng(seed)
    int16 = dtype is DType.INT16
    zeros = (0, 0, 0) if int16 else tuple(int(z) for z in rng.integers(*LIMITS[dtype], 3))
    scales = (0.25, 0.5) if seed % 2 else rng.uniform(0.001, 0.1, 2)
    sizes = (
        (depth, rows) if attrs["adj_a"] else (rows, depth),
        (columns, depth) if attrs["adj_b"] else (depth, columns),
    )
    types = [
        quantized(dtype, (*batch, *size), scale, zero)
        for batch, size, scale, zero in zip((left, right), sizes, scales, zeros, strict=False)
    ]
    batch = np.broadcast_shapes(left, right)
    spread = (2**14 if int16 else 2**6) * (4 if depth > 4 else 1)
    y = quantized(dtype, (*batch, rows, columns), scales[0] * scales[1] * spread, zeros[2])
    return [stored(seed + k, t) for k, t in enumerate(types)], types, y


def over_all(inputs: Sequence[Array], types: Sequence[TensorType], attrs: dict[str, bool]) -> Quantization:
    """Return a quantisation in which the products of stacks take 200 steps, if its zero point can be had."""
    reals = [dequantize(v, t).astype(np.float64) for v, t in zip(inputs, types, strict=True)]
    exact = OPS["batch_matmul"].reference(*reals, **attrs)
    scale, limits = float(np.float32(np.ptp(exact) / 200)), LIMITS[types[0].dtype]
    return Quantization((scale,), (int(np.clip(round(limits[0] + 20 - exact.min() / scale), *limits)),))


@pytest.mark.parametrize("attrs", ADJOINTS, ids=str)
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantised_products(dtype: DType, attrs: dict[str, bool], backend: str) -> None:
    """Two roundings are off by less than 3/4 of a step; one is by 1/2, and a factor of 15 bits by 2^-15."""
    off = 1.501 if dtype is DType.INT16 else 0.751
    for seed, shape in enumerate(SHAPES):
        inputs, types, y = stacks(dtype, shape, attrs, seed)
        (found,) = check_integer("batch_matmul", inputs, types, attrs, y.quantization, backend=backend)
        a, b = ((v.astype(float) - t.quantization.zero_point[0]) for v, t in zip(inputs, types, strict=True))
        a = np.swapaxes(a, -1, -2) if attrs["adj_a"] else a
        b = np.swapaxes(b, -1, -2) if attrs["adj_b"] else b
        factor = types[0].quantization.scale[0] * types[1].quantization.scale[0] / y.quantization.scale[0]
        real = np.clip(a @ b * factor + y.quantization.zero_point[0], *LIMITS[dtype])
        assert np.abs(found - real).max(initial=0) < off


@pytest.mark.parametrize("adj_b", [False, True])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize(
    "shape", [((3,), (3,), 33, 45, 50), ((2, 2), (2, 2), 17, 64, 64), ((4,), (), 9, 200, 21)], ids=str
)
def test_quantised_rows_that_subgroups_share(
    shape: tuple[Any, Any, int, int, int], dtype: DType, adj_b: bool, gpu: str
) -> None:
    attrs = {"adj_a": False, "adj_b": adj_b}
    for seed in range(3):
        inputs, types, _ = stacks(dtype, shape, attrs, seed)
        y = over_all(inputs, types, attrs)
        (found,) = check_integer("batch_matmul", inputs, types, attrs, y, backend=gpu)
        assert np.unique(found).size > 20 or y.zero_point[0] in LIMITS[dtype]
    with integer_model("batch_matmul", inputs, types, attrs, y).compile(gpu) as compiled:
        bodies = [row.kernel.body for row in compiled.plan_rows()]
    properties = open_device(None, False).properties
    if measured(properties):
        assert bodies[0] == "unary"
        assert bodies[-1] == "matmul_broadcast"


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_quantised_extremes(dtype: DType, backend: str) -> None:
    """Sums of 300 products of 255 * 255, of either sign: in steps of three, and far beyond the range."""
    low, high = LIMITS[dtype]
    a = quantized(dtype, (2, 3, 300), 1.0, high)
    for zero, scale, expected in (
        (high, 3 * 65025.0, low + 100),
        (high, 1.0, high),
        (low, 3 * 65025.0, high - 100),
        (low, 1.0, low),
    ):
        types = [a, quantized(dtype, (2, 300, 5), 1.0, zero)]
        inputs = [
            np.full(t.shape, v, dtype.numpy) for t, v in zip(types, (low, low + high - zero), strict=True)
        ]
        y = Quantization((scale,), (low + high - zero,))
        (found,) = check_integer("batch_matmul", inputs, types, {}, y, backend=backend)
        assert (found == expected).all()


@pytest.mark.parametrize("attrs", ADJOINTS, ids=str)
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_quantised_products_have_the_bits_of_litert(
    dtype: DType, reference: bool, attrs: dict[str, bool]
) -> None:
    for seed, shape in enumerate((*SHAPES[1:7], ((2,), (2,), 13, 200, 16))):
        inputs, types, y = stacks(dtype, shape, attrs, seed)
        options = {"adj_x": attrs["adj_a"], "adj_y": attrs["adj_b"]}
        (theirs,) = litert_integer(
            "BATCH_MATMUL", inputs, types, [y], options, version=3, reference=reference
        )
        operation = integer_model("batch_matmul", inputs, types, attrs, y.quantization).operations[0]
        np.testing.assert_array_equal(operation.evaluate(inputs)[0], theirs)


def test_scales_are_multiplied_in_float32() -> None:
    """Of these, the factor is 24751 / 2^15 with the product in float32, and 24752 / 2^15 in float64."""
    types = [quantized(DType.INT16, (1, 1), scale) for scale in (0.05849092, 0.030014569)]
    y, inputs = quantized(DType.INT16, (1, 1), 0.0023241758), [np.array([[v]], np.int16) for v in (200, 150)]
    (theirs,) = litert_integer("BATCH_MATMUL", inputs, types, [y], version=3)
    operation = integer_model("batch_matmul", inputs, types, {}, y.quantization).operations[0]
    assert operation.evaluate(inputs)[0] == theirs == (200 * 150 * 24751 + 2**14) >> 15


def test_agrees_with_litert() -> None:
    for left, right, rows, depth, columns in SHAPES[1:7]:
        for adj_a in (False, True):
            for adj_b in (False, True):
                a, b = matrices(left, rows, depth, adj_a, 0), matrices(right, depth, columns, adj_b, 1)
                options = {"adj_x": adj_a, "adj_y": adj_b}
                attrs: dict[str, Any] = {"adj_a": adj_a, "adj_b": adj_b}
                check_litert("batch_matmul", [a, b], attrs, "BATCH_MATMUL", options, atol=bound(a, b, depth))


@pytest.mark.parametrize(
    ("a", "b", "attrs", "message"),
    [
        ((3,), (3, 2), {}, "input 0 must have rank 2 or more"),
        ((2, 3), (2, 3), {}, "matrices of 2 x 3 and 2 x 3 cannot be multiplied"),
        ((2, 3), (2, 3), {"adj_a": True, "adj_b": True}, "matrices of 3 x 2 and 3 x 2"),
        ((2, 2, 3), (3, 3, 2), {}, r"shapes \[2\] and \[3\] cannot be broadcast"),
        ((2, 3), (3, 2), {"adj_a": 1}, "adj_a must be True or False"),
    ],
)
def test_errors(a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"batch_matmul: {message}"):
        model_of("batch_matmul", [random(0, *a), random(1, *b)], attrs)


def test_integers_are_refused() -> None:
    with pytest.raises(ModelError, match="matmul: input 0 must be float32 or float16 or int8, got int32"):
        model_of("batch_matmul", [np.zeros((2, 2), np.int32)] * 2, {})


def test_a_tensor_times_itself(backend: str) -> None:
    """Squares reach 48, so that three times bound() of them covers what they are off by themselves."""
    model = Model("square")
    x = model.input("x", float32(2, 3, 3))
    (square,) = model.add("batch_matmul", [x, x])
    model.output(*model.add("batch_matmul", [square, square], {"adj_b": True}))
    values = random(0, 2, 3, 3)
    with model.compile(backend=backend) as compilation:
        squared = values.astype(np.float64) @ values
        expected = squared @ np.swapaxes(squared, 1, 2)
        np.testing.assert_allclose(compilation(values), expected, rtol=0, atol=3 * 9 * EPS / 2 * 48**2)


@pytest.mark.parametrize("adj_a", [False, True])
@pytest.mark.parametrize("adj_b", [False, True])
def test_plain_integers_give_sums(adj_a: bool, adj_b: bool, backend: str) -> None:
    rng = np.random.default_rng(5)
    for left, right, rows, depth, columns in (*SHAPES, ((), (), 2, 1500, 5)):
        a_shape = (*left, *((depth, rows) if adj_a else (rows, depth)))
        b_shape = (*right, *((columns, depth) if adj_b else (depth, columns)))
        values = [rng.integers(-128, 128, shape, np.int8) for shape in (a_shape, b_shape)]
        a, b = (v.astype(np.int64) for v in values)
        exact = (a.swapaxes(-1, -2) if adj_a else a) @ (b.swapaxes(-1, -2) if adj_b else b)
        model = model_of("batch_matmul", values, {"adj_a": adj_a, "adj_b": adj_b})
        with model.compile(backend=backend) as compiled:
            assert {p.backend for p in compiled.placement} == {backend}
            found = compiled(*values)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, exact)


def test_sums_of_plain_integers_wrap_around(backend: str) -> None:
    a, b = np.full((1, 140_000), -128, np.int8), np.full((140_000, 1), -128, np.int8)
    with model_of("batch_matmul", [a, b], {}).compile(backend=backend) as compiled:
        assert compiled(a, b).tolist() == [[140_000 * 2**14 - 2**32]]


def test_other_plain_integers_are_refused() -> None:
    for dtype in (np.uint8, np.int16, np.int32):
        with pytest.raises(ModelError, match="input 0 must be float32 or float16 or int8, got"):
            model_of("batch_matmul", [np.zeros((2, 2), dtype)] * 2, {})
    with pytest.raises(ModelError, match="inputs must have one dtype"):
        model_of("batch_matmul", [np.zeros((2, 2), np.int8), np.zeros((2, 2), np.float32)], {})
