"""Variables in models whose shapes depend on values, against LiteRT over several runs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gpunn
from gpunn.custom import CustomOperator, like, op
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.test_control import BOOL, COUNT
from tests.importers.tflite.test_control_computed import OPEN, ROW, chosen, counting
from tests.importers.tflite.test_resources import ONE, assign, first, once, one, plus, read, variable
from tests.importers.tflite.test_subgraphs import build
from tests.ops.harness import random
from tests.tflite_builder import Graph, litert_runs

DEPTH, UNITS = 3, 4
STATE = float32(1, UNITS)


def rnn(graph: Graph, x: int, seed: int) -> int:
    """Add an RNN with its own state."""
    shapes = ((UNITS, graph.tensors[x].type.shape[-1]), (UNITS, UNITS), (UNITS,))
    weights = [graph.constant(random(seed + k, *s, low=-0.6, high=0.6)) for k, s in enumerate(shapes)]
    state = graph.tensor(STATE, f"state {seed}", is_variable=True)
    return graph.add("RNN", [x, *weights, state], [STATE])[0]


def model_file() -> bytes:
    """Return a file of an RNN, its results above 0, and a second RNN of the first plus their sum."""
    graph = Graph()
    first = rnn(graph, graph.input(float32(1, DEPTH), "x"), 10)
    found = chosen(graph, first, STATE)
    axes = graph.constant(np.array([0], np.int32))
    (total,) = graph.add("SUM", [found, axes], [float32()])
    (more,) = graph.add("ADD", [first, total], [STATE])
    return graph.build([found, rnn(graph, more, 20)])


FRAMES: list[Array] = [random(seed, 1, DEPTH) for seed in range(6)]


def expected(*frames: Array | None) -> list[list[Array]]:
    """Return LiteRT's results; None stands for a reset."""
    return litert_runs(model_file(), [None if x is None else [x] for x in frames])


def agree(found: object, wanted: list[Array]) -> None:
    assert isinstance(found, tuple)
    for y, expected in zip(found, wanted, strict=True):
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)  # as in test_state


@pytest.mark.parametrize("preference", [*gpunn.Preference])
def test_state_is_kept_from_run_to_run_until_a_reset(backend: str, preference: gpunn.Preference) -> None:
    wanted = expected(*FRAMES, None, *FRAMES, None, *FRAMES[:1])
    sizes = {y[0].size for y in wanted}
    assert len(sizes) > 1
    with gpunn.load(model_file()).compile(backend, preference=preference) as compiled:
        for x, y in zip(FRAMES, wanted, strict=False):
            agree(compiled(x), y)
        compiled.reset_state()
        events = [compiled.submit(x) for x in FRAMES[:3]]
        for x, y in zip(FRAMES[3:], wanted[9:], strict=False):
            agree(compiled(x), y)  # after the runs that were submitted before
        for event, y in zip(events, wanted[6:], strict=False):
            agree(event.result(), y)
        compiled.reset_state()
        agree(compiled(FRAMES[0]), wanted[-1])
        assert compiled.stats.runs == 2 * len(FRAMES) + 1


def test_a_stream_sees_the_state_in_order(backend: str) -> None:
    with gpunn.load(model_file()).compile(backend) as compiled:
        for found, wanted in zip(compiled.stream(FRAMES), expected(*FRAMES), strict=True):
            agree(found, wanted)


def counted() -> bytes:
    """Return a file: x goes through "Wait"; results are its elements above 0 and the number of runs."""
    graph = Graph()
    once(graph)
    x = graph.input(ROW, "x", OPEN)
    (y,) = graph.add("Wait", [x], [ROW], signatures=[OPEN])
    zero = graph.constant(np.float32(0))
    (large,) = graph.add("GREATER", [y, zero], [TensorType(DType.BOOL, ROW.shape)], signatures=[OPEN])
    (places,) = graph.add("WHERE", [large], [TensorType(DType.INT64, (1, 2))], signatures=[(-1, 2)])
    (found,) = graph.add("GATHER_ND", [y, places], [float32(1)], signatures=[(-1,)])
    count = variable(graph)
    assign(graph, count, plus(graph, read(graph, count), graph.constant(one(1))))
    return graph.build([found, read(graph, count)], called=[first(0)])


def test_a_run_of_other_shapes_does_not_disturb_earlier_ones(backend: str) -> None:
    """A run of other shapes resets the state when it begins, not when it is submitted."""
    gate = threading.Event()

    @op(like)
    def wait(x: Array) -> Array:
        assert gate.wait(10)
        return x

    short, long = np.ones((1, 2), np.float32), np.ones((1, 5), np.float32)
    model = gpunn.load(counted(), custom={"Wait": CustomOperator(wait)})
    with model.compile(backend, "sustained-speed") as compiled:
        gate.set()
        assert compiled(short)[1] == 1
        gate.clear()
        opened = threading.Timer(0.2, gate.set)
        opened.start()  # until then three runs are under way, and the next submit() waits
        events = [compiled.submit(x) for x in (short, short, long, long, short)]
        opened.join()
        assert compiled.trace(short).outputs[1] == 2  # trace waits for the runs before it, too
        assert [event.result()[1] for event in events] == [2, 3, 1, 2, 1]
        compiled.submit(long)
        compiled.reset_state()
        assert compiled(long)[1] == 1
    with pytest.raises(gpunn.DeviceError, match="has been closed"):
        compiled.reset_state()


def test_a_failed_run_keeps_the_state(backend: str) -> None:
    graph = Graph()
    x = graph.input(float32(1, DEPTH), "x")
    shape = graph.input(TensorType(DType.INT32, (1,)), "shape")
    (y,) = graph.add("RESHAPE", [rnn(graph, x, 10), shape], [float32(1)], signatures=[(-1,)])
    data = graph.build([y])
    good, bad = np.array([UNITS], np.int32), np.array([UNITS + 1], np.int32)
    wanted = litert_runs(data, [[x, good] for x in FRAMES[:2]])
    with gpunn.load(data).compile(backend) as compiled:
        np.testing.assert_allclose(compiled(FRAMES[0], good), wanted[0][0], rtol=0, atol=1e-5)
        with pytest.raises(gpunn.ModelError, match="cannot take shape"):
            compiled(FRAMES[1], bad)
        np.testing.assert_allclose(compiled(FRAMES[1], good), wanted[1][0], rtol=0, atol=1e-5)


def test_the_state_stays_on_the_gpu(gpu: str) -> None:
    """Only x, operands and results of WHERE, and the results of the model are copied."""
    with gpunn.load(model_file()).compile(gpu) as compiled:
        compiled(FRAMES[0])
        for x in FRAMES:
            before = compiled.stats
            found, y = compiled(x)
            after = compiled.stats
            places = 8 * 2 * found.size
            note = 2 * 8  # a note about a place that GATHER_ND refuses
            assert after.bytes_uploaded - before.bytes_uploaded == x.nbytes + places
            assert after.bytes_read_back - before.bytes_read_back == UNITS + note + found.nbytes + y.nbytes


def test_comparisons_start_from_the_initial_state(gpu: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")
    found = gpunn.compare(model_file(), FRAMES[:2], [gpu, "cpu", "litert"], per_layer=True)
    assert found.ok, found.findings
    assert [layer.op for layer in found.layers].count("rnn") == 4  # results and states
    rows = gpunn.profile(gpunn.load(model_file()), FRAMES[:1], backend=gpu, runs=2).rows
    assert [row.op for row in rows].count("rnn") == 2


def named() -> bytes:
    """Return a file: variable a grows by x before a stop and is read after it; b exists only after it."""
    graph = Graph()
    once(graph, 1)
    once(graph, 2)
    x, times = graph.input(ONE, "x"), graph.input(TensorType(DType.INT32, (1,)), "times")
    a, b = variable(graph, b"a"), variable(graph, b"b")
    assign(graph, a, plus(graph, read(graph, a), x))
    (tiled,) = graph.add("TILE", [x, times], [float32(1)], signatures=[(-1,)])
    (total,) = graph.add("SUM", [tiled, graph.constant(np.array([0], np.int32))], [ONE], {"keep_dims": True})
    assign(graph, b, plus(graph, read(graph, b), total))
    return graph.build([tiled, read(graph, a), read(graph, b)], called=[first(1, b"a"), first(2, b"b")])


def test_named_variables(backend: str) -> None:
    frames = [[one(x), np.array([n], np.int32)] for x, n in ((1, 3), (2, 1), (3, 3), (-1, 2))]
    with gpunn.load(named()).compile(backend) as compiled:
        for inputs, wanted in zip(frames, litert_runs(named(), frames), strict=True):
            agree(compiled(*inputs), wanted)
        compiled.reset_state()
        agree(compiled(*frames[0]), litert_runs(named(), frames[:1])[0])


def test_state_in_bodies_with_changing_shapes_is_refused() -> None:
    """Such a body is built anew for each shape and could not keep a state."""
    body, x, count, limit = counting(ROW, OPEN)
    (y,) = body.add("CONCATENATION", [x, x], [ROW], {"axis": 1}, signatures=[OPEN])
    again = plus(body, read(body, variable(body)), body.constant(one(1)))
    assign(body, variable(body), again)
    (more,) = body.add("ADD", [count, body.constant(np.array(1, np.int32))], [COUNT])
    condition, _, count, limit_too = counting(ROW, OPEN)
    (goes_on,) = condition.add("LESS", [count, limit_too], [BOOL])
    main = Graph()
    once(main, 3)
    start = [main.input(ROW), main.constant(np.array(0, np.int32)), main.input(COUNT)]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    outputs = main.add("WHILE", start, [ROW, COUNT, COUNT], options, signatures=[OPEN])
    file = build((main, list(outputs)), (condition, [goes_on]), (body, [y, more, limit]), first())
    with pytest.raises(gpunn.UnsupportedError, match=r"WHILE v1: .*\(beside variables\)"):
        gpunn.load(file)


def test_a_computed_first_value(backend: str) -> None:
    """The subgraph of CALL_ONCE is a branch of the first run, before the stop."""
    graph, begin = Graph(), Graph()
    assign(begin, variable(begin), plus(begin, read(begin, variable(begin, b"w")), begin.constant(one(3))))
    once(graph, 2)
    once(graph, 1)
    x, times = graph.input(ONE, "x"), graph.input(TensorType(DType.INT32, (1,)), "times")
    (tiled,) = graph.add("TILE", [x, times], [float32(1)], signatures=[(-1,)])
    assign(graph, variable(graph), plus(graph, read(graph, variable(graph)), x))
    file = graph.build([tiled, read(graph, variable(graph))], called=[(begin, []), first(2, b"w")])
    frames = [[one(x), np.array([n], np.int32)] for x, n in ((1, 3), (2, 1), (3, 3))]
    with gpunn.load(file).compile(backend) as compiled:
        for inputs, wanted in zip(frames, litert_runs(file, frames), strict=True):
            agree(compiled(*inputs), wanted)


@pytest.mark.parametrize("code", ["IF", "WHILE"])
def test_a_body_with_a_variable_takes_a_tensor_of_unknown_shape(code: str, backend: str) -> None:
    """A body doubles the elements of x above 0; a variable counts its runs."""
    main, taking, leaving = Graph(), Graph(), Graph()
    once(main, 3)
    x, n = main.input(ROW, "x"), main.input(BOOL if code == "IF" else COUNT, "n")
    found = chosen(main, x)
    y = taking.input(float32(1), signature=(-1,))
    left = [taking.input(COUNT)] if code == "WHILE" else []
    count = variable(taking)
    assign(taking, count, plus(taking, read(taking, count), taking.constant(one(1))))
    results = list(taking.add("ADD", [y, y], [float32(1)], signatures=[(-1,)]))
    if code == "IF":
        z = leaving.input(float32(1), signature=(-1,))
        kept = leaving.add("ABS", [z], [float32(1)], signatures=[(-1,)])
        options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
        called, inputs, types = [(taking, results), (leaving, list(kept))], [n, found], [float32(1)]
    else:
        results += taking.add("SUB", [*left, taking.constant(np.array(1, np.int32))], [COUNT])
        leaving.input(float32(1), signature=(-1,))
        zero = leaving.constant(np.array(0, np.int32))
        goes_on = leaving.add("GREATER", [leaving.input(COUNT), zero], [BOOL])
        options = {"cond_subgraph_index": 2, "body_subgraph_index": 1}
        called, inputs, types = [(taking, results), (leaving, list(goes_on))], [found, n], [float32(1), COUNT]
    y, *_ = main.add(code, inputs, types, options, signatures=[(-1,)])
    file = main.build([y, read(main, variable(main))], called=[*called, first()])
    numbers = [np.array(v) for v in ((True, False, True) if code == "IF" else np.int32((2, 0, 1)))]
    rows = [np.array([row], np.float32) for row in ((3, -1, 2), (1, -1, -1), (1, 2, 3))]
    frames = [[x, n] for x, n in zip(rows, numbers, strict=True)]
    with gpunn.load(file).compile(backend) as compiled:
        for inputs, wanted in zip(frames, litert_runs(file, frames), strict=True):
            agree(compiled(*inputs), wanted)


def test_a_variable_of_any_size_is_refused() -> None:
    graph = Graph()
    huge = graph.tensor(float32(2**30, 2**30, 2**30), is_variable=True)
    with pytest.raises(gpunn.ModelError, match="at most 2147483647"):
        gpunn.load(graph.build(graph.add("NEG", [huge], [float32(1)])))
