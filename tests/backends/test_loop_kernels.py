"""Loops that one workgroup runs on the device, against round by round and worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.adapter import constants_divide_alike
from tests.backends.bits import assert_same_bits
from tests.keras_loops import CELLS, Layer, layer_file
from tests.ops.harness import random
from tests.ops.test_half import CASES, Case
from tests.rounds import by_rounds

NUMBER = TensorType(DType.INT32, ())
Body = Callable[[Model, Sequence[Operand]], Sequence[Operand]]


def constant(model: Model, value: Any, dtype: Any = np.int32) -> Operand:
    return model.constant("c", np.array(value, dtype))


def looped(rounds: int, types: Sequence[TensorType], compute: Body, *starts: Array | None) -> Model:
    """Return a loop over state of these types; what has no start is an input, and all of it is an output.

    `compute` gets the number of the round, from 0 on, and the state.
    """
    condition, body, model = Model(), Model(), Model()
    for graph in (condition, body):
        for k, type in enumerate((NUMBER, *types)):
            graph.input(f"s{k}", type)
    condition.output(*condition.add("less", [condition.inputs[0], constant(condition, rounds)]))
    (after,) = body.add("add", [body.inputs[0], constant(body, 1)])
    body.output(after, *compute(body, body.inputs))
    given = [*starts, *[None] * (len(types) - len(starts))]
    state = [
        model.input(f"x{k}", type) if start is None else model.constant(f"c{k}", start, type)
        for k, (type, start) in enumerate(zip(types, given, strict=True))
    ]
    attrs = {"condition": condition, "body": body}
    model.output(*model.add("while_loop", [constant(model, 0), *state], attrs)[1:])
    return model


def ran(model: Model, inputs: Sequence[Array], **how: Any) -> tuple[list[Array], gpunn.Compilation]:
    """Run a model on the GPU; return its outputs, and the compilation, closed."""
    with model.compile("webgpu", **how) as compiled:
        found = compiled(*inputs)
        return list(found) if isinstance(found, tuple) else [found], compiled


def place_of(compiled: gpunn.Compilation) -> tuple[str, str]:
    (found,) = [p for p in compiled.placement if p.operation.op == "while_loop" and not p.depth]
    return found.backend, found.reason


def agree(model: Model, inputs: Sequence[Array], monkeypatch: pytest.MonkeyPatch, **how: Any) -> list[Array]:
    """Assert that a loop runs on the device, with the bits of round by round; return its results."""
    found, compiled = ran(model, inputs, **how)
    assert place_of(compiled) == ("webgpu", "")
    with monkeypatch.context() as patch:
        by_rounds(patch)
        expected, compiled = ran(model, inputs, **how)
        assert place_of(compiled)[0] == "cpu"
    for y, z in zip(found, expected, strict=True):
        assert_same_bits(y, z)
    return found


@pytest.mark.usefixtures("steps_stay")
def test_a_loop_is_one_submission_and_reads_back_only_results(gpu: str) -> None:
    layer = Layer("lstm", 20)
    with gpunn.load(layer_file(layer)).compile(gpu) as compiled:
        for _ in range(2):
            compiled(random(1, 1, 20, layer.features))
        stats = compiled.stats
    assert (stats.runs, stats.submits) == (2, 2)
    assert stats.bytes_read_back == 2 * 20 * layer.units * 4


@pytest.mark.sample(2)
@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.usefixtures("steps_stay")
def test_recurrent_layers(
    cell: str, every: bool, updates: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Layer(cell, 9, units=12, every=every, updates=updates)
    model, x = gpunn.load(layer_file(layer)), random(1, 1, 9, layer.features)
    (y,) = agree(model, [x], monkeypatch)
    with model.compile("cpu") as compiled:
        np.testing.assert_allclose(y, compiled(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_rounds(rounds: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = looped(rounds, [float32(70)], lambda body, s: body.add("add", [s[1], s[1]]))
    x = random(0, 70)
    (y,) = agree(model, [x], monkeypatch)
    np.testing.assert_array_equal(y, x * np.float32(2**rounds))


def test_many_rounds_are_several_dispatches_of_one_submission(gpu: str) -> None:
    one = np.float32(1)
    model = looped(
        9000, [float32(3)], lambda body, s: body.add("add", [s[1], constant(body, one, np.float32)])
    )
    (y,), compiled = ran(model, [np.arange(3, dtype=np.float32)])
    np.testing.assert_array_equal(y, np.arange(3) + 9000)
    most = open_device(None, False).properties.max_loop_iterations
    assert (compiled.stats.submits, compiled.stats.dispatches > 1) == (1, most is not None)


def test_long_loops_are_divided_and_very_long_ones_are_the_hosts(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = np.float32(1)
    model = looped(20, [float32(3)], lambda body, s: body.add("add", [s[1], constant(body, one, np.float32)]))
    monkeypatch.setattr("gpunn.backends.webgpu.loop.MAX_DISPATCH_WORK", 8)
    (y,), compiled = ran(model, [np.arange(3, dtype=np.float32)])
    np.testing.assert_array_equal(y, np.arange(3) + 20)
    assert (compiled.stats.submits, compiled.stats.dispatches) == (1, 3), "8 rounds of one operation in each"
    monkeypatch.setattr("gpunn.backends.webgpu.loop.MAX_LOOP_WORK", 19)
    monkeypatch.setattr("gpunn.backends.webgpu.loop_rounds.MAX_WORK", 19)
    (y,), compiled = ran(model, [np.arange(3, dtype=np.float32)])
    np.testing.assert_array_equal(y, np.arange(3) + 20)
    reason = "the host runs each round: its rounds are more than one submission should do"
    assert place_of(compiled) == ("cpu", reason)


def test_state_that_changes_places(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """(a, b, c, d) -> (b, c, a reshaped twice, 7)."""

    def turn(body: Model, s: Sequence[Operand]) -> list[Operand]:
        (flat,) = body.add("reshape", [s[1]], {"shape": (3, 2)})
        (again,) = body.add("reshape", [flat], {"shape": (2, 3)})
        return [s[2], s[3], again, constant(body, [7, 7], np.float32)]

    types = [float32(2, 3)] * 3 + [float32(2)]
    for rounds in (1, 2, 4):
        inputs = [random(k, 2, 3) for k in range(3)] + [random(4, 2)]
        found = agree(looped(rounds, types, turn), inputs, monkeypatch)
        for k in range(3):
            np.testing.assert_array_equal(found[k], inputs[(k + rounds) % 3])
        np.testing.assert_array_equal(found[3], [7, 7])


def rows_put(clip: bool, read_again: bool) -> Body:
    """(list, sums) -> the list with row i set to a sum, which is read once more if asked."""

    def compute(body: Model, s: Sequence[Operand]) -> list[Operand]:
        i, rows, total = s
        (index,) = body.add("reshape", [i], {"shape": (1,)})
        (start,) = body.add("concat", [index, constant(body, [0])], {"axis": 0})
        (sums,) = body.add("add", [total, total])
        (row,) = body.add("reshape", [sums], {"shape": (1, 5)})
        (after,) = body.add("dynamic_update_slice", [rows, row, start], {"clip": clip})
        if read_again:
            (most,) = body.add("reduce_max", [rows], {"axes": (0,)})
            (sums,) = body.add("add", [sums, most])
        return [after, sums]

    return compute


@pytest.mark.parametrize("read_again", [False, True])
@pytest.mark.parametrize("clip", [False, True])
def test_rows_are_put_into_a_list(
    clip: bool, read_again: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place unless the body reads the list as it was."""
    x = random(0, 5)
    model = looped(4, [float32(6, 5), float32(5)], rows_put(clip, read_again))
    rows, total = agree(model, [np.zeros((6, 5), np.float32), x], monkeypatch)
    expected, sums = np.zeros((6, 5), np.float32), x
    for k in range(4):
        most, sums = expected.max(0), sums + sums
        expected[k] = sums
        sums = sums + most if read_again else sums
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(total, sums)


def test_elements_of_8_bits(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers and truth values, in shapes that do not fill words."""
    scale = Quantization((0.5,), (3,))

    def step(body: Model, s: Sequence[Operand]) -> list[Operand]:
        _, small, bytes_, flags = s
        (quantised,) = body.add("add", [small, small])
        (same,) = body.add("strided_slice", [bytes_], {"begin": (None,), "end": (None,), "strides": (-1,)})
        (turned,) = body.add("logical_not", [flags])
        return [quantised, same, turned]

    types = [
        TensorType(DType.INT8, (7,), scale),
        TensorType(DType.UINT8, (5,), scale),
        TensorType(DType.BOOL, (1, 9)),
    ]
    inputs = [
        np.array([-128, -9, 0, 3, 4, 90, 127], np.int8),
        np.array([0, 9, 200, 255, 3], np.uint8),
        np.arange(9).reshape(1, 9) % 2 == 0,
    ]
    found = agree(looped(3, types, step), inputs, monkeypatch)
    np.testing.assert_array_equal(found[1], inputs[1][::-1])
    np.testing.assert_array_equal(found[2], ~inputs[2])


def test_elements_of_16_and_64_bits(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(body: Model, s: Sequence[Operand]) -> list[Operand]:
        _, halves, wide = s
        (tiny,) = body.add("neg", [halves])
        (sums,) = body.add("mul", [wide, constant(body, -3, np.int64)])
        return [tiny, sums]

    types = [TensorType(DType.INT16, (3,), Quantization((0.25,), (0,))), TensorType(DType.INT64, (3,))]
    inputs = [np.array([-32768, 5, 32767], np.int16), np.array([2**40, -5, 7], np.int64)]
    found = agree(looped(3, types, step), inputs, monkeypatch)
    np.testing.assert_array_equal(found[1], inputs[1] * -27)


@pytest.mark.usefixtures("steps_stay")
def test_relaxed_compilations(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer("gru", 6)
    model, x = gpunn.load(layer_file(layer)), random(1, 1, 6, layer.features)
    (y,) = agree(model, [x], monkeypatch, relaxed=True)
    with model.compile("cpu") as compiled:
        np.testing.assert_allclose(y, compiled(x), atol=5e-3)


def test_a_variable_around_a_loop(gpu: str) -> None:
    model = looped(3, [float32(4)], lambda body, s: body.add("add", [s[1], s[1]]))
    around = Model()
    kept = around.variable("kept", float32(4), np.ones(4, np.float32))
    (loop,) = model.operations
    result = around.add("while_loop", [constant(around, 0), kept], loop.attrs)[1]
    around.update(kept, result)
    around.output(result)
    with around.compile(gpu) as compiled:
        assert [float(compiled()[0]) for _ in range(3)] == [8, 64, 512]


def deciding(body: Model, s: Sequence[Operand]) -> list[Operand]:
    (flag,) = body.add("greater", [s[0], constant(body, 0)])
    then, otherwise = Model(), Model()
    then.output(then.input("x", float32(3)))
    otherwise.output(*otherwise.add("neg", [otherwise.input("x", float32(3))]))
    return list(body.add("if_else", [flag, s[1]], {"then": then, "otherwise": otherwise}))


def picking(body: Model, s: Sequence[Operand]) -> list[Operand]:
    (rounded,) = body.add("cast", [s[1]], {"dtype": "int32"})
    return list(body.add("gather", [s[1], rounded]))


REFUSED: dict[str, tuple[Body, TensorType, str]] = {
    "of the host": (deciding, float32(3), "if_else: the host decides which branch runs"),
    "checked": (picking, float32(3), "gather: values are checked in each round"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_device_cannot_do_runs_on_the_host(case: str, gpu: str) -> None:
    compute, type, reason = REFUSED[case]
    model = looped(3, [type], compute)
    x = np.arange(type.size, dtype=np.float32).reshape(type.shape)
    (y,), compiled = ran(model, [x])
    found = place_of(compiled)
    assert found[0] == "cpu"
    assert re.search(f"the host runs each round: {reason}", found[1]), found[1]
    with model.compile("cpu") as on_host:
        np.testing.assert_allclose(y, on_host(x), rtol=1e-4)


def in_a_loop(case: Case) -> tuple[Model, list[Array]]:
    """Return an op in the body of a loop of two rounds, on float32, with its inputs."""
    op, values, attrs, constants = case
    constants = (*constants, *(k for k, v in enumerate(values) if v.dtype == np.int32))  # so guards hold
    inputs = [v.astype(np.float32) if v.dtype == np.float16 else v for v in values]
    plain = Model()
    operands = [
        plain.constant("c", v) if k in constants else plain.input("x", TensorType(DType.of(v.dtype), v.shape))
        for k, v in enumerate(inputs)
    ]
    results = [o.type for o in plain.add(op, operands, attrs)]
    given = [k for k in range(len(inputs)) if k not in constants]

    def compute(body: Model, s: Sequence[Operand]) -> list[Operand]:
        states = iter(s[1:])
        taken = [body.constant("c", v) if k in constants else next(states) for k, v in enumerate(inputs)]
        return [*(o for k, o in enumerate(taken) if k in given), *body.add(op, taken, attrs)]

    types = [*(operands[k].type for k in given), *results]
    starts: list[Any] = [None] * len(given)
    starts += [np.zeros(t.shape, t.dtype.numpy) for t in results]
    model = looped(2, types, compute, *starts)
    model.outputs[:] = model.outputs[len(given) :]
    return model, [inputs[k] for k in given]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c[0] != "dequantize"],
    ids=lambda case: f"{case[0]}{[v.shape for v in case[1]]}",
)
def test_every_shader_works_in_a_loop(case: Case, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the same in each round would leave the body.

    Loops have numbers of the operation as constants. A driver that computes otherwise with these is off by a
    few roundings: those of coordinates up to 6, times differences of pixels up to 8, with quotients that WGSL
    lets be off by 2.5 units in the last place.
    """
    atol = 0 if constants_divide_alike() else 4 * 2.5 * 6 * 8 * 2.0**-24
    monkeypatch.setattr("gpunn.passes.loops._may_move", lambda operation: False)
    monkeypatch.setattr("gpunn.backends.webgpu.loop_writer.MAX_WORK", 1 << 20)
    model, inputs = in_a_loop(case)
    found, compiled = ran(model, inputs)
    if place_of(compiled)[0] != "webgpu":
        pytest.skip(place_of(compiled)[1])
    by_rounds(monkeypatch)
    for y, z in zip(found, ran(model, inputs)[0], strict=True):
        np.testing.assert_allclose(y, z, rtol=0, atol=atol, strict=True)


def test_results_of_loops_are_copied_into_concatenations(gpu: str) -> None:
    """A loop writes buffers itself, so its results cannot lie in rows of another tensor."""
    (loop,) = looped(3, [float32(2, 4)], lambda body, s: body.add("neg", [s[1]])).operations
    model = Model()
    x = model.input("x", float32(2, 4))
    negated = model.add("while_loop", [constant(model, 0), x], loop.attrs)[1]
    model.output(*model.add("concat", [negated, *model.add("relu6", [x])], {"axis": 1}))
    value = random(1, 2, 4)
    (found,), compiled = ran(model, [value])
    assert place_of(compiled) == ("webgpu", "")
    assert [len(p.kernels) for p in compiled.placement if p.operation.op == "concat"] == [1]
    np.testing.assert_array_equal(found, np.concatenate([-value, np.clip(value, 0, 6)], 1))
