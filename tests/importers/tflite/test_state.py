"""TFLite operators with state against LiteRT, over several runs and after a reset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import Model, load
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.harness import random
from tests.tflite_builder import ABSENT, Graph, litert_runs

RUNS = 4
# Sums of up to 30 products of numbers up to 1 round by 30 eps in each step; errors of the states shrink.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    """One operator: constants are arrays (float16 ones are quantised to int8), variables are shapes."""

    operator: str
    x: tuple[int, ...]
    inputs: Sequence[Array | tuple[int, ...] | None]
    outputs: Sequence[tuple[int, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)


def weights(seed: int, *shape: int) -> Array:
    """Return constants of up to 0.6, small enough for a recurrence to settle."""
    return random(seed, *shape, low=-0.6, high=0.6)


def rnn(batch: int, depth: int, units: int, **options: Any) -> Case:
    constants = (weights(k, *s) for k, s in enumerate(((units, depth), (units, units), (units,))))
    return Case("RNN", (batch, depth), [*constants, (batch, units)], [(batch, units)], options)


def svdf(batch: int, depth: int, units: int, rank: int, memory: int, **options: Any) -> Case:
    filters = units * rank
    constants = (weights(k, *s) for k, s in enumerate(((filters, depth), (filters, memory), (units,))))
    state = (batch, filters * memory)
    return Case("SVDF", (batch, depth), [*constants, state], [(batch, units)], {"rank": rank, **options})


def sequence_rnn(steps: int, batch: int, depth: int, units: int, **options: Any) -> Case:
    one = rnn(batch, depth, units)
    return sequence("UNIDIRECTIONAL_SEQUENCE_RNN", one, steps, options, [(units,)])


def sequence(
    operator: str, step: Case, steps: int, options: Mapping[str, Any], outputs: Sequence[tuple[int, ...]]
) -> Case:
    """Return a case of a sequence, from the operator's inputs after x and the last extents of its outputs."""
    batch, depth = step.x
    leading = (steps, batch) if options.get("time_major") else (batch, steps)
    return Case(operator, (*leading, depth), step.inputs, [(*leading, *o) for o in outputs], options)


def bidirectional_rnn(
    steps: int, batch: int, depth: int, units: tuple[int, int], auxiliary: str = "", **options: Any
) -> Case:
    """Return a case; `auxiliary` is an input "beside" x, with weights, or "instead" of x for direction 2."""
    inputs: list[Array | tuple[int, ...] | None] = []
    for k, n in enumerate(units):
        shapes = ((n, depth), (n, n), (n,))
        inputs += [*(weights(10 * k + j, *s) for j, s in enumerate(shapes)), (batch, n)]
    leading = (steps, batch) if options.get("time_major") else (batch, steps)
    inputs.append(weights(30, *leading, depth) if auxiliary else None)
    inputs += [weights(31 + k, n, depth) if auxiliary == "beside" else None for k, n in enumerate(units)]
    merged = [(sum(units),)] if options.get("merge_outputs") else [(n,) for n in units]
    step = Case("", (batch, depth), inputs, [])
    return sequence("BIDIRECTIONAL_SEQUENCE_RNN", step, steps, options, merged)


def lstm_weights(
    seed: int, depth: int, units: int, width: int | None, *, cifg: bool = False, peephole: bool = False
) -> list[Array | tuple[int, ...] | None]:
    """Return inputs 1 to 17 of LSTM; `width` is that of the projection, None without one."""
    shapes: list[tuple[int, ...] | None] = [*[(units, depth)] * 4, *[(units, width or units)] * 4]
    shapes += [*[(units,) if peephole else None] * 3, *[(units,)] * 4]
    shapes += [(width, units), (width,)] if width else [None, None]
    for index in (0, 4, 8, 11):
        shapes[index] = None if cifg else shapes[index]
    return [None if s is None else weights(seed + k, *s) for k, s in enumerate(shapes)]


def lstm(
    batch: int, depth: int, units: int, width: int | None = None, *, norm: bool = False, **how: Any
) -> Case:
    """Return a case of any variant of LSTM; options have their names in the schema."""
    variant = {k: how.pop(k) for k in ("cifg", "peephole") if k in how}
    inputs = [*lstm_weights(0, depth, units, width, **variant), (batch, width or units), (batch, units)]
    if norm:
        coefficients = [weights(40 + k, units) for k in range(4)]
        inputs += [None if variant.get("cifg") else coefficients[0], *coefficients[1:]]
    options = {"fused_activation_function": "TANH", **how}
    return Case("LSTM", (batch, depth), inputs, [(batch, width or units)], options)


def sequence_lstm(steps: int, case: Case, **options: Any) -> Case:
    outputs = [case.outputs[0][1:]]
    return sequence("UNIDIRECTIONAL_SEQUENCE_LSTM", case, steps, {**case.options, **options}, outputs)


def diagonal(case: Case) -> Case:
    """Return the case with diagonals as recurrent weights."""
    inputs = [
        np.diagonal(i).copy() if isinstance(i, np.ndarray) and 4 <= k < 8 else i
        for k, i in enumerate(case.inputs)
    ]
    return replace(case, inputs=inputs, options={**case.options, "diagonal_recurrent_tensors": True})


def states_as_vectors(case: Case) -> Case:
    """Return the case with states of rank 1, which LSTM operators may have too."""
    flat = [(math.prod(i),) if isinstance(i, tuple) else i for i in case.inputs]
    return replace(case, inputs=flat)


def bidirectional_lstm(
    steps: int, batch: int, depth: int, units: int, width: int | None = None, auxiliary: str = "", **how: Any
) -> Case:
    """Return a case of two directions of the same size; `auxiliary` as for the RNN."""
    variant = {k: how.pop(k) for k in ("cifg", "peephole") if k in how}
    directions = [lstm_weights(100 * k, depth, units, width, **variant) for k in range(2)]
    inputs = [*directions[0], *directions[1], *[(batch, width or units), (batch, units)] * 2]
    options = {"fused_activation_function": "TANH", "time_major": False, **how}  # the schema's default: True
    leading = (steps, batch) if options.get("time_major") else (batch, steps)
    inputs.append(weights(30, *leading, depth) if auxiliary else None)
    more = [weights(31 + k, units, depth) if auxiliary == "beside" else None for k in range(8)]
    inputs += [None if variant.get("cifg") and k % 4 == 0 else w for k, w in enumerate(more)]
    each = width or units
    merged = [(2 * each,)] if options.get("merge_outputs") else [(each,)] * 2
    step = Case("", (batch, depth), inputs, [])
    return sequence("BIDIRECTIONAL_SEQUENCE_LSTM", step, steps, options, merged)


def basic_lstm(batch: int, depth: int, units: int, **how: Any) -> Case:
    """Return a case of the kernel BASIC: states are inputs 1 and 4, all weights are input 2."""
    state, total = (batch, units), depth + units
    inputs = [state, weights(0, 4 * units, total), weights(1, 4 * units), state]
    outputs = [state, state, (batch, total), (batch, 4 * units)]
    options = {"fused_activation_function": "TANH", "kernel_type": 1, **how}
    return Case("LSTM", (batch, depth), inputs, outputs, options)


CLIPS = {"cell_clip": 0.4, "proj_clip": 0.2}

CASES = {
    "lstm": lstm(2, 5, 4),
    "lstm basic": basic_lstm(2, 5, 4),
    "lstm with all there is": lstm(3, 5, 6, 4, peephole=True, norm=True, **CLIPS),
    "lstm without input gate": lstm(1, 5, 6, 4, cifg=True, peephole=True, norm=True),
    "lstm sequence": sequence_lstm(5, lstm(2, 3, 4)),
    "lstm sequence, time first": sequence_lstm(5, lstm(2, 3, 4, 2, peephole=True, **CLIPS), time_major=True),
    "lstm sequence, normalised": sequence_lstm(3, lstm(2, 3, 4, norm=True, cifg=True)),
    "lstm sequence, of diagonals": sequence_lstm(3, diagonal(lstm(2, 3, 4, cifg=True, peephole=True))),
    "lstm both ways": bidirectional_lstm(4, 2, 3, 5, time_major=True),
    "lstm both ways, merged": bidirectional_lstm(
        3, 2, 3, 5, 2, peephole=True, merge_outputs=True, time_major=True, **CLIPS
    ),
    "lstm both ways, beside another": bidirectional_lstm(4, 2, 3, 5, auxiliary="beside", time_major=True),
    "lstm both ways, second apart": bidirectional_lstm(2, 3, 3, 5, cifg=True, auxiliary="instead"),
    "lstm both ways, states as vectors": states_as_vectors(bidirectional_lstm(3, 2, 4, 5, 2)),
    "rnn sequence": sequence_rnn(6, 2, 5, 7, fused_activation_function="TANH"),
    "rnn sequence, time first": sequence_rnn(4, 3, 5, 2, time_major=True),
    "rnn both ways": bidirectional_rnn(5, 2, 3, (4, 6), fused_activation_function="TANH"),
    "rnn both ways, merged": bidirectional_rnn(5, 2, 3, (4, 6), time_major=True, merge_outputs=True),
    "rnn both ways, beside another": bidirectional_rnn(3, 2, 4, (3, 3), "beside"),
    "rnn both ways, second apart": bidirectional_rnn(3, 2, 4, (3, 5), "instead", time_major=True),
    "rnn": rnn(2, 5, 7, fused_activation_function="TANH"),
    "rnn wide": rnn(1, 70, 33, fused_activation_function="RELU6"),
    "rnn without activation": rnn(3, 4, 2),
    "svdf": svdf(2, 5, 6, 1, 4),
    "svdf of rank 2": svdf(1, 3, 5, 2, 9, fused_activation_function="RELU"),
}


def file_of(case: Case, quantise: DType | None = None) -> bytes:
    """Return a file of the operator; with `quantise`, its weights are symmetric 8-bit integers."""
    graph = Graph()
    numbers = [graph.input(float32(*case.x))]
    for position, item in enumerate(case.inputs):
        if item is None:
            numbers.append(ABSENT)
        elif isinstance(item, tuple):
            numbers.append(graph.tensor(float32(*item), is_variable=True))
        elif quantise is not None and is_weight(case, position):
            stored, scale = symmetric(item)
            type = TensorType(quantise, item.shape, Quantization((scale,), (0,)))
            numbers.append(graph.tensor(type, data=stored.tobytes()))
        else:
            numbers.append(graph.constant(item))
    outputs = [float32(*shape) for shape in case.outputs]
    version = 1 if quantise is None else 3
    version = 4 if case.options.get("diagonal_recurrent_tensors") else version
    return graph.build(graph.add(case.operator, numbers, outputs, case.options, version=version))


def is_weight(case: Case, position: int) -> bool:
    """Tell whether an input is a matrix or a peephole, which hybrid operators have quantised."""
    item = case.inputs[position]
    peephole = "LSTM" in case.operator and position in (8, 9, 10, 25, 26, 27)
    return isinstance(item, np.ndarray) and (item.ndim == 2 or peephole)


def symmetric(values: Array) -> tuple[Array, float]:
    """Return int8 numbers and their scale."""
    scale = float(np.float32(np.abs(values).max() / 127))
    return np.round(values / scale).astype(np.int8), scale


def frames(case: Case) -> list[list[Array]]:
    """Return inputs for some runs; the first two are the same."""
    return [[random(max(seed, 1), *case.x, low=-1, high=1)] for seed in range(RUNS)]


def as_list(result: Any) -> list[Array]:
    return list(result) if isinstance(result, tuple) else [result]


def check_runs(file: bytes, inputs: list[list[Array]], backend: str, atol: float = TOLERANCE) -> None:
    """Compare gpunn with LiteRT run by run, then again after a reset."""
    expected = litert_runs(file, [*inputs, None, *inputs])
    with load(file).compile(backend=backend) as compiled:
        found = [as_list(compiled(*frame)) for frame in inputs]
        compiled.reset_state()
        found += [as_list(compiled(*frame)) for frame in inputs]
    for run, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=atol, err_msg=f"run {run}")
    if inputs[0][0].size:
        assert np.abs(found[0][0] - found[1][0]).max() > 100 * atol, "the state makes a difference"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_litert_from_run_to_run(case: Case, backend: str) -> None:
    check_runs(file_of(case), frames(case), backend)


@pytest.mark.parametrize("fused", ["RELU_N1_TO_1", "RELU6", "SIGN_BIT"])
def test_activations(fused: str, backend: str) -> None:
    """LiteRT's BASIC kernel ignores them. Sums whose signs decide on a result are not near 0 here."""
    how = {"fused_activation_function": fused}
    rnns = rnn(2, 5, 7, **how), sequence_rnn(3, 2, 5, 7, **how), bidirectional_rnn(3, 2, 5, (4, 3), **how)
    for case in (*rnns, svdf(2, 5, 6, 2, 3, **how), lstm(2, 5, 4, **how), basic_lstm(2, 5, 4, **how)):
        expected = litert_runs(file_of(case), frames(case))
        with load(file_of(case)).compile(backend=backend) as compiled:
            for frame, wanted in zip(frames(case), expected, strict=True):
                for a, b in zip(as_list(compiled(*frame)), wanted, strict=True):
                    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["rnn", "rnn sequence", "rnn both ways, merged", "svdf"])
def test_state_stays_on_the_gpu(name: str, gpu: str) -> None:
    case = CASES[name]
    with load(file_of(case)).compile(backend=gpu) as compiled:
        for frame in frames(case):
            (y,) = as_list(compiled(*frame))
        assert {p.backend for p in compiled.placement} == {"webgpu"}
        stats = compiled.stats
        assert (stats.bytes_uploaded, stats.bytes_read_back) == (RUNS * frame[0].nbytes, RUNS * y.nbytes)
        assert stats.state_bytes > 0


def test_operators_that_share_a_state_take_turns(backend: str) -> None:
    case = rnn(1, 3, 3, fused_activation_function="TANH")
    graph = Graph()
    x = graph.input(float32(1, 3))
    constants = [graph.constant(c) for c in case.inputs if isinstance(c, np.ndarray)]
    state = graph.tensor(float32(1, 3), "state", is_variable=True)
    for _ in range(2):
        (x,) = graph.add("RNN", [x, *constants, state], [float32(1, 3)], case.options)
    check_runs(graph.build([x]), frames(case), backend)


def stateful_add(data: bytes | None = None) -> Model:
    graph = Graph()
    state = graph.tensor(float32(2), "state", data, is_variable=True)
    (y,) = graph.add("ADD", [graph.input(float32(2)), state], [float32(2)])
    return load(graph.build([y, state]))


def test_any_operator_may_read_a_variable_with_a_first_value(backend: str) -> None:
    for data, start in ((None, 0), (np.float32([4, 4]).tobytes(), 4)):
        with stateful_add(data).compile(backend=backend) as compiled:
            for _ in range(2):
                y, state = compiled(np.float32([1, 2]))
                assert (y.tolist(), state.tolist()) == ([start + 1, start + 2], [start, start])


def test_a_state_that_is_no_variable_is_an_operand(backend: str) -> None:
    case = rnn(1, 3, 3)
    graph = Graph()
    x = graph.input(float32(1, 3))
    constants = [graph.constant(c) for c in case.inputs if isinstance(c, np.ndarray)]
    (y,) = graph.add("RNN", [x, *constants, graph.input(float32(1, 3))], [float32(1, 3)])
    model = load(graph.build([y]))
    assert (model.variables, model.updates) == ({}, {})
    w, r, bias = (c for c in case.inputs if isinstance(c, np.ndarray))
    a, h = random(1, 1, 3), random(2, 1, 3)
    with model.compile(backend=backend) as compiled:
        for _ in range(2):
            np.testing.assert_allclose(compiled(a, h), a @ w.T + h @ r.T + bias, atol=TOLERANCE)


def test_the_state_as_an_output_is_its_next_value(backend: str) -> None:
    case = rnn(1, 3, 3)
    graph = Graph()
    x = graph.input(float32(1, 3))
    constants = [graph.constant(c) for c in case.inputs if isinstance(c, np.ndarray)]
    state = graph.tensor(float32(1, 3), "state", is_variable=True)
    graph.add("RNN", [x, *constants, state], [float32(1, 3)])
    check_runs(graph.build([state]), frames(case), backend)


def test_wrong_states_are_refused() -> None:
    case = rnn(1, 3, 3)
    few = Case("RNN", (1, 3), case.inputs[:3], case.outputs)
    with pytest.raises(FormatError, match="operation 0, RNN: expected 5 inputs, got 4"):
        load(file_of(few))
    graph = Graph()
    type = TensorType(DType.INT8, (1, 3), Quantization((0.1,), (0,)))
    numbers = [graph.input(type), *(graph.constant(c) for c in case.inputs if isinstance(c, np.ndarray))]
    state = graph.tensor(float32(1, 3), is_variable=True)
    (y,) = graph.add("RNN", [*numbers, state], [float32(1, 3)])
    with pytest.raises(UnsupportedError, match=r"input 0 \(t0\) is INT8, only FLOAT32 is supported"):
        load(graph.build([y]))


def test_calls_of_a_subgraph_share_its_variables(backend: str) -> None:
    """The state of one unit adds up the inputs: 1 x + 1 h, twice in each run."""
    one = np.ones((1, 1), np.float32)
    cell, main = Graph(), Graph()
    state = cell.tensor(float32(1, 1), "state", is_variable=True)
    numbers = [cell.input(float32(1, 1)), *(cell.constant(v) for v in (one, one, np.zeros(1, np.float32)))]
    (h,) = cell.add("RNN", [*numbers, state], [float32(1, 1)])
    first, second = main.input(float32(1, 1)), main.input(float32(1, 1))
    called = [main.add("CALL", [x], [float32(1, 1)], {"subgraph": 1})[0] for x in (first, second)]
    with load(main.build(called, called=[(cell, [h])])).compile(backend=backend) as compiled:
        found = [[v.item() for v in compiled(one, 10 * one)] for _ in range(2)]
    assert found == [[1, 11], [12, 22]]
