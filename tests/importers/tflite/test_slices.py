"""Computed starts of slices and computed axes, against LiteRT: one program for all values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.compilation import assembly
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.test_subgraphs import Sub, build
from tests.ops.harness import random, type_of
from tests.tflite_builder import Graph, litert_run

X = random(1, 30, 4, 6)
NUMBER = TensorType(DType.INT32, ())


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def sliced(
    operator: str, begin: Array, others: Sequence[Array], shape: Sequence[int], **options: Any
) -> bytes:
    """Return a file with a slice of the first input that begins at the second."""
    graph = Graph()
    x, first = graph.input(type_of(X)), graph.input(type_of(begin))
    numbers = [graph.constant(value) for value in others]
    return graph.build(graph.add(operator, [x, first, *numbers], [float32(*shape)], options))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the models that are planned, also of bodies."""
    names: list[str] = []

    def make_plan(model: Any, *args: Any) -> Any:
        names.append(model.name)
        return original(model, *args)

    original = assembly.make_plan
    monkeypatch.setattr(assembly, "make_plan", make_plan)
    return names


def check(data: bytes, begins: Sequence[Array], backend: str, planned: list[str]) -> None:
    """Assert that all begins share one program and give LiteRT's results."""
    model = gpunn.load(data)
    with model.compile(backend) as compiled:
        assert all(p.backend in (backend, "alias") for p in compiled.placement)
        made = compiled.stats.pipelines, compiled.stats.buffers, compiled.stats.bind_groups
        for begin in begins:
            found = compiled(X, begin)
            np.testing.assert_array_equal(found, litert_run(data, [X, begin])[0])
        after = compiled.stats
        assert (after.programs, len(planned)) == (1, 1)
        assert (after.pipelines, after.buffers, after.bind_groups) == made


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_slice(backend: str, planned: list[str], dtype: Any) -> None:
    begin = np.zeros(3, dtype)
    data = sliced("SLICE", begin, [np.array([4, 2, 6], dtype)], (4, 2, 6))
    check(data, [np.array([k, k % 3, 0], dtype) for k in range(20)], backend, planned)


STRIDED: list[tuple[Sequence[int], Sequence[int], Sequence[int], Mapping[str, int]]] = [
    # Ends, strides, shape; x[:, :, i], x[i], x[i, ..., j], x[:, new, i], x[i, ::2, j]
    ((0, 0, 9), (1, 1, 1), (30, 4), {"begin_mask": 3, "end_mask": 3, "shrink_axis_mask": 4}),
    ((9,), (1,), (4, 6), {"shrink_axis_mask": 1}),
    ((9, 0, 9), (1, 1, 1), (4,), {"ellipsis_mask": 2, "shrink_axis_mask": 5}),
    (
        (0, 0, 9),
        (1, 1, 1),
        (30, 1, 6),
        {"begin_mask": 1, "end_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4},
    ),
    ((9, 0, 9), (1, 2, 1), (2,), {"begin_mask": 2, "end_mask": 2, "shrink_axis_mask": 5}),
    ((9, 3, 9), (1, 1, 1), (3,), {"begin_mask": 2, "shrink_axis_mask": 5}),
]


@pytest.mark.parametrize(("end", "strides", "shape", "masks"), STRIDED)
def test_strided_slice_of_one_element_along_axes(
    backend: str,
    planned: list[str],
    end: Sequence[int],
    strides: Sequence[int],
    shape: Sequence[int],
    masks: Mapping[str, int],
) -> None:
    data = sliced("STRIDED_SLICE", ints(*end), [ints(*end), ints(*strides)], shape, **masks)
    begins = [ints(*((k + d) % 8 - 4 for d in range(len(end)))) for k in range(20)]
    check(data, begins, backend, planned)


def test_strided_slice_to_a_computed_end(backend: str, planned: list[str]) -> None:
    """x[i, :, :] is written with a begin of [i, 0, 0] and an end of [i + 1, 0, 0]."""
    graph = Graph()
    x, begin, end = (graph.input(t) for t in (type_of(X), *[TensorType(DType.INT32, (3,))] * 2))
    strides = graph.constant(ints(1, 1, 1))
    options = {"begin_mask": 6, "end_mask": 6, "shrink_axis_mask": 1}
    data = graph.build(graph.add("STRIDED_SLICE", [x, begin, end, strides], [float32(4, 6)], options))
    with gpunn.load(data).compile(backend) as compiled:
        for k in range(20):
            inputs = [X, ints(k, 0, 0), ints(k + 1, 0, 0)]
            np.testing.assert_array_equal(compiled(*inputs), litert_run(data, inputs)[0])
        assert compiled.stats.programs == len(planned) == 1


def test_ranges_by_a_stride(backend: str, planned: list[str]) -> None:
    """x[a:a + 7:3, b:b + 2]: the begins change only the place."""
    graph = Graph()
    numbers = ints(0, 0)
    x, begin, end = (graph.input(type_of(v)) for v in (X, numbers, numbers))
    strides = graph.constant(ints(3, 1))
    (y,) = graph.add("STRIDED_SLICE", [x, begin, end, strides], [float32(3, 2, 6)], signatures=[(-1, -1, 6)])
    data = graph.build([y])
    with gpunn.load(data).compile(backend) as compiled:
        for k in range(20):
            first = ints(k, k % 3)
            inputs = [X, first, first + ints(7, 2)]
            np.testing.assert_array_equal(compiled(*inputs), X[k : k + 7 : 3, k % 3 : k % 3 + 2])
            if k % 7 == 0:
                np.testing.assert_array_equal(compiled(*inputs), litert_run(data, inputs)[0])
        assert compiled.stats.programs == len(planned) == 2, "one program computes the shape, one the slice"
        for k in range(-28, -8, 3):
            inputs = [X, ints(k, -3), ints(k + 7, -1)]
            np.testing.assert_array_equal(compiled(*inputs), X[k : k + 7 : 3, 1:3])
        assert compiled.stats.programs == 2


def axes(operator: str, count: Sequence[int], **options: Any) -> bytes:
    """Return a file with an operator along axes that are an input."""
    graph = Graph()
    x, axis = graph.input(type_of(X)), graph.input(TensorType(DType.INT32, tuple(count)))
    return graph.build(graph.add(operator, [x, axis], [type_of(X)], options))


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_along_any_axis(backend: str, planned: list[str], reverse: bool) -> None:
    data = axes("CUMSUM", (), exclusive=not reverse, reverse=reverse)
    with gpunn.load(data).compile(backend) as compiled:
        assert all(p.backend == backend for p in compiled.placement)
        for axis in range(-3, 3):
            inputs = [X, np.array(axis, np.int32)]
            np.testing.assert_allclose(compiled(*inputs), litert_run(data, inputs)[0], rtol=1e-5, atol=1e-5)
        assert compiled.stats.programs == len(planned) == 1


def test_reversed_along_any_axis(backend: str, planned: list[str]) -> None:
    check(axes("REVERSE_V2", (1,)), [ints(axis) for axis in range(-3, 3)], backend, planned)


def test_stablehlo_dynamic_slice(backend: str, planned: list[str]) -> None:
    """LiteRT has no kernel for it. StableHLO's specification moves the slice until it fits."""
    graph = Graph()
    x, first = graph.input(type_of(X)), graph.input(NUMBER)
    starts = [first, graph.constant(np.int32(1)), graph.input(NUMBER)]
    sizes = {"slice_sizes": np.array([4, 2, 5])}
    data = graph.build(graph.add("STABLEHLO_DYNAMIC_SLICE", [x, *starts], [float32(4, 2, 5)], sizes))
    with gpunn.load(data).compile(backend) as compiled:
        assert all(p.backend in (backend, "alias") for p in compiled.placement)
        for k in range(-5, 35, 2):
            a, b = min(max(k, 0), 26), min(max(k - 10, 0), 1)
            found = compiled(X, np.int32(k), np.int32(k - 10))
            np.testing.assert_array_equal(found, X[a : a + 4, 1:3, b : b + 5])
        assert compiled.stats.programs == len(planned) == 1


@pytest.mark.parametrize("begin", [(27, 0, 0), (-1, 0, 0), (0, 3, 0)])
def test_a_slice_that_does_not_fit_is_refused(backend: str, begin: Sequence[int]) -> None:
    data = sliced("SLICE", ints(0, 0, 0), [ints(4, 2, 6)], (4, 2, 6))
    with gpunn.load(data).compile(backend) as compiled:
        with pytest.raises(gpunn.ModelError, match=r"dynamic_slice: starts must be in 0 \.\.\. \d+, got"):
            compiled(X, ints(*begin))
        assert compiled(X, ints(26, 2, 0)).shape == (4, 2, 6)


@pytest.mark.parametrize("begin", [30, -31])
def test_an_element_outside_is_refused(backend: str, begin: int) -> None:
    data = sliced("STRIDED_SLICE", ints(0), [ints(1), ints(1)], (4, 6), shrink_axis_mask=1)
    with (
        gpunn.load(data).compile(backend) as compiled,
        pytest.raises(gpunn.ModelError, match=rf"starts must be in -30 \.\.\. 29, got {begin}"),
    ):
        compiled(X, ints(begin))


def condition(rounds: int) -> Sub:
    """i < rounds."""
    graph = Graph()
    i, _, _ = graph.input(NUMBER), graph.input(float32(4, 6)), graph.input(type_of(X))
    return graph, list(graph.add("LESS", [i, graph.constant(np.int32(rounds))], [TensorType(DType.BOOL, ())]))


def summing(operator: str) -> Sub:
    """(i + 1, total + x[i], x)."""
    graph = Graph()
    i, total, x = graph.input(NUMBER), graph.input(float32(4, 6)), graph.input(type_of(X))
    one, zero = graph.constant(np.int32(1)), graph.constant(np.int32(0))
    packed = {"values_count": 3, "axis": 0}
    (begin,) = graph.add("PACK", [i, zero, zero], [TensorType(DType.INT32, (3,))], packed)
    (following,) = graph.add("ADD", [i, one], [NUMBER])
    if operator == "SLICE":
        size = graph.constant(ints(1, 4, 6))
        (taken,) = graph.add("SLICE", [x, begin, size], [float32(1, 4, 6)])
        (taken,) = graph.add("RESHAPE", [taken, graph.constant(ints(4, 6))], [float32(4, 6)])
    else:
        (end,) = graph.add("PACK", [following, zero, zero], [TensorType(DType.INT32, (3,))], packed)
        strides = graph.constant(ints(1, 1, 1))
        options = {"begin_mask": 6, "end_mask": 6, "shrink_axis_mask": 1}
        (taken,) = graph.add("STRIDED_SLICE", [x, begin, end, strides], [float32(4, 6)], options)
    (total,) = graph.add("ADD", [total, taken], [float32(4, 6)])
    return graph, [following, total, x]


@pytest.mark.parametrize("operator", ["SLICE", "STRIDED_SLICE"])
def test_a_loop_that_slices_by_its_counter_compiles_nothing_after_its_first_round(
    backend: str, planned: list[str], operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_HOST_FLOPS", -1)  # otherwise the host computes such little rounds
    main = Graph()
    state = [main.input(NUMBER), main.input(float32(4, 6)), main.input(type_of(X))]
    types = [NUMBER, float32(4, 6), type_of(X)]
    last = main.add("WHILE", state, types, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    data = build((main, list(last)), condition(20), summing(operator))
    with gpunn.load(data).compile(backend) as compiled:
        plans = len(planned)
        assert plans == (2 if backend == "cpu" else 3), "model and rounds; on webgpu condition and body apart"
        compiled(np.int32(19), np.zeros((4, 6), np.float32), X)
        before = compiled.stats
        made = before.pipelines, before.bind_groups  # the second round creates the buffers of the state
        inputs = [np.int32(0), np.zeros((4, 6), np.float32), X]
        found = compiled(*inputs)
        after = compiled.stats
        assert (len(planned), after.programs) == (plans, 1)
        assert (after.pipelines, after.bind_groups) == made
    for result, wanted in zip(found, litert_run(data, inputs), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_one_program_for_all_ranges_of_a_size(backend: str) -> None:
    """x[a:b, 1, c:]: a, b and c decide on the shape. LiteRT's interface cannot return empty tensors."""
    graph = Graph()
    x, begin, end = (
        graph.input(type_of(X)),
        graph.input(type_of(ints(0, 0, 0))),
        graph.input(type_of(ints(0, 0, 0))),
    )
    masks = {"shrink_axis_mask": 2, "end_mask": 4}
    strides = graph.constant(ints(1, 1, 1))
    (y,) = graph.add("STRIDED_SLICE", [x, begin, end, strides], [float32(1, 1)], masks, signatures=[(-1, -1)])
    data = graph.build([y])
    model = gpunn.load(data)
    assert model.pending[0].asks == tuple(model.inputs[1:]), "all of them are read back together"
    with model.compile(backend) as compiled:

        def run(a: int, b: int, c: int) -> None:
            found = compiled(X, ints(a, 1, c), ints(b, 0, 0))
            np.testing.assert_array_equal(found, X[a:b, 1, c:])

        inputs = [X, ints(2, 1, 2), ints(7, 0, 0)]
        np.testing.assert_array_equal(compiled(*inputs), litert_run(data, inputs)[0])
        for a in range(20):
            run(a, a + 5, 2)
        assert compiled.stats.programs == 2
        run(20, 24, 3)
        run(7, 11, 3)
        assert compiled.stats.programs == 3
        for a, b, c in ((-9, -4, 2), (27, 40, 2), (3, 3, 2), (5, 2, -1), (2, -3, 0)):
            run(a, b, c)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_one_program_for_all_ranges_that_go_backwards(backend: str, dtype: Any) -> None:
    """x[a:a - 8:-3, 2:0:-1, 1:] has one shape for all these numbers."""
    graph = Graph()
    numbers = type_of(np.zeros(3, dtype))
    x, begin, end = graph.input(type_of(X)), graph.input(numbers), graph.input(numbers)
    strides = graph.constant(np.array([-3, -1, 1], dtype))
    (y,) = graph.add(
        "STRIDED_SLICE",
        [x, begin, end, strides],
        [float32(3, 2, 5)],
        {"end_mask": 4},
        signatures=[(-1, -1, -1)],
    )
    data = graph.build([y])
    with gpunn.load(data).compile(backend) as compiled:
        for a in (*range(8, 25), -1, -5, -22):
            inputs = [X, np.array([a, 2, 1], dtype), np.array([a - 8, 0, 0], dtype)]
            np.testing.assert_array_equal(compiled(*inputs), X[a : a - 8 : -3, 2:0:-1, 1:])
            if a in (8, -5) and dtype is np.int32:
                np.testing.assert_array_equal(compiled(*inputs), litert_run(data, inputs)[0])
        assert compiled.stats.programs == 2, "one computes the shape, one the slice"


def test_a_loop_that_takes_ranges_compiles_nothing_after_its_first_round(
    backend: str, planned: list[str]
) -> None:
    """The loop computes the sum of x[2 i:2 i + 2] over i."""
    rows = float32(2, 4, 6)
    condition, body, main = Graph(), Graph(), Graph()
    for graph in (condition, body):
        _, _, count, limit = [graph.input(t) for t in (type_of(X), rows, NUMBER, NUMBER)]
    (goes_on,) = condition.add("LESS", [count, limit], [TensorType(DType.BOOL, ())])
    x, total, count, limit = body.inputs
    two, one = body.constant(ints(2)), body.constant(np.array(1, np.int32))
    (begin,) = body.add("MUL", [count, two], [type_of(ints(0))])
    (end,) = body.add("ADD", [begin, two], [type_of(ints(0))])
    (part,) = body.add("STRIDED_SLICE", [x, begin, end, body.constant(ints(1))], [rows])
    (sums,) = body.add("ADD", [total, part], [rows])
    (more,) = body.add("ADD", [count, one], [NUMBER])
    given, last = main.input(type_of(X)), main.input(NUMBER)
    start = [
        given,
        main.constant(np.zeros((2, 4, 6), np.float32)),
        main.constant(np.array(0, np.int32)),
        last,
    ]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    results = main.add("WHILE", start, [type_of(X), rows, NUMBER, NUMBER], options)
    file = build((main, [results[1]]), (condition, [goes_on]), (body, [x, sums, more, limit]))
    with gpunn.load(file).compile(backend) as compiled:
        compiled(X, np.array(1, np.int32))
        before = len(planned)
        for rounds in (2, 15, 0):
            inputs = [X, np.array(rounds, np.int32)]
            np.testing.assert_allclose(compiled(*inputs), litert_run(file, inputs)[0], rtol=1e-5, atol=1e-6)
        assert len(planned) == before
