"""StableHLO operators with bodies: reductions, windows and scatters, against LiteRT and numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.model import load
from gpunn.passes import optimise
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.importers.tflite.test_stablehlo import POSITIVE, ROW, WHOLE, X, longs
from tests.ops.harness import random, type_of
from tests.tflite_builder import Graph, litert_run


def reducing(
    operator: str, body: str, x: Array, start: Any, options: Mapping[str, Any], y: TensorType, **fused: Any
) -> bytes:
    """Return a file that reduces x by a body of one operator."""
    main, inner = Graph(), Graph()
    scalar = type_of(np.zeros((), x.dtype))
    a, b = inner.input(scalar), inner.input(scalar)
    done = inner.add(body, [b, a], [scalar], fused)
    numbers = [main.input(type_of(x)), main.constant(np.array(start, x.dtype))]
    name = f"{'dimensions' if operator == 'REDUCE' else 'window_dimensions'}"
    assert name in options
    found = main.add(f"STABLEHLO_{operator}", numbers, [y], {**options, "body_subgraph_index": 1})
    return main.build(found, called=[(inner, [*done])])


BODIES: list[tuple[str, Array, Any, Any]] = [
    ("ADD", X, 0.5, np.add),
    ("STABLEHLO_MULTIPLY", POSITIVE, 2, np.multiply),
    ("MAXIMUM", X, 1, np.maximum),
    ("STABLEHLO_MINIMUM", WHOLE, -50, np.minimum),
    ("LOGICAL_OR", X > 3, False, np.logical_or),
    ("STABLEHLO_AND", X > -3, True, np.logical_and),
    ("STABLEHLO_MAXIMUM", X > 3, False, np.logical_or),
]


@pytest.mark.parametrize(("body", "x", "start", "function"), BODIES)
def test_reduce(body: str, x: Array, start: Any, function: Any, backend: str) -> None:
    for axes in ((0,), tuple(range(x.ndim)), ()):
        expected = function(function.reduce(x, axis=axes) if axes else x, np.array(start, x.dtype))
        options = {"dimensions": np.array(axes, np.int64)}
        file = reducing("REDUCE", body, x, start, options, type_of(np.asarray(expected)))
        with load(file).compile(backend=backend) as compiled:
            np.testing.assert_allclose(compiled(x), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("body", "x", "start", "function"), BODIES[:-1])
def test_reduce_window(body: str, x: Array, start: Any, function: Any, backend: str) -> None:
    rank = x.ndim
    ways = {
        "window_dimensions": longs(2, 3, 1)[:rank],
        "window_strides": longs(1, 2, 3)[:rank],
        "base_dilations": longs(2, 1, 2)[:rank],
        "window_dilations": longs(1, 2, 1)[:rank],
        "padding": longs(1, 0, 2, 3, -1, 1)[: 2 * rank],
    }
    draft = reducing("REDUCE_WINDOW", body, x, start, ways, TensorType(DType.of(x.dtype), (1,) * rank))
    expected = litert_run(draft, [x])[0]
    with load(reducing("REDUCE_WINDOW", body, x, start, ways, type_of(expected))).compile(
        backend=backend
    ) as compiled:
        np.testing.assert_allclose(compiled(x), expected, rtol=2e-5, atol=2e-5)


def logical_windows(operator: str, body: str, start: int, x: TensorType, y: TensorType) -> bytes:
    """Return a file that reduces x by AND or OR over windows of one element; STABLEHLO: with room."""
    main, inner = Graph(), Graph()
    one = x.with_shape(())
    given = [main.input(x), main.tensor(one, data=np.array(start, x.dtype.numpy).tobytes())]
    if operator == "REDUCE_WINDOW":
        extents = [main.constant(longs(*v)) for v in ((1, 1), (1, 1), (2, 1))]
        number = {"LOGICAL_AND": 5, "LOGICAL_OR": 6}[body]
        return main.build(main.add(operator, [*given, *extents], [y], {"reduce_function": number}))
    done = inner.add(body, [inner.input(one), inner.input(one)], [one])
    options = {
        "window_dimensions": longs(1, 1),
        "window_strides": longs(1, 1),
        "base_dilations": longs(2, 1),
        "window_dilations": longs(1, 3),
        "padding": longs(0, 0, -1, 2),
        "body_subgraph_index": 1,
    }
    return main.build(main.add(operator, given, [y], options), called=[(inner, [*done])])


QUARTERS = Quantization((0.25,), (3,))


@pytest.mark.parametrize(("body", "start"), [("LOGICAL_AND", 1), ("LOGICAL_OR", 0)])
@pytest.mark.parametrize(
    ("dtype", "quantization"), [(DType.INT8, QUARTERS), (DType.INT32, None), (DType.FLOAT32, None)]
)
def test_windows_of_one_number(
    dtype: DType, quantization: Quantization | None, body: str, start: int, backend: str
) -> None:
    """They stay as they are, and room has the initial value; LiteRT makes 0 and 1 of them."""
    x, warning = TensorType(dtype, (2, 3), quantization), "LiteRT makes them 0 or 1"
    numbers = np.array([[-7, 0, 5], [1, 2, 100]], dtype.numpy)
    s = start
    spread = np.array([[0, 5, s, s], [s, s, s, s], [2, 100, s, s]], dtype.numpy)
    files = [logical_windows("STABLEHLO_REDUCE_WINDOW", body, start, x, x.with_shape((3, 4)))]
    if quantization is not None:  # numbers without a scale are 0 or 1 there, as in LiteRT
        files.append(logical_windows("REDUCE_WINDOW", body, start, x, x))
    for file, expected in zip(files, (spread, numbers), strict=False):
        model = load(file)
        assert [warning in w for w in model.warnings] == [True]
        with model.compile(backend=backend) as compiled:
            y = compiled(numbers)
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(litert_run(file, [numbers])[0], expected != 0)


@pytest.mark.parametrize(("body", "start"), [("LOGICAL_AND", 0), ("LOGICAL_AND", 3), ("LOGICAL_OR", 1)])
def test_windows_of_one_number_are_refused_if_the_start_changes_it(body: str, start: int) -> None:
    x = TensorType(DType.INT8, (2, 3), QUARTERS)
    with pytest.raises(ModelError, match=r"REDUCE_WINDOW.*must be bool, got quantised int8"):
        load(logical_windows("REDUCE_WINDOW", body, start, x, x))


def test_a_body_that_only_a_run_reads_warns_then(backend: str) -> None:
    """The extents of what is reduced are computed, so the operator and its body wait for them."""
    main, inner = Graph(), Graph()
    scalar = float32()
    a, b = inner.input(scalar), inner.input(scalar)
    wrong = TensorType(DType.INT32, (2,), Quantization((0.5, 0.25), (0, 0), 1))
    inner.tensor(wrong, data=bytes(8))
    (done,) = inner.add("ADD", [b, a], [scalar])
    x, shape = main.input(float32(6)), main.input(TensorType(DType.INT32, (2,)))
    (matrix,) = main.add("RESHAPE", [x, shape], [float32(2, 3)], signatures=[(-1, -1)])
    options = {"dimensions": np.array([1], np.int64), "body_subgraph_index": 1}
    start = main.constant(np.float32(0))
    y = main.add("STABLEHLO_REDUCE", [matrix, start], [float32(2)], options, signatures=[(-1,)])
    model = load(main.build(y, called=[(inner, [done])]))
    assert model.warnings == ()
    values, extents = np.arange(6, dtype=np.float32), np.array([3, 2], np.int32)
    with model.compile(backend=backend) as compiled:
        with pytest.warns(UserWarning, match=r"model: subgraph 1, tensor 2 \(t2\) has 2 scales along"):
            assert compiled(values, extents).tolist() == [1, 5, 9]
        assert compiled(values, extents[::-1].copy()).tolist() == [3, 12]


# Indices; update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims; index_vector_dim; shape of
# updates.
SCATTERS: list[tuple[Any, Sequence[int], Sequence[int], Sequence[int], int, Sequence[int]]] = [
    ([[2], [0], [2]], (1, 2), (0,), (0,), 1, (3, 4, 5)),
    ([[0, 1], [2, 3], [0, 1]], (1,), (0, 1), (0, 1), 1, (3, 5)),
    ([[0, 1, 1], [2, 0, 3]], (0,), (0, 2), (0, 2), 0, (4, 3)),
    ([[[1, 1]], [[2, 0]]], (2, 3, 4), (), (2, 0), 2, (2, 1, 2, 4, 3)),
]


def scattering(body: str, x: Array, case: Any, dtype: Any) -> tuple[bytes, list[Array]]:
    """Return a file that scatters into x, and samples of its inputs."""
    indices, window, inserted, named, vector, shape = case
    updates = np.round(random(7, *shape) * 3).astype(x.dtype)
    inner, main = Graph(), Graph()
    scalar = type_of(np.zeros((), x.dtype))
    pair = [inner.input(scalar), inner.input(scalar)]
    done = [*inner.add(body, pair, [scalar])] if body else pair[1:]
    samples = [x, np.array(indices, dtype), updates]
    options = {
        "update_window_dims": longs(*window),
        "inserted_window_dims": longs(*inserted),
        "scatter_dims_to_operand_dims": longs(*named),
        "index_vector_dim": vector,
        "update_computation_subgraph_index": 1,
    }
    found = main.add("STABLEHLO_SCATTER", [main.input(type_of(v)) for v in samples], [type_of(x)], options)
    return main.build(found, called=[(inner, done)]), samples


@pytest.mark.parametrize("case", SCATTERS)
@pytest.mark.parametrize(
    "body", ["", *(f"STABLEHLO_{name}" for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"))]
)
def test_scatter(body: str, case: Any, backend: str) -> None:
    """Some indices repeat; all numbers are whole, so that sums in another order are equal."""
    x = np.round(random(1, 3, 4, 5) * 3)
    for dtype in (np.int32, np.int64):
        file, samples = scattering(body, x, case, dtype)
        with load(file).compile(backend=backend) as compiled:
            found = compiled(*samples)
            assert all(p.backend in (backend, "alias") for p in compiled.placement)
        np.testing.assert_array_equal(found, litert_run(file, samples)[0])


def test_updates_out_of_range_are_dropped(backend: str) -> None:
    """Windows partly out of range write the elements inside: worked out by hand for -1, 0, 1 and 8, 9."""
    x = np.zeros((1, 10), np.float32)
    case = ([[-1], [8]], (1,), (0,), (1,), 1, (2, 3))
    file, samples = scattering("ADD", x, case, np.int32)
    (below, first, second), (eighth, ninth, beyond) = samples[2]
    with load(file).compile(backend=backend) as compiled:
        assert compiled(*samples).tolist() == [[first, second, *[0] * 6, eighth, ninth]]
    assert below != 0 and beyond != 0


@pytest.mark.parametrize(
    ("body", "fused", "reason"),
    [
        ("SUB", {}, "SUB of subgraph 1 is nothing that reduces"),
        ("ADD", {"fused_activation_function": "RELU"}, "ADD of subgraph 1 is nothing that reduces"),
    ],
)
def test_bodies_that_do_not_reduce_are_refused(body: str, fused: Mapping[str, Any], reason: str) -> None:
    file = reducing("REDUCE", body, ROW, 0, {"dimensions": longs(0)}, float32(3), **fused)
    with pytest.raises(UnsupportedError, match=reason):
        load(file)


@pytest.mark.parametrize(
    ("ways", "reason"),
    [
        ({"window_dimensions": longs(1)}, "has windows of .1. for float32.2, 3."),
        ({"window_dimensions": longs(1, 0)}, "go below 1"),
        ({"window_dimensions": longs(1, 1), "padding": longs(1, 1)}, "pads 2 dimensions by .1, 1."),
        ({"window_dimensions": longs(1, 1), "window_strides": longs(0, 1)}, "go below 1"),
    ],
)
def test_wrong_windows_are_refused(ways: Mapping[str, Any], reason: str) -> None:
    with pytest.raises((FormatError, ModelError), match=f"STABLEHLO_REDUCE_WINDOW.*{reason}"):
        load(reducing("REDUCE_WINDOW", "ADD", ROW, 0, ways, float32(2, 3)))


def test_windows_of_many_elements_run_on_the_device(backend: str) -> None:
    """2,101 windows of 2,100 whole numbers each, whose sums are exact."""
    row = np.random.default_rng(0).integers(-9, 10, (1, 4200)).astype(np.float32)
    file = reducing("REDUCE_WINDOW", "ADD", row, 0, {"window_dimensions": longs(1, 2100)}, float32(1, 2101))
    with load(file).compile(backend=backend) as compiled:
        assert {p.backend for p in compiled.placement} <= {backend, "alias"}
        expected = np.convolve(row[0], np.ones(2100, np.float32), "valid")
        np.testing.assert_array_equal(compiled(row), expected[None])


def test_windows_that_never_fit_are_not_counted_cell_by_cell(backend: str) -> None:
    file = reducing("REDUCE_WINDOW", "ADD", ROW, 0, {"window_dimensions": longs(1, 1 << 40)}, float32(2, 0))
    with load(file).compile(backend=backend) as compiled:
        assert compiled(ROW).shape == (2, 0)


def test_steps_may_be_huge(backend: str) -> None:
    """Only the first window and its first cell are inside."""
    far = 1 << 56
    ways = {
        "window_dimensions": longs(2, 1),
        "window_strides": longs(far, far),
        "window_dilations": longs(1, far),
    }
    with load(reducing("REDUCE_WINDOW", "ADD", ROW, 0, ways, float32(1, 1))).compile(
        backend=backend
    ) as compiled:
        assert compiled(ROW).tolist() == [[2]]
    around = {"window_dimensions": longs(2, 2), "padding": longs(0, 0, 1 << 60, 0)}
    with pytest.raises(ModelError, match="can be addressed"):
        load(
            reducing(
                "REDUCE_WINDOW", "ADD", ROW, 0, {**around, "window_strides": longs(1, far)}, float32(1, 17)
            )
        )


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (([[0]], (0,), (0,), (0,), 3, (3,)), "no vectors of 1 indices along dimension 3"),
        (([[0]], (0,), (0,), (0,), 1, (3,)), "do not go into float32.2, 3. from"),
        (([[0]], (1,), (0,), (0,), 1, (1, 4)), "do not go into float32.2, 3. from"),
        (([[0]], (1, 1), (), (0,), 1, (1, 3)), "along .0. by windows .1, 1."),
        (([[0]], (1,), (0,), (2,), 1, (1, 3)), "along .2. by windows .1."),
        (([[0]], (-1,), (0,), (0,), 1, (1, 3)), "along .0. by windows .-1."),
    ],
)
def test_wrong_scatters_are_refused(case: Any, reason: str) -> None:
    with pytest.raises((FormatError, ModelError), match=f"STABLEHLO_SCATTER.*{reason}"):
        load(scattering("", ROW, case, np.int32)[0])


def test_scatters_with_logical_bodies_are_refused() -> None:
    case = ([[0]], (1,), (0,), (0,), 1, (1, 3))
    with pytest.raises(UnsupportedError, match="updates are joined by logical_and, only add"):
        load(scattering("STABLEHLO_AND", ROW > 0, case, np.int32)[0])


def test_8_bit_indices_are_refused() -> None:
    """LiteRT refuses them too; they may be too small for the number of elements."""
    with pytest.raises(UnsupportedError, match=r"its indices are uint8.2, 1., only int32 and int64"):
        load(scattering("", ROW, ([[0], [1]], (1,), (0,), (0,), 1, (2, 3)), np.uint8)[0])


@pytest.mark.parametrize("shape", [(1 << 22, 2), (0, 1 << 15, 1 << 15)])
def test_large_scatters_run_on_the_host(shape: tuple[int, ...]) -> None:
    """A small file may state inputs of any size; gpunn makes no index for each element."""
    huge = float32(*shape)
    inner, main = Graph(), Graph()
    pair = [inner.input(float32()), inner.input(float32())]
    options = {
        "update_window_dims": longs(*range(len(shape))),
        "scatter_dims_to_operand_dims": longs(0),
    }
    inputs = [main.input(huge), main.input(TensorType(DType.INT32, (1,))), main.input(huge)]
    found = main.add("STABLEHLO_SCATTER", inputs, [huge], {**options, "update_computation_subgraph_index": 1})
    (operation,) = optimise(load(main.build(found, called=[(inner, pair[1:])]))).operations
    assert operation.op == ("scatter_slices" if shape[0] else "reshape"), "an empty scatter copies"
