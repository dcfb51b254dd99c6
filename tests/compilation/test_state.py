"""Variables: the state of a model, which stays on its device from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu import lower as lowering
from gpunn.graph.operation import Lifetime, Operand, Operation
from gpunn.model import Model
from gpunn.types import Array, DType, Quantization, TensorType, float32

SUSTAINED = gpunn.Preference.SUSTAINED_SPEED


def host_only(*ops: str) -> Callable[..., Any]:
    """lower(), but some ops have no kernel."""
    real = lowering.lower
    return lambda o, *device: "forced by a test" if o.op in ops else real(o, *device)


def total() -> Model:
    """A model: the sum of all inputs so far, and twice that minus its mean."""
    model = Model("total")
    x, before = model.input("x", float32(3)), model.variable("sum", float32(3))
    (after,) = model.add("add", [x, before], names=["after"])
    (twice,) = model.add("mul", [after, model.constant("two", np.float32([2]))], names=["twice"])
    (y,) = model.add("tanh", [twice])
    model.update(before, after)
    model.output(twice, y)
    return model


def sums(model: gpunn.Compilation, frames: Iterable[Any]) -> list[float]:
    """The first element of half the first output of each run."""
    return [float(model(np.full(3, f, np.float32))[0][0]) / 2 for f in frames]


@pytest.mark.parametrize("host", [(), ("add",), ("mul",), ("tanh",), ("add", "tanh")])
def test_a_variable_keeps_its_value_between_runs_on_every_device(
    host: tuple[str, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only(*host))
    with total().compile(backend=backend) as compiled:
        assert sums(compiled, [1, 2, 3]) == [1, 3, 6]
        compiled.reset_state()
        assert sums(compiled, [5, 0]) == [5, 5]


@pytest.mark.parametrize("host", [(), ("add",), ("tanh",)])
def test_runs_see_the_state_in_order_of_submission(
    host: tuple[str, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only(*host))
    frames = [np.full(3, n, np.float32) for n in range(1, 12)]
    with total().compile(backend=backend, preference=SUSTAINED) as compiled:
        events = [compiled.submit(f) for f in frames]
        assert float(compiled(np.zeros(3, np.float32))[0][0]) == 2 * 66, "a run waits for what was submitted"
        found = [float(e.result()[0][0]) for e in reversed(events)]
        assert found[::-1] == [n * (n + 1) for n in range(1, 12)]
        event = compiled.submit(frames[0])
        compiled.reset_state()
        assert sums(compiled, [0]) == [0]
        assert float(event.result()[0][0]) == 2 * 67
        streamed = [float(y[0]) for y, _ in compiled.stream(frames)]
        assert streamed == [n * (n + 1) for n in range(1, 12)]


def test_state_stays_on_the_device_and_is_never_copied_to_the_host(gpu: str) -> None:
    with total().compile(backend=gpu) as compiled:
        assert {p.backend for p in compiled.placement} == {"webgpu"}
        made = compiled.stats.buffers
        sums(compiled, range(10))
        stats = compiled.stats
        assert (stats.bytes_uploaded, stats.bytes_read_back) == (10 * 12, 10 * 2 * 12)
        assert (stats.submits, stats.state_bytes, stats.buffers) == (10, 16, made)


def test_only_what_the_host_needs_of_the_state_crosses(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has the variable: a run uploads it like x, and reads back only its next value."""
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only("mul"))
    model = Model()
    x, before = model.input("x", float32(3)), model.variable("sum", float32(3), np.float32([1, 2, 3]))
    (after,) = model.add("add", [x, before])
    (product,) = model.add("mul", [before, x])
    model.update(before, after)
    model.output(product)
    with model.compile(backend=gpu) as compiled:
        assert compiled(np.ones(3, np.float32)).tolist() == [1, 2, 3]
        assert compiled(np.ones(3, np.float32)).tolist() == [2, 3, 4]
        stats = compiled.stats
        assert (stats.state_bytes, stats.bytes_uploaded, stats.bytes_read_back) == (0, 2 * 24, 2 * 12)


def test_updates_by_inputs_constants_and_one_another_happen_at_once(backend: str) -> None:
    """A chain of delays, a variable that is set to a constant, two that swap values, one without update."""
    model = Model()
    x = model.input("x", float32(1))
    one, two, fixed, left, right, idle = (
        model.variable(n, float32(1), np.float32([k])) for k, n in enumerate("abcdef")
    )
    for variable, operand in (
        (one, x),
        (two, one),
        (fixed, model.constant("nine", np.float32([9]))),
        (left, right),
        (right, left),
    ):
        model.update(variable, operand)
    seen = [model.add("neg", [v])[0] for v in (two, fixed, left, right, idle)]
    model.output(*seen, one)
    value = np.float32([7])
    with model.compile(backend=backend) as compiled:
        assert [-float(v[0]) for v in compiled(value)] == [1, 2, 3, 4, 5, 0]
        value[:] = 100
        found = compiled(np.float32([8]))
        assert [-float(v[0]) for v in found] == [0, 9, 4, 3, 5, -7], "what was fed was copied"
        assert [-float(v[0]) for v in compiled(np.float32([0]))] == [7, 9, 3, 4, 5, -8]


def test_variables_may_be_aliases_or_empty(backend: str) -> None:
    model = Model()
    x, state = model.input("x", float32(6)), model.variable("s", float32(2, 3), np.ones((2, 3), np.float32))
    nothing = model.variable("nothing", float32(0, 3))
    (flat,) = model.add("reshape", [state], {"shape": (6,)})
    (y,) = model.add("add", [x, flat])
    (square,) = model.add("reshape", [y], {"shape": (2, 3)})
    model.update(state, square)
    model.update(nothing, *model.add("neg", [nothing]))
    model.output(y)
    with model.compile(backend=backend) as compiled:
        for n in (2, 3, 4):
            assert compiled(np.ones(6, np.float32)).tolist() == [n] * 6
        assert compiled.stats.bytes_read_back == (0 if backend == "cpu" else 3 * 24)


def test_a_run_that_fails_leaves_the_state_as_it_was(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Host operations fail before, between and after device operations."""
    prepared, failing = Operation.prepared, set[str]()

    def prepared_to_fail(self: Operation) -> Any:
        compute = prepared(self)

        def run(values: Any) -> Any:
            if self.op in failing:
                raise MemoryError("none left")
            return compute(values)

        return run

    monkeypatch.setattr(Operation, "prepared", prepared_to_fail)
    monkeypatch.setattr(Operation, "direct", lambda self: None)
    for broken in ("add", "mul", "tanh"):
        monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only(broken))
        with total().compile(backend=backend) as compiled:
            assert sums(compiled, [1]) == [1]
            failing.add(broken)
            with pytest.raises(gpunn.DeviceError, match="none left"):
                compiled.submit(np.ones(3, np.float32)).wait()
            failing.clear()
            with pytest.raises(gpunn.ModelError, match="must have shape"):
                compiled(np.ones(4, np.float32))
            assert sums(compiled, [2]) == [3]


@pytest.mark.parametrize("host", [(), ("tanh",)])
def test_each_run_of_many_threads_updates_the_state_once(
    host: tuple[str, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only(*host))
    frame = np.ones(3, np.float32)
    with total().compile(backend=backend, preference=SUSTAINED) as compiled, ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda k: compiled(frame) if k % 2 else compiled.submit(frame).result(), range(40))
        assert sorted(float(y[0][0]) for y in found) == [2 * n for n in range(1, 41)]


def test_a_closed_compilation_has_no_state(backend: str) -> None:
    compiled = total().compile(backend=backend)
    compiled.close()
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled.reset_state()


def test_zeros_of_a_quantised_variable_are_its_zero_points() -> None:
    model = Model()
    plain = model.variable("plain", TensorType(DType.UINT8, (2, 3), Quantization((0.5,), (7,))))
    channels = model.variable("channels", TensorType(DType.INT8, (2, 2), Quantization((0.5, 1), (1, -2), 1)))
    assert model.variables[plain].tolist() == [[7] * 3] * 2
    assert model.variables[channels].tolist() == [[1, -2]] * 2
    huge = model.variable("huge", float32(2**31 - 1))
    assert model.variables[huge].strides == (0,), "zeros take no memory"
    assert {o.lifetime for o in model.operands()} == {Lifetime.VARIABLE}


def update(model: Model, variable: Operand, value: Array) -> None:
    model.update(variable, model.constant("value", value))


def test_wrong_updates_are_refused() -> None:
    model = Model("m")
    x, state = model.input("x", float32(2)), model.variable("s", float32(2))
    with pytest.raises(gpunn.ModelError, match=r"variable 'v' should be float32\[2\], got float64\[2\]"):
        model.variable("v", float32(2), np.zeros(2))
    with pytest.raises(gpunn.ModelError, match=r"'x' float32.* is no variable of model 'm'"):
        model.update(x, x)
    with pytest.raises(gpunn.ModelError, match=r"the update of 's' must be float32\[2\], got .*float32\[3\]"):
        update(model, state, np.zeros(3, np.float32))
    with pytest.raises(gpunn.ModelError, match=r"the update of 's': .* is neither an input or variable"):
        model.update(state, Model().variable("other", float32(2)))
    model.update(state, x)
    with pytest.raises(gpunn.ModelError, match="the update of 's' by 'value': 'x' does that already"):
        update(model, state, np.zeros(2, np.float32))
